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
	spans, err := st.Apart(ctx, a, b)
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
