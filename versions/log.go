package versions

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"wsfs/store"
)

// LogQuery selects what Log shows. The zero value of every field but View means "any".
type LogQuery struct {
	View *store.View // newest state to look back from
	// Workspace tells of moves of its pointer too, rollbacks and what took them back; 0: of none. View must be its present.
	Workspace store.WorkspaceID
	Path      string // of a file: that file, through renames and saves by temp+rename; of a directory: all below it
	Session   string // changes by sessions of this name, and by those below them
	Outside   bool   // only by sessions that work on another workspace
	Command   store.CommandID
	After     store.Seq // only changes after this seq
	Deleted   bool      // only what was deleted
	Limit     int       // at most so many entries; 0: all
}

// errEnough ends a walk whose limit is reached. It never leaves this package.
var errEnough = errors.New("enough")

// Log calls fn with what happened, newest first, and stops at fn's first error. It streams: memory does not grow with
// the length of the history. A path that never existed is an error that wraps ENOENT.
func Log(ctx context.Context, st *store.Store, q LogQuery, fn func(*Entry) error) error {
	left := q.Limit
	fold := &folder{emit: func(e *Entry) error {
		if q.Deleted && e.What != Deleted {
			return nil
		}
		if err := fn(e); err != nil {
			return err
		}
		if left--; q.Limit > 0 && left == 0 {
			return errEnough
		}
		return nil
	}}
	l := &logger{st: st, q: q, places: newPlaces(st), out: fold.add}
	err := l.run(ctx)
	if err == nil {
		err = fold.flush()
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

type logger struct {
	st     *store.Store
	q      LogQuery
	places *places
	out    func(*Entry) error
	row    *store.ChangeRow // the last that was put into words
	took   *TakenBack       // of row
	merged *MergedFrom      // of row
	named  map[store.TimelineID]string
}

func (l *logger) run(ctx context.Context) error {
	cq := store.ChangeQuery{View: l.q.View, Command: l.q.Command, After: l.q.After}
	path := Clean(l.q.Path)
	if path == "" {
		return l.all(ctx, cq, nil)
	}
	t, err := findTarget(ctx, l.st, l.q.View, path)
	if err != nil {
		return err
	}
	if t.dir {
		return l.all(ctx, cq, t)
	}
	return l.follow(ctx, t)
}

// all walks every change, or those of one command, and keeps what is in the directory under.
func (l *logger) all(ctx context.Context, cq store.ChangeQuery, under *target) error {
	if under != nil {
		// Every change must be seen so that the paths stay right; the filters are applied here.
		cq.Command = 0
	}
	whole := cq.Command == 0
	mv := &moves{}
	if under == nil && !l.q.Deleted {
		var err error
		if mv, err = newMoves(ctx, l); err != nil {
			return err
		}
	}
	err := l.st.Changes(ctx, cq, func(row *store.ChangeRow) error {
		if err := mv.since(ctx, row.At); err != nil {
			return err
		}
		if !whole {
			l.places.forget()
		}
		l.places.at(row)
		if l.wanted(row) {
			for i := len(row.Items) - 1; i >= 0; i-- {
				if err := l.item(ctx, row, &row.Items[i], under); err != nil {
					return err
				}
			}
		}
		l.places.step(row)
		return nil
	})
	if err == nil && l.q.After == 0 {
		err = mv.since(ctx, 0)
	}
	return err
}

func (l *logger) wanted(row *store.ChangeRow) bool {
	return (l.q.Session == "" || InSession(row.Session, l.q.Session)) && (!l.q.Outside || row.Session != nil && row.Session.Home != 0) &&
		(l.q.Command == 0 || row.Command != nil && row.Command.ID == l.q.Command)
}

// item puts one item of a change into words, if it is in the directory under.
func (l *logger) item(ctx context.Context, row *store.ChangeRow, it *store.ChangeItem, under *target) error {
	if overwritten(row, it) {
		return nil
	}
	e := describe(row, it)
	if l.row != row {
		took, err := takenBack(ctx, l.st, row.Kind, row.Undoes)
		if err != nil {
			return err
		}
		if l.merged, err = l.mergedFrom(ctx, row); err != nil {
			return err
		}
		l.row, l.took = row, took
	}
	e.Took, e.Merged = l.took, l.merged
	inside := under == nil
	if it.Name != "" {
		path, chain, err := l.places.path(ctx, it.Parent, it.Name)
		if err != nil {
			return fmt.Errorf("name change %d: %w", row.Seq, err)
		}
		e.Path = path
		inside = inside || under.holds(it.Ino, path, chain)
	}
	if it.FromName != "" {
		path, chain, err := l.places.path(ctx, it.FromParent, it.FromName)
		if err != nil {
			return fmt.Errorf("name change %d: %w", row.Seq, err)
		}
		e.From = path
		inside = inside || under.holds(it.Ino, path, chain)
	}
	if !inside {
		return nil
	}
	if e.What == Renamed && it.Version != nil && it.Version.Replaced != 0 {
		e.replaces = true
		old, err := l.st.VersionByID(ctx, it.Version.Replaced)
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
		if err == nil {
			e.oldSize, e.over = old.Size, old
		}
	}
	return l.out(e)
}

// overwritten reports whether it only says that something else took its name with the same change, a rename or what an
// undo brought back: that tells it.
func overwritten(row *store.ChangeRow, it *store.ChangeItem) bool {
	if it.Op != store.OpUnlink && it.Op != store.OpRmdir {
		return false
	}
	for i := range row.Items {
		r := &row.Items[i]
		gone := r.Op == store.OpUnlink || r.Op == store.OpRmdir
		if !gone && r.Ino != it.Ino && r.Parent == it.Parent && r.Name == it.Name {
			return true
		}
	}
	return false
}
