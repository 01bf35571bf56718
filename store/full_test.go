package store_test

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// A full disk refuses changes with ENOSPC, loses nothing that was acknowledged, and goes on when there is room again.
func TestDiskFull(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("needs a small file system; mounting a tmpfs failed: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	ctx := t.Context()
	dir := filepath.Join(disk, "store")
	grow := func(size string) {
		t.Helper()
		if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
	makeKillStore(t, dir)
	o := store.Options{SegmentBytes: 1 << 20, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	s, err := store.Open(ctx, dir, sqlite.Driver(), o)
	if err != nil {
		t.Fatal(err)
	}
	var acked []store.Seq
	seq := store.Seq(1)
	// put makes one file and reports whether there was room.
	put := func() bool {
		t.Helper()
		data := noise(seq + 1)
		st := s.Blobs().StageSmall(data)
		now := int64(seq)
		ino := s.NewIno()
		op := &store.Op{
			Kind: store.OpCreate, Timeline: 1, Workspace: 1, Seq: seq + 1, At: now,
			Names: []store.Name{{Parent: 1, Name: nameOf(seq + 1), Ino: ino, Type: syscall.S_IFREG}},
			Versions: []store.Version{
				{Ino: ino, Seq: seq + 1, ID: s.NewVersionID(), Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: int64(len(data)), Mtime: now, Ctime: now, Atime: now, Content: st.Content.Ref},
				{Ino: 1, Seq: seq + 1, ID: s.NewVersionID(), Mode: syscall.S_IFDIR | 0o755, Nlink: 2, Mtime: now, Ctime: now, Atime: now},
			},
			Items:    []store.Item{{Op: store.OpCreate, Ino: ino, Parent: 1, Name: nameOf(seq + 1)}},
			Contents: []blob.Staged{st},
		}
		slot, err := s.Append(op)
		if errors.Is(err, syscall.ENOSPC) {
			s.Blobs().Applied(op.Contents)
			return false
		}
		if err == nil {
			err = s.Wait(slot)
		}
		if err != nil {
			t.Fatalf("seq %d: %v", seq+1, err)
		}
		seq++
		acked = append(acked, seq)
		return true
	}
	for put() {
		if len(acked) > 10_000 {
			t.Fatal("the disk never got full")
		}
	}
	full := len(acked)
	if err := s.Apply(ctx, s.Last()); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("apply on a full disk: %v", err)
	}
	if err := s.Sync(s.Last()); err != nil {
		t.Fatalf("sync on a full disk: %v", err)
	}
	// A start on the full disk changes nothing for the worse.
	closing := s.Close()
	t.Logf("full after %d files; close: %v", full, closing)
	s, err = store.Open(ctx, dir, sqlite.Driver(), o)
	if err != nil {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("open on a full disk: %v", err)
		}
		t.Logf("open on a full disk: %v", err)
	} else {
		closing = s.Close()
		t.Logf("close: %v", closing)
	}
	grow("56m")
	if s, err = store.Open(ctx, dir, sqlite.Driver(), o); err != nil {
		t.Fatalf("open with room again: %v", err)
	}
	for range 50 {
		if !put() {
			t.Fatal("no room though the disk is larger")
		}
	}
	// Once more, and this time room comes while the store is open.
	for put() {
	}
	grow("96m")
	for deadline := time.Now().Add(time.Minute); !put(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still full: %+v", s.QueueStats())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if s, err = store.Open(ctx, dir, sqlite.Driver(), o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	v, err := s.ViewAt(ctx, 1, store.MaxSeq)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range acked {
		n, err := v.Lookup(ctx, store.RootIno, nameOf(seq))
		if err != nil {
			t.Fatal(err)
		}
		ver, err := v.Version(ctx, n.Ino)
		if err != nil {
			t.Fatal(err)
		}
		if ver.Content != blob.Sum(noise(seq)) {
			t.Fatalf("seq %d has other content", seq)
		}
	}
	if err := s.Check(ctx, func(p store.Problem) { t.Errorf("check: %v", p) }); err != nil {
		t.Fatal(err)
	}
}

// noise are 60 KB that do not compress.
func noise(seq store.Seq) []byte {
	r := rand.NewChaCha8([32]byte{byte(seq), byte(seq >> 8), byte(seq >> 16)})
	b := make([]byte, 60_000)
	_, _ = r.Read(b) // never fails
	return b
}
