package storetest

import (
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
)

// testOpen is about opening: what is there, what is refused, who may write.
func testOpen(t *testing.T, drv store.Driver) {
	t.Run("init", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "new", "store")
		if _, err := store.Open(t.Context(), dir, drv, store.Options{}); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("open before init: %v, want ENOENT", err)
		}
		if err := store.Init(t.Context(), dir, drv); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("store directory: %v, %v, want mode 0700", info.Mode(), err)
		}
		if err := store.Init(t.Context(), dir, drv); !errors.Is(err, iofs.ErrExist) {
			t.Errorf("init again: %v, want EEXIST", err)
		}
		Open(t, dir, drv, store.Options{})
	})
	t.Run("lock", func(t *testing.T) {
		st := New(t, drv, store.Options{Socket: "/run/some.sock"})
		_, err := store.Open(t.Context(), st.Dir(), drv, store.Options{})
		var locked *store.LockedError
		if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Socket != "/run/some.sock" || !errors.Is(err, syscall.EBUSY) {
			t.Errorf("second writer: %v, want a LockedError with pid and socket", err)
		}
		info, err := store.ReadLock(st.Dir())
		if err != nil || info.PID != os.Getpid() {
			t.Errorf("lock file: %+v, %v", info, err)
		}
	})
	t.Run("beside", func(t *testing.T) { testBeside(t, drv) })
	t.Run("again", func(t *testing.T) { testAgain(t, drv) })
}

// testBeside reads a store while another has it open for writing.
func testBeside(t *testing.T, drv store.Driver) {
	st := New(t, drv, store.Options{})
	w := newWorld(t, st, 11, 1024)
	w.create("main")
	ro, err := store.Open(t.Context(), st.Dir(), drv, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ro.Close(); err != nil {
			t.Error(err)
		}
	}()
	reader := *w
	reader.st = ro
	for range 5 {
		w.live(20)
		reader.trees, reader.last = w.trees, 0
		reader.compareHeads()
	}
	reader.comparePasts()
	Check(t, ro)
	if _, err := ro.Append(&store.Op{}); !errors.Is(err, syscall.EROFS) {
		t.Errorf("append to a read-only store: %v, want EROFS", err)
	}
	if ro.NewIno() != 0 {
		t.Error("a read-only store gives out numbers")
	}
	stats, err := ro.Stats(t.Context())
	if err != nil || stats.Rows["workspace"] != int64(len(w.trees)) || stats.DatabaseBytes == 0 || stats.BlobBytes == 0 {
		t.Errorf("stats %+v, %v", stats, err)
	}
}

// testAgain closes and opens a store between changes. After a clean end the directory holds no log and no journal.
func testAgain(t *testing.T, drv store.Driver) {
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, drv); err != nil {
		t.Fatal(err)
	}
	var w *world
	for i := range 4 {
		st, err := store.Open(t.Context(), dir, drv, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if w == nil {
			w = newWorld(t, st, 13, 1024)
			w.create("main")
		}
		w.st = st
		if i > 0 {
			w.last = 0
			w.compareHeads()
		}
		w.live(40)
		w.compareBytes()
		Check(t, st)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "journal", "*"))
		if logs, _ := filepath.Glob(filepath.Join(dir, "*-wal")); err != nil || len(left)+len(logs) > 0 {
			t.Errorf("a clean close left %s", strings.Join(append(left, logs...), ", "))
		}
	}
	Open(t, dir, drv, store.Options{ReadOnly: true})
}
