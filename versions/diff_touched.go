package versions

import (
	"context"

	"wsfs/store"
)

// touched is what changes between two states named: the only places where they can differ.
type touched struct {
	inos  map[store.Ino]bool
	names map[store.DirName]bool
}

func newTouched() *touched {
	return &touched{inos: map[store.Ino]bool{}, names: map[store.DirName]bool{}}
}

// collect reads the items of all changes that are in the past of a or b but not of both.
func (t *touched) collect(ctx context.Context, st *store.Store, a, b *store.View, command store.CommandID) error {
	spans, err := apart(ctx, st, a, b)
	if err != nil {
		return err
	}
	for _, sp := range spans {
		sp.Command = command
		if err := st.Touched(ctx, sp, t.add); err != nil {
			return err
		}
	}
	return nil
}

func (t *touched) add(it *store.Item) error {
	if it.Ino != 0 {
		t.inos[it.Ino] = true
	}
	if it.Name != "" {
		t.names[store.DirName{Parent: it.Parent, Name: it.Name}] = true
	}
	if it.FromName != "" {
		t.names[store.DirName{Parent: it.FromParent, Name: it.FromName}] = true
	}
	return nil
}

// apart is the stretches of timelines that lead from the newest state that a and b have in common to either of them.
// States with nothing in common are apart from the beginning.
func apart(ctx context.Context, st *store.Store, a, b *store.View) ([]store.Span, error) {
	x, err := st.Lineage(ctx, a)
	if err != nil {
		return nil, err
	}
	y, err := st.Lineage(ctx, b)
	if err != nil {
		return nil, err
	}
	at := make(map[store.TimelineID]int, len(y))
	for j, seg := range y {
		at[seg.Timeline] = j
	}
	var spans []store.Span
	for _, seg := range x {
		j, common := at[seg.Timeline]
		if !common {
			spans = append(spans, store.Span{Timeline: seg.Timeline, UpTo: seg.Cut})
			continue
		}
		for _, other := range y[:j] {
			spans = append(spans, store.Span{Timeline: other.Timeline, UpTo: other.Cut})
		}
		low, high := min(seg.Cut, y[j].Cut), max(seg.Cut, y[j].Cut)
		return append(spans, store.Span{Timeline: seg.Timeline, After: low, UpTo: high}), nil
	}
	for _, seg := range y {
		spans = append(spans, store.Span{Timeline: seg.Timeline, UpTo: seg.Cut})
	}
	return spans, nil
}
