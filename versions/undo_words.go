package versions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"wsfs/store"
)

// TakenBack is what an undo or redo did, for people: the commands that an undo took back, or that a redo brought back.
type TakenBack struct {
	Redo     bool
	Commands []store.CommandID // newest first; none if nobody is known
}

// String is `undo of c12`.
func (t *TakenBack) String() string {
	word := "undo"
	if t.Redo {
		word = "redo"
	}
	if len(t.Commands) == 0 {
		return word
	}
	const most = 5
	var list []string
	for _, c := range t.Commands[:min(len(t.Commands), most)] {
		list = append(list, fmt.Sprintf("c%d", c))
	}
	if n := len(t.Commands); n > most {
		return fmt.Sprintf("%s of %d commands (%s, ...)", word, n, strings.Join(list, ", "))
	}
	return word + " of " + strings.Join(list, ", ")
}

// takenBack says what a change took back, nil if it did not.
func takenBack(ctx context.Context, st *store.Store, kind store.OpKind, undoes []store.Undone) (*TakenBack, error) {
	if kind != store.OpUndo && kind != store.OpRedo {
		return nil, nil
	}
	t := &TakenBack{Redo: kind == store.OpRedo}
	var err error
	t.Commands, err = undoneCommands(ctx, st, undoes, t.Redo)
	return t, err
}

// undoneCommands are the commands of what was taken back; of a redo, those that the undo had taken back.
func undoneCommands(ctx context.Context, st *store.Store, undoes []store.Undone, redo bool) ([]store.CommandID, error) {
	var list []store.CommandID
	add := func(c store.CommandID) {
		if c != 0 && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	for _, u := range undoes {
		if !redo || u.Timeline == 0 {
			add(u.Command)
			continue
		}
		err := st.Undone(ctx, store.Span{Timeline: u.Timeline, After: u.From - 1, UpTo: u.To}, func(_ store.Seq, inner store.Undone) error {
			add(inner.Command)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
