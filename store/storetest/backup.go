package storetest

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// testBackup is about copies: each holds every state that there was when it was taken, whoever writes meanwhile, and
// brings over only what is new.
func testBackup(t *testing.T, drv store.Driver) {
	small := store.Options{GroupDelay: 100 * time.Millisecond, Blob: blob.Options{PackSize: 64 << 10}}
	t.Run("equal", func(t *testing.T) { backupEqual(t, drv, small) })
	t.Run("busy", func(t *testing.T) { backupBusy(t, drv, small) })
	t.Run("collecting", func(t *testing.T) { backupCollecting(t, drv, small) })
	t.Run("refused", func(t *testing.T) { backupRefused(t, drv, small) })
	t.Run("interrupted", func(t *testing.T) { backupInterrupted(t, drv, small) })
	t.Run("swapped", func(t *testing.T) { backupSwapped(t, drv, small) })
	t.Run("damaged", func(t *testing.T) { backupDamaged(t, drv, small) })
}

// sameAs compares a copy with everything that the model knows, and as a store that goes on by itself.
func (w *world) sameAs(dir string, drv store.Driver) {
	w.t.Helper()
	ro, err := store.Open(w.t.Context(), dir, drv, store.Options{ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer ro.Close()
	reader := *w
	reader.st, reader.last = ro, 0
	reader.compareHeads()
	reader.comparePasts()
	reader.compareBytes()
	Check(w.t, ro)
}

func backupEqual(t *testing.T, drv store.Driver, o store.Options) {
	st := New(t, drv, o)
	w := newWorld(t, st, 21, 1024)
	w.create("main")
	dest := filepath.Join(t.TempDir(), "deep", "er")
	var had int64
	for i := range 4 {
		w.live(40)
		rep, err := st.Backup(t.Context(), dest, store.BackupOptions{Link: i == 2, Full: i == 3})
		if err != nil {
			t.Fatal(err)
		}
		if rep.Kept != had || i > 0 && rep.Copied+rep.Linked == 0 || rep.Verified == 0 || i > 0 && i < 3 && rep.Looked == 0 {
			t.Errorf("round %d of backups, %d bytes of packs before: %+v", i, had, rep)
		}
		had += rep.Copied + rep.Linked
		w.sameAs(dest, drv)
	}
	// Without a change nothing is copied.
	if rep, err := st.Backup(t.Context(), dest, store.BackupOptions{}); err != nil || rep.Copied != 0 || rep.Kept != had || rep.Verified != 0 {
		t.Errorf("again: %+v, %v", rep, err)
	}
	modes(t, dest)
	// A backup of the backup is one too, and opened for writing each is a store of its own, of which the other is none.
	again := filepath.Join(t.TempDir(), "again")
	ro, err := store.Open(t.Context(), dest, drv, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = ro.Backup(t.Context(), again, store.BackupOptions{})
	if err = errors.Join(err, ro.Close()); err != nil {
		t.Fatal(err)
	}
	w.sameAs(again, drv)
	own := newWorld(t, Open(t, again, drv, o), 27, 1024)
	heads := *w
	heads.st, heads.last = own.st, 0
	heads.compareHeads()
	if _, err := st.Backup(t.Context(), again, store.BackupOptions{}); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a backup onto a store: %v, want EEXIST", err)
	}
	if _, err := own.st.Backup(t.Context(), dest, store.BackupOptions{}); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a backup onto that of another store: %v, want EEXIST", err)
	}
	mine := own.create("mine")
	for range 30 {
		own.step(mine)
	}
	own.settle()
	own.compareHeads()
	heads.compareHeads()
}

// modes fails for whatever others may read.
func modes(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// kept is the past as it is now; nothing in it is amended any more. It has no heads.
func (w *world) kept() *world {
	k := *w
	k.trees, k.past, k.bytes, k.parents, k.exact = nil, maps.Clone(w.past), maps.Clone(w.bytes), maps.Clone(w.parents), maps.Clone(w.exact)
	for p, s := range k.past {
		k.past[p] = s.clone()
	}
	for _, tr := range w.trees {
		w.pin(tr.place())
	}
	return &k
}

// backupBusy copies while the store is written.
func backupBusy(t *testing.T, drv store.Driver, o store.Options) {
	st := New(t, drv, o)
	w := newWorld(t, st, 22, 1024)
	w.create("main")
	w.live(60)
	dest := filepath.Join(t.TempDir(), "copy")
	for range 3 {
		before := w.kept()
		var wg sync.WaitGroup
		wg.Go(func() {
			release := st.Hold()
			defer release()
			if _, err := st.Backup(t.Context(), dest, store.BackupOptions{}); err != nil {
				t.Error(err)
			}
		})
		w.live(40)
		wg.Wait()
		ro, err := store.Open(t.Context(), dest, drv, store.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		before.st, before.last = ro, 0
		before.comparePasts()
		before.compareBytes()
		Check(t, ro)
		if err := ro.Close(); err != nil {
			t.Error(err)
		}
	}
	if st.Held() {
		t.Error("the store is still held")
	}
}

func backupRefused(t *testing.T, drv store.Driver, o store.Options) {
	st := New(t, drv, o)
	Populate(t, st, 23, 20)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := New(t, drv, o)
	Populate(t, other, 24, 5)
	theirs := filepath.Join(t.TempDir(), "theirs")
	if _, err := other.Backup(t.Context(), theirs, store.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(t.TempDir(), "linked")
	if err := errors.Join(os.Mkdir(linked, 0o700), os.Symlink(dir, filepath.Join(linked, "packs"))); err != nil {
		t.Fatal(err)
	}
	for dest, want := range map[string]error{
		dir: syscall.ENOTEMPTY, st.Dir(): syscall.EEXIST, other.Dir(): syscall.EEXIST, theirs: syscall.EEXIST, linked: syscall.ENOTDIR,
		filepath.Join(dir, "precious"): syscall.ENOTDIR,
	} {
		if _, err := st.Backup(t.Context(), dest, store.BackupOptions{}); !errors.Is(err, want) {
			t.Errorf("backup to %s: %v, want %v", dest, err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("a refused backup left %v, %v", left, err)
	}
}

// backupInterrupted ends backups at every place where the context is asked.
func backupInterrupted(t *testing.T, drv store.Driver, o store.Options) {
	st := New(t, drv, o)
	w := newWorld(t, st, 25, 1024)
	w.create("main")
	w.live(80)
	dest := filepath.Join(t.TempDir(), "copy")
	interrupt := func(phase string, after int) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		_, err := st.Backup(ctx, dest, store.BackupOptions{Progress: func(p string, _, _ int64) {
			if p == phase {
				if n++; n >= after {
					cancel()
				}
			}
		}})
		return err
	}
	for i, phase := range []string{"database", "packs", "packs"} {
		if err := interrupt(phase, 1+i); !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted while copying %s: %v", phase, err)
		}
		if _, err := store.Open(t.Context(), dest, drv, store.Options{}); err == nil {
			t.Fatal("what was interrupted opens")
		}
		if err := store.Init(t.Context(), dest, drv); !errors.Is(err, syscall.EEXIST) {
			t.Fatalf("init where a backup was interrupted: %v", err)
		}
	}
	rep, err := st.Backup(t.Context(), dest, store.BackupOptions{})
	if err != nil || rep.Kept == 0 {
		t.Fatalf("going on: %+v, %v", rep, err)
	}
	w.sameAs(dest, drv)
	then := w.kept()
	w.live(80)
	for _, phase := range []string{"database", "packs"} {
		if err := interrupt(phase, 1); !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted while copying %s: %v", phase, err)
		}
		then.sameAs(dest, drv) // the one before
	}
	if _, err := st.Backup(t.Context(), dest, store.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	w.sameAs(dest, drv)
}

// backupDamaged has packs that are not what they should be, on both sides.
func backupDamaged(t *testing.T, drv store.Driver, o store.Options) {
	st := New(t, drv, o)
	Populate(t, st, 26, 80)
	dest := filepath.Join(t.TempDir(), "copy")
	if _, err := st.Backup(t.Context(), dest, store.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(dest, "packs", "*.pack"))
	if err != nil || len(packs) < 2 {
		t.Fatalf("packs %v, %v", packs, err)
	}
	data, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(at int) {
		bad := append([]byte(nil), data...)
		bad[at] ^= 0x40
		if err := os.WriteFile(packs[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil(20) // the first record's header
	if _, err := st.Backup(t.Context(), dest, store.BackupOptions{}); !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, syscall.EIO) {
		t.Errorf("a damaged header in the backup: %v", err)
	}
	spoil(16 + 52) // its bytes: only a full verification looks at them
	if _, err := st.Backup(t.Context(), dest, store.BackupOptions{Full: true}); !errors.Is(err, syscall.EIO) {
		t.Errorf("damaged bytes in the backup: %v", err)
	}
	// A pack that is shorter or gone is copied again.
	if err := errors.Join(os.WriteFile(packs[0], data[:len(data)/3], 0o600), os.Remove(packs[1])); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Backup(t.Context(), dest, store.BackupOptions{Full: true}); err != nil {
		t.Errorf("healing: %v", err)
	}
	// Damage in the store itself does not become a backup that is called good.
	src := filepath.Join(st.Dir(), "packs", filepath.Base(packs[0]))
	if err := errors.Join(os.Remove(packs[0]), os.Truncate(src, int64(len(data)/2))); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Backup(t.Context(), dest, store.BackupOptions{}); !errors.Is(err, syscall.EIO) {
		t.Errorf("a pack of the store that lost its end: %v", err)
	}
	if err := os.WriteFile(src, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
