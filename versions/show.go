package versions

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"wsfs/store"
)

// Shown is one command, or one change, with what it did.
type Shown struct {
	Command *store.CommandRow // nil if unknown
	Session *store.Session    // nil if unknown
	Process *store.Process    // of one change, nil if unknown
	From    store.Seq         // first change
	To      store.Seq         // last change
	Took    []*TakenBack      // what it took back
	At      int64             // ns since the epoch, of To; 0 if unknown
	Entries []DiffEntry       // in what the states before and after differ, as far as the command touched it
}

// Show tells what the command or the change that rev names did: cN and cN+ are the command N, everything else is the
// change that led to the state.
func Show(ctx context.Context, st *store.Store, rev *Resolved) (*Shown, error) {
	switch rev.Revision.Point.Kind {
	case BeforeCommand, AfterCommand:
		return showCommand(ctx, st, rev)
	}
	v, err := st.Pin(ctx, rev.View)
	if err != nil {
		return nil, err
	}
	t, seq := v.Head()
	rows, err := st.ChangesAt(ctx, []store.Segment{{Timeline: t, Cut: seq}})
	if err != nil {
		return nil, err
	}
	row := rows[0]
	if row == nil {
		return nil, &UnknownError{What: "change", Name: fmt.Sprint(seq), In: fmt.Sprintf("workspace %q", rev.Workspace.Name),
			Hint: "`wsfs log` shows those there are; what left nothing behind has none"}
	}
	s := &Shown{Session: row.Session, Process: row.Process, From: seq, To: seq, At: row.At}
	if row.Command != nil {
		if s.Command, err = st.CommandByID(ctx, row.Command.ID); err != nil {
			return nil, err
		}
	}
	took, err := takenBack(ctx, st, row.Kind, row.Undoes)
	if err != nil {
		return nil, err
	}
	if took != nil {
		s.Took = append(s.Took, took)
	}
	if seq <= 1 {
		return s, nil // the workspace itself
	}
	before, err := st.ViewAt(ctx, t, seq-1)
	if err != nil {
		return nil, err
	}
	s.Entries, err = Diff(ctx, st, before, v, DiffOptions{})
	return s, err
}

func showCommand(ctx context.Context, st *store.Store, rev *Resolved) (*Shown, error) {
	cmd, err := st.CommandByID(ctx, rev.Revision.Point.Command)
	if err != nil {
		return nil, err
	}
	s := &Shown{Command: cmd, From: cmd.SeqBefore + 1, To: cmd.SeqAfter}
	if s.Session, err = st.SessionByID(ctx, cmd.Session); err != nil && !errors.Is(err, syscall.ENOENT) {
		return nil, err
	}
	before, err := st.ViewAt(ctx, cmd.Timeline, cmd.SeqBefore)
	if err != nil {
		return nil, fmt.Errorf("show c%d: the state before it: %w", cmd.ID, err)
	}
	after, err := st.ViewAt(ctx, cmd.Timeline, cmd.SeqAfter)
	if err != nil {
		return nil, fmt.Errorf("show c%d: the state after it: %w", cmd.ID, err)
	}
	t, seq := after.Head()
	rows, err := st.ChangesAt(ctx, []store.Segment{{Timeline: t, Cut: seq}})
	if err != nil {
		return nil, err
	}
	if rows[0] != nil {
		s.At = rows[0].At
	}
	if cmd.SeqBefore == 0 {
		return s, nil // it made the workspace: there is nothing before
	}
	if err := s.tookBack(ctx, st); err != nil {
		return nil, err
	}
	s.Entries, err = Diff(ctx, st, before, after, DiffOptions{Command: cmd.ID})
	return s, err
}

// tookBack notes what the command took back.
func (s *Shown) tookBack(ctx context.Context, st *store.Store) error {
	var at []store.Segment
	err := st.Undone(ctx, store.Span{Timeline: s.Command.Timeline, After: s.From - 1, UpTo: s.To}, func(seq store.Seq, _ store.Undone) error {
		if n := len(at); n == 0 || at[n-1].Cut != seq {
			at = append(at, store.Segment{Timeline: s.Command.Timeline, Cut: seq})
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows, err := st.ChangesAt(ctx, at)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row == nil || row.Command == nil || row.Command.ID != s.Command.ID {
			continue
		}
		took, err := takenBack(ctx, st, row.Kind, row.Undoes)
		if err != nil {
			return err
		}
		s.Took = append(s.Took, took)
	}
	return nil
}

// mixed marks what other commands changed too.
func (d *differ) mixed(ctx context.Context, list []DiffEntry) error {
	spans, err := d.st.Apart(ctx, d.a.v, d.b.v)
	if err != nil {
		return err
	}
	others := newTouched()
	for _, sp := range spans {
		sp.Except = d.o.Command
		if err := d.st.Touched(ctx, sp, others.add); err != nil {
			return err
		}
	}
	for i := range list {
		e := &list[i]
		e.Mixed = e.A != nil && others.inos[e.A.Ino] || e.B != nil && others.inos[e.B.Ino]
	}
	return nil
}

// Diff is e as entries of a diff, from which patches are made; none for what a patch does not show.
func (e *Entry) Diff() []DiffEntry {
	switch e.What {
	case Created, Linked:
		if e.New == nil {
			return nil
		}
		return []DiffEntry{{What: Added, Path: e.Path, B: e.New}}
	case Deleted:
		old := e.Old
		if old == nil {
			old = e.New // its last version, without a name
		}
		if old == nil {
			return nil
		}
		return []DiffEntry{{What: Removed, Path: e.Path, A: old}}
	case Renamed, Exchanged:
		if e.New == nil {
			return nil
		}
		if e.over != nil {
			return []DiffEntry{{What: Removed, Path: e.From, A: e.New}, {What: Modified, Path: e.Path, A: e.over, B: e.New}}
		}
		return []DiffEntry{{What: Renamed, From: e.From, Path: e.Path, A: e.New, B: e.New}}
	case Written, Mode, Owner, Xattr:
		d, ok := entry(e.Path, e.Old, e.New)
		if e.New == nil || !ok {
			return nil
		}
		return []DiffEntry{d}
	}
	return nil
}
