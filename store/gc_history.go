package store

import (
	"context"
	"fmt"
)

// ForgottenError is a list of changes that is not whole, because some of them were collected. It wraps ErrCollected.
type ForgottenError struct {
	After, From Seq // what was asked for, and from where on all are there
}

func (e *ForgottenError) Error() string {
	return fmt.Sprintf("not all changes after %d are kept any more (`wsfs retain` shows what is); those after %d are", e.After, e.From)
}

// Unwrap makes errors.Is(err, ErrCollected) true.
func (e *ForgottenError) Unwrap() error { return ErrCollected }

// WholeAfter returns a *ForgottenError unless all changes that a workspace made after a seq are there.
func (s *Store) WholeAfter(ctx context.Context, ws WorkspaceID, after Seq) error {
	from := Seq(0)
	_, err := scanAll(ctx, s.r, 1, `SELECT COALESCE(max(t.gc_seq), 0) FROM timeline t WHERE t.gc_seq > ? AND t.head_seq > ?
		AND t.id IN (SELECT timeline_id FROM workspace_ref WHERE workspace_id = ?)`, []any{int64(after), int64(after), int64(ws)}, func(c *cells) error {
		from = Seq(c.int(0))
		return nil
	})
	if err == nil && from > 0 {
		return &ForgottenError{After: after, From: from}
	}
	return s.dbError("find out how far back the history goes", err)
}

// CompleteFrom is the seq after which all changes that led to a state are there, and when the change with it was made, in ns since the
// epoch; 0 if none was collected. Before it, those are there that something which can be read needs.
func (s *Store) CompleteFrom(ctx context.Context, v *View) (from Seq, at int64, err error) {
	path, err := s.Lineage(ctx, v)
	if err != nil {
		return 0, 0, err
	}
	for _, seg := range path {
		found := false
		if _, err := scanAll(ctx, s.r, 2, `SELECT min(t.gc_seq, ?), (SELECT c.at FROM change c WHERE c.timeline_id = t.id AND c.seq <= min(t.gc_seq, ?)
			ORDER BY c.seq DESC LIMIT 1) FROM timeline t WHERE t.id = ? AND t.gc_seq > 0 AND t.gc_seq <= t.head_seq`,
			[]any{int64(seg.Cut), int64(seg.Cut), int64(seg.Timeline)}, func(c *cells) error {
				found, from, at = true, Seq(c.int(0)), c.int(1)
				return nil
			}); found || err != nil {
			return from, at, s.dbError("find out how far back the history goes", err)
		}
	}
	return 0, 0, nil
}
