package store

import (
	"context"
	"errors"
)

// Queued are removals at the end of a timeline that were acknowledged and that the database need not have yet.
type Queued struct {
	timeline TimelineID
	after    Seq // everything up to here is in the database, and more may be by now
	rows     []stepRow
	s        *Store
}

// QueuedRemovals are the changes at the end of a timeline, up to a seq, that the database did not have when it was asked. It
// returns nil if there are none, or if anything else is queued than removals of names on that timeline and ends of commands:
// these change nothing that a state before them shows, and their items say all that there is to know of them.
func (s *Store) QueuedRemovals(timeline TimelineID, upTo Seq) *Queued {
	if s.pipe == nil {
		return nil
	}
	q := &Queued{timeline: timeline, s: s}
	p := s.pipe
	p.mu.Lock()
	ops := append([]queued(nil), p.queue...)
	stalled := p.stalled
	p.mu.Unlock()
	if stalled != nil {
		return nil
	}
	last := Seq(0)
	for _, w := range ops {
		op := w.op
		if op.Pointer != nil || op.Amend || op.Elide != nil || len(op.Tags)+len(op.Pins)+len(op.Undoes)+len(op.Contents) > 0 {
			return nil
		}
		if op.Timeline == 0 {
			continue
		}
		if op.Timeline != timeline || op.Seq > upTo {
			return nil
		}
		if last == 0 {
			q.after = op.Seq - 1
		}
		last = op.Seq
		st := Step{Timeline: op.Timeline, Seq: op.Seq, Kind: op.Kind}
		if op.Who.Command != nil {
			st.Command = op.Who.Command.ID
		}
		if op.Kind != OpUnlink && op.Kind != OpRmdir {
			return nil
		}
		for _, it := range op.Items {
			if it.Op != OpUnlink && it.Op != OpRmdir {
				return nil
			}
			q.rows = append(q.rows, stepRow{step: st, item: it})
		}
	}
	if last != upTo || len(q.rows) == 0 {
		return nil
	}
	return q
}

// After is the seq up to which the database has the timeline.
func (q *Queued) After() Seq { return q.after }

// Steps returns a context with which StepItems has the timeline up to the last of what is queued, without versions, and needs no
// applier for it. What comes before the queue and after one seq is read at once; ok is false if that is too much.
func (q *Queued) Steps(ctx context.Context, after Seq) (with context.Context, ok bool, err error) {
	w := &warmSteps{s: q.s, timeline: q.timeline, after: min(after, q.after), queued: true, done: make(chan struct{})}
	close(w.done)
	err = q.s.stepItems(ctx, Span{Timeline: q.timeline, After: w.after, UpTo: q.after}, false, func(st *Step, it *Item, _ *Version) error {
		if len(w.rows) == warmMost {
			return errTooMany
		}
		w.rows = append(w.rows, stepRow{step: *st, item: *it})
		return nil
	})
	if errors.Is(err, errTooMany) {
		return nil, false, nil
	}
	w.rows = append(w.rows, q.rows...)
	w.upTo = q.rows[len(q.rows)-1].step.Seq
	return context.WithValue(ctx, warmKey{}, w), true, err
}

var errTooMany = errors.New("too many changes to keep")
