package versions_test

import (
	"context"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// reopen closes the live workspace and opens it again, so that nothing of it is in memory.
func (l *lab) reopen() {
	l.t.Helper()
	ctx := context.Background()
	l.must(l.fs.Close())
	ws := l.fs.Workspace()
	var err error
	l.fs, err = fs.Open(ctx, l.st, ws, fs.Options{Now: func() time.Time { l.clock = l.clock.Add(time.Second); return l.clock }})
	l.must(err)
}

// TestUndoOfDirectoriesAfterRestart undoes and redoes, in a workspace of which nothing is in memory, what a command did
// to directories deep in it.
func TestUndoOfDirectoriesAfterRestart(t *testing.T) {
	for name, do := range map[string]func(l *lab){
		"mkdir":       func(l *lab) { l.mkdir("a/b/c/new"); l.write("a/b/c/new/f", "x") },
		"rmdir":       func(l *lab) { l.remove("a/b/c/d") },
		"rename":      func(l *lab) { l.rename("a/b/c", "a/b/moved") },
		"move up":     func(l *lab) { l.rename("a/b/c/d", "d") },
		"move down":   func(l *lab) { l.rename("x", "a/b/c/d/x") },
		"turn around": func(l *lab) { l.rename("a/b/c", "c"); l.rename("a", "c/d/a") },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, store.Options{})
			l.as("base")
			for _, p := range []string{"a", "a/b", "a/b/c", "a/b/c/d", "x", "x/y"} {
				l.mkdir(p)
			}
			l.write("a/b/c/d/f", "f")
			before := l.tree()
			l.as("s")
			do(l)
			after := l.tree()
			own := versions.UndoSelect{Own: []store.SessionID{l.sessions["s"].ID}}
			redo := own
			redo.Redo = true
			for i, sel := range []versions.UndoSelect{own, redo, own} {
				l.reopen()
				l.as("s")
				if p, err := l.undo(sel); err != nil || len(p.Conflicts) > 0 {
					t.Fatalf("step %d: %v, %v", i, p, err)
				}
				want := before
				if sel.Redo {
					want = after
				}
				l.same(l.tree(), want, "after the restart")
			}
		})
	}
}
