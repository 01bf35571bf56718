package versions

import (
	"context"
	"errors"
	"syscall"

	"wsfs/store"
)

// Stream puts changes into words that come oldest first, one entry for each name that a change touched. Nothing is folded:
// what a log shows as one line may be several entries.
type Stream struct {
	l    *logger
	list []*Entry
	at   store.TimelineID
}

// NewStream begins one.
func NewStream(st *store.Store) *Stream {
	s := &Stream{}
	s.l = &logger{st: st, places: newPlaces(st), out: func(e *Entry) error {
		s.list = append(s.list, e)
		return nil
	}}
	return s
}

// Change is the entries of the next change.
func (s *Stream) Change(ctx context.Context, row *store.ChangeRow) ([]*Entry, error) {
	moves := row.Timeline != s.at
	for i := range row.Items {
		moves = moves || row.Items[i].FromName != "" || row.Items[i].Op == store.OpRmdir || gone(&row.Items[i])
	}
	if s.at = row.Timeline; moves { // where directories are may be something else now
		s.l.places.forget()
	}
	s.list = nil
	s.l.places.at(row)
	for i := range row.Items {
		if err := s.l.item(ctx, row, &row.Items[i], nil); err != nil {
			return nil, err
		}
	}
	if moves {
		s.l.places.forget()
	}
	return s.list, nil
}

// Move is the entry of a line of the reflog; nil if it tells of no move of the workspace to another state.
func (s *Stream) Move(ctx context.Context, ref *store.Ref) (*Entry, error) {
	switch ref.Why {
	case WhyRollback, WhyUndo, WhyRedo:
	default:
		return nil, nil
	}
	s.list = nil
	s.at = 0
	m := &moves{l: s.l}
	if err := m.pass(ctx, ref); err != nil && !errors.Is(err, syscall.ENOENT) {
		return nil, err
	}
	if len(s.list) == 0 {
		return nil, nil
	}
	return s.list[0], nil
}
