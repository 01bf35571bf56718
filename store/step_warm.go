package store

import (
	"context"
	"slices"
	"time"
)

// warmSteps are the items of a span, read while the changes of it were still on their way into the database: what is applied
// of a span does not change any more, unless a version is amended. It belongs to one request, which finds it in its context.
type warmSteps struct {
	s           *Store
	timeline    TimelineID
	after, upTo Seq // what rows are complete for
	amends      int64
	rows        []stepRow
	queued      bool          // the last of them may be in no table yet, and none has its version
	done        chan struct{} // closed when the fields above stay as they are
}

type warmKey struct{}

const (
	warmMost  = 1 << 18 // items that are kept
	warmPause = 4 * time.Millisecond
)

// WarmSteps begins to read what StepItems will be asked for, beside the applier, and returns a context with which StepItems uses
// that. Whoever calls it waits for the applier next, up to the end of the span. stop frees it.
func (s *Store) WarmSteps(ctx context.Context, sp Span) (warm context.Context, stop func()) {
	w := &warmSteps{s: s, timeline: sp.Timeline, after: sp.After, upTo: sp.After, amends: s.amends.Load(), done: make(chan struct{})}
	beside, cancel := context.WithCancel(ctx)
	go func() {
		defer close(w.done)
		w.read(beside, sp.UpTo)
	}()
	return context.WithValue(ctx, warmKey{}, w), func() { cancel(); <-w.done }
}

// read ends early where something goes wrong: what it has is right all the same.
func (w *warmSteps) read(ctx context.Context, upTo Seq) {
	pause := time.NewTicker(warmPause)
	defer pause.Stop()
	for w.upTo < upTo && len(w.rows) < warmMost {
		_, head, err := w.s.stepEnds(ctx, Span{Timeline: w.timeline, After: w.upTo, UpTo: upTo})
		if err != nil {
			return
		}
		if head < upTo && head < w.upTo+stepWindow {
			select {
			case <-pause.C:
				continue
			case <-ctx.Done():
				return
			}
		}
		rows := len(w.rows)
		err = w.s.stepItems(ctx, Span{Timeline: w.timeline, After: w.upTo, UpTo: head}, true, func(st *Step, it *Item, v *Version) error {
			w.rows = append(w.rows, stepRow{*st, *it, v})
			return nil
		})
		if err != nil {
			w.rows = w.rows[:rows]
			return
		}
		w.upTo = head
	}
}

// warmOf is what a context has of a span, nil if nothing or if it does not hold any more.
func (s *Store) warmOf(ctx context.Context, sp Span) *warmSteps {
	w, _ := ctx.Value(warmKey{}).(*warmSteps)
	if w == nil || w.s != s || w.timeline != sp.Timeline || w.after >= sp.UpTo {
		return nil
	}
	<-w.done
	if !w.queued && s.amends.Load() != w.amends || min(w.upTo, sp.UpTo) <= max(w.after, sp.After) {
		return nil
	}
	return w
}

// each calls fn with the items of the changes after one seq, up to another.
func (w *warmSteps) each(after, upTo Seq, versions bool, fn func(*Step, *Item, *Version) error) error {
	i, _ := slices.BinarySearchFunc(w.rows, after+1, func(r stepRow, seq Seq) int { return int(r.step.Seq - seq) })
	for ; i < len(w.rows) && w.rows[i].step.Seq <= upTo; i++ {
		st, it, v := w.rows[i].step, w.rows[i].item, w.rows[i].v
		if !versions {
			v = nil
		}
		if err := fn(&st, &it, v); err != nil {
			return err
		}
	}
	return nil
}
