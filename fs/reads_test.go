package fs_test

import (
	"slices"
	"syscall"
	"testing"

	"wsfs/store"
)

// TestReads: what is opened for reading, listed or looked up is remembered, once somebody wants to know, and nothing else.
func TestReads(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.write(name, name)
	}
	open := func(name string, flags uint32) store.Ino {
		a, err := w.fs.Lookup(w.c, store.RootIno, name)
		w.must(err)
		h, err := w.fs.Open(w.c, a.ID, flags)
		w.must(err)
		h.Release(w.c, 1)
		w.fs.Forget(a.ID, 1)
		return a.Ino
	}
	open("a", syscall.O_RDONLY)
	if _, ok := w.fs.Reads(); ok {
		t.Error("reads are remembered without being asked for")
	}
	w.fs.WatchReads()
	open("b", syscall.O_WRONLY)
	open("c", syscall.O_RDWR|syscall.O_TRUNC)
	d := open("d", syscall.O_RDWR)
	if _, err := w.fs.Lookup(w.c, store.RootIno, "nothing"); err == nil {
		t.Error("found nothing")
	}
	got, ok := w.fs.Reads()
	if !ok || !slices.Equal(got.Contents, []store.Ino{d}) || len(got.Listings) != 0 || got.All {
		t.Errorf("%+v, %v, want the content of %d", got, ok, d)
	}
	var names []string
	for _, k := range got.Names {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"b", "c", "d", "nothing"}) {
		t.Errorf("names %q", names)
	}
	dir, err := w.fs.OpenDir(w.c, store.RootIno)
	w.must(err)
	dir.Close()
	if got, _ := w.fs.Reads(); !slices.Equal(got.Listings, []store.Ino{store.RootIno}) {
		t.Errorf("listings %v", got.Listings)
	}
}
