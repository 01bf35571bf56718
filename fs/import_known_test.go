package fs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
)

// TestImportOfKnownContent: what an import found to be stored already is given up as everything else; else a collection
// would wait for it for ever.
func TestImportOfKnownContent(t *testing.T) {
	w := newWorld(t)
	host := t.TempDir()
	w.write("had", "the same")
	w.must(w.st.Apply(t.Context(), w.st.Last()))
	w.must(os.WriteFile(filepath.Join(host, "new"), []byte("the same"), 0o644))
	_, err := w.fs.Import(t.Context(), host, store.Attribution{}, nil, nil)
	w.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := w.st.Collect(ctx, store.GCOptions{Roots: w.fs.Contents}); err != nil {
		t.Errorf("collect: %v", err)
	}
}

// TestRollbackOverImport: an import takes both names from an inode with two; after a rollback that inode has them again,
// and what is written to it is kept.
func TestRollbackOverImport(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.write("a", "old")
	at := w.walk("a")
	_, err := w.fs.Link(w.c, at.ID, store.RootIno, "b")
	w.must(err)
	timeline, seq, err := w.fs.Freeze(nil)
	w.must(err)
	host := t.TempDir()
	for _, name := range []string{"a", "b"} {
		w.must(os.WriteFile(filepath.Join(host, name), []byte("host "+name), 0o644))
	}
	_, err = w.fs.Import(ctx, host, store.Attribution{}, nil, nil)
	w.must(err)
	if w.read("a") != "host a" || w.read("b") != "host b" {
		t.Fatalf("imported: %q, %q", w.read("a"), w.read("b"))
	}
	w.rollback(ctx, fs.Move{Timeline: timeline, Seq: seq, Why: "rollback"})
	if n := w.walk("a").Nlink; n != 2 {
		t.Errorf("a has %d links, want 2", n)
	}
	w.write("a", "new")
	if w.read("b") != "new" {
		t.Errorf("b is %q", w.read("b"))
	}
	w.reopen()
	if w.read("b") != "new" {
		t.Errorf("b is %q after a restart", w.read("b"))
	}
}
