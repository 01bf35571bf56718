package fs_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// fork makes a workspace that starts where w is, as one row.
func (w *world) fork(name string) *store.Workspace {
	w.t.Helper()
	tl, seq, err := w.fs.Freeze(w.c)
	w.must(err)
	ws := store.Workspace{ID: w.st.NewWorkspaceID(), Name: name, Base: tl, BaseSeq: seq, Generation: 1, Parent: w.ws.ID}
	slot, err := w.st.Append(&store.Op{Kind: store.OpWorkspace, Pointer: &store.Pointer{Workspace: ws, Why: "fork"}})
	w.must(err)
	w.must(w.st.Apply(context.Background(), slot))
	return &ws
}

// at runs fn with another workspace of the same store live.
func (w *world) at(ws *store.Workspace, o fs.Options, fn func(w *world)) {
	w.t.Helper()
	row, err := w.st.Workspace(context.Background(), ws.Name)
	w.must(err)
	live, err := fs.Open(context.Background(), w.st, row, o)
	w.must(err)
	other := *w
	other.fs, other.ws = live, row
	fn(&other)
	w.must(live.Close())
}

func TestForkIsSeparateInBothDirections(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	w.write("d/f", "base")
	dir, _ := w.split("d/x")
	_, h, err := w.fs.Create(w.c, dir, "open", 0o644, syscall.O_WRONLY)
	w.must(err)
	_, err = h.WriteAt(w.c, []byte("unsaved"), 0, false)
	w.must(err)
	ws := w.fork("fork")
	_, err = h.WriteAt(w.c, []byte("more than unsaved"), 0, false)
	w.must(err)
	w.must(h.Flush(w.c, 1))
	h.Release(w.c, 1)
	w.write("d/f", "changed in the parent")
	w.at(ws, fs.Options{}, func(w *world) {
		if got := w.read("d/f") + w.read("d/open"); got != "baseunsaved" {
			t.Errorf("the fork has %q", got)
		}
		w.remove("d/f")
		w.write("d/new", "in the fork")
	})
	w.at(ws, fs.Options{}, func(w *world) {
		if _, err := w.stat("d/f"); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("removed in the fork: %v", err)
		}
		if w.read("d/new") != "in the fork" {
			t.Error("the fork lost a file")
		}
		w.must(w.rename("d/new", "d/f", 0))
	})
	if _, err := w.stat("d/new"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("the parent sees the fork's file: %v", err)
	}
	if got := w.read("d/f"); got != "changed in the parent" {
		t.Errorf("d/f is %q", got)
	}
}

func TestPastViewStaysWhatItWas(t *testing.T) {
	w := newWorld(t)
	w.write("f", "then")
	tl, seq, err := w.fs.Freeze(w.c)
	w.must(err)
	w.write("f", "now")
	w.remove("f")
	w.must(w.st.Apply(context.Background(), w.st.Last()))
	view, err := w.st.ViewAt(context.Background(), tl, seq)
	w.must(err)
	w.at(w.ws, fs.Options{At: view}, func(w *world) {
		if got := w.read("f"); got != "then" {
			t.Errorf("f is %q", got)
		}
		w.is(w.fs.Unlink(w.c, store.RootIno, "f"), syscall.EROFS)
	})
}
