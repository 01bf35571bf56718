package fs_test

import (
	"context"
	"sync"
	"testing"

	"wsfs/fs"
)

// asked is a context that calls a function the first time that the database looks at it.
type asked struct {
	context.Context
	now func()
}

func (a *asked) Done() <-chan struct{} { a.now(); return a.Context.Done() }
func (a *asked) Err() error            { a.now(); return a.Context.Err() }
func (a *asked) Value(key any) any     { a.now(); return a.Context.Value(key) }

// An edit gives the lock up while it asks the database. What the kernel forgets meanwhile, memory lets go: a file without
// a name that the edit brings back is found all the same.
func TestEditOfWhatIsLetGo(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	held := func() (*fs.Held, point) {
		h, err := w.fs.Hold(ctx)
		w.must(err)
		var p point
		p.timeline, p.seq = h.At()
		return h, p
	}
	w.mkdir("d")
	for _, name := range []string{"d/gone", "d/known", "d/left"} {
		w.write(name, name)
	}
	gone, known := w.walk("d/gone"), w.walk("d/known")
	h, to := held()
	h.Release()
	for _, name := range []string{"d/gone", "d/known"} {
		w.remove(name)
	}
	w.write("d/left", "changed")
	w.fs.Forget(gone.ID, 1) // of its creation
	h, from := held()       // with everything in the database
	w.fs.Evict()
	e := w.editTo(from, to)
	let := 0
	forget := sync.OnceFunc(func() {
		let = w.fs.Nodes()
		w.fs.Forget(known.ID, 1)
		let -= w.fs.Nodes()
	})
	_, err := h.Edit(&asked{ctx, forget}, e)
	w.must(err)
	h.Release()
	if let != 1 {
		t.Errorf("memory let go of %d inodes while the database was asked", let)
	}
	for _, name := range []string{"d/gone", "d/known", "d/left"} {
		if got := w.read(name); got != name {
			t.Errorf("%s has %q", name, got)
		}
	}
	if a := w.walk("d/known"); a.Ino != known.Ino {
		t.Errorf("it is inode %d, and was %d", a.Ino, known.Ino)
	}
	w.reopen()
	if got := w.read("d/known"); got != "d/known" || w.walk("d/known").Ino != known.Ino {
		t.Errorf("after a restart it has %q", got)
	}
}
