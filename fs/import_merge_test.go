package fs_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
)

// TestImportMerge: a file becomes what is made of both sides, and nothing is imported if either is not what it was.
func TestImportMerge(t *testing.T) {
	w := newWorld(t)
	host, ctx := t.TempDir(), context.Background()
	w.must(os.WriteFile(filepath.Join(host, "f"), []byte("host"), 0o644))
	w.must(os.WriteFile(filepath.Join(host, "g"), []byte("new"), 0o644))
	w.write("f", "ws")
	ok := true
	run := func(have string) (*fs.ImportMerge, fs.ImportResult, error) {
		m := &fs.ImportMerge{
			Have: blob.Content{Ref: blob.Sum([]byte(have)), Size: int64(len(have))}, Mode: 0o600, Max: 4,
			Text: func(b []byte) ([]byte, bool) { return append([]byte("ws+"), b...), ok },
		}
		res, err := w.fs.ImportWith(ctx, host, store.Attribution{}, fs.ImportOptions{
			Only: map[string]bool{"f": true, "g": true}, Merge: map[string]*fs.ImportMerge{"f": m},
		}, nil)
		return m, res, err
	}
	nothing := func(err error) {
		t.Helper()
		w.is(err, syscall.EAGAIN)
		w.sameAfterReopen()
		if w.read("f") != "ws" {
			t.Errorf("f is %q", w.read("f"))
		}
		_, err = w.stat("g")
		w.is(err, syscall.ENOENT)
	}
	_, _, err := run("older") // the workspace has something else by now
	nothing(err)
	ok = false // it does not merge any more
	_, _, err = run("ws")
	nothing(err)
	ok = true
	w.must(os.WriteFile(filepath.Join(host, "f"), []byte("host5"), 0o644)) // larger than it was
	_, _, err = run("ws")
	nothing(err)
	w.must(os.WriteFile(filepath.Join(host, "f"), []byte("host"), 0o644))
	m, res, err := run("ws")
	w.must(err)
	if res.Added != 1 || res.Changed != 1 || w.read("f") != "ws+host" || w.walk("f").Mode&0o777 != 0o600 {
		t.Errorf("merged: %+v, %q, %o", res, w.read("f"), w.walk("f").Mode)
	}
	if want := (blob.Content{Ref: blob.Sum([]byte("host")), Size: 4}); m.Theirs != want {
		t.Errorf("the directory's content is %v, want %v", m.Theirs, want)
	}
	w.sameAfterReopen()
	w.must(w.st.Apply(ctx, w.st.Last()))
	r := w.st.Blobs().Reader(ctx, m.Theirs)
	b := make([]byte, 4)
	if _, err := r.Read(b); err != nil || string(b) != "host" {
		t.Errorf("what the directory had is stored as %q, %v", b, err)
	}
}
