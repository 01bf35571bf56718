package fs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
)

// An import by somebody who may read more than the directory's owner: while that swaps a directory for a link, and a file
// for one, nothing from outside gets into the workspace.
func TestImportStaysBeneath(t *testing.T) {
	w := newWorld(t)
	host, outside := t.TempDir(), t.TempDir()
	secret := bytes.Repeat([]byte("secret"), 100)
	inside := bytes.Repeat([]byte("inside"), 100)
	for path, text := range map[string][]byte{
		filepath.Join(outside, "f"): secret, filepath.Join(host, "d", "f"): inside, filepath.Join(host, "g"): inside,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for target, name := range map[string]string{outside: "d.other", filepath.Join(outside, "f"): "g.other"} {
		if err := os.Symlink(target, filepath.Join(host, name)); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			for _, name := range []string{"d", "g"} {
				a := filepath.Join(host, name)
				if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, a+".other", unix.RENAME_EXCHANGE); err != nil {
					t.Errorf("swap: %v", err)
					return
				}
			}
		}
	}()
	for i := range 2000 {
		step, name := i%2 == 0, []string{"d/f", "g"}[i/2%2]
		if text, err := fs.ReadBeneath(host, name, step); err == nil && !bytes.Equal(text, inside) {
			t.Fatalf("%s, step by step %v: %q", name, step, text)
		}
	}
	imported := 0
	for range 60 {
		if _, err := w.fs.Import(t.Context(), host, store.Attribution{}, nil, nil); err == nil {
			imported++
		}
	}
	stop.Store(true)
	<-done
	if err := w.st.Apply(t.Context(), w.st.Last()); err != nil {
		t.Fatal(err)
	}
	if loc, err := w.st.Locate(t.Context(), blob.Sum(secret)); err == nil {
		t.Errorf("the content of a file outside is in the store: %+v", loc)
	}
	if imported == 0 {
		t.Log("every import met a swap and was refused")
	}
	if _, err := w.fs.Import(t.Context(), host, store.Attribution{}, nil, nil); err != nil {
		t.Errorf("import when nobody swaps any more: %v", err)
	}
	if err := w.st.Apply(t.Context(), w.st.Last()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.st.Locate(t.Context(), blob.Sum(inside)); err != nil {
		t.Errorf("the directory's own file: %v", err)
	}
}
