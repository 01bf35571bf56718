package store_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// BenchmarkApply is what one created file costs the applier, without journal and content: a name, a version, the
// directory's version, a change, an item and a blob's row, in groups of 1024 and 32.
func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1024, 32} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchmarkApply(b, size) })
	}
}

func benchmarkApply(b *testing.B, size int) {
	ctx := b.Context()
	dir := b.TempDir()
	if err := store.Init(ctx, dir, sqlite.Driver()); err != nil {
		b.Fatal(err)
	}
	s, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	who := store.Attribution{
		Session: &store.Session{ID: 1, Name: "s"}, Process: &store.Process{ID: 1, Session: 1, Comm: "tar"},
		Command: &store.Command{ID: 1, Session: 1, N: 1, Argv: "tar\x00x"},
	}
	root := store.Version{Ino: 1, Seq: 1, ID: 1, Mode: syscall.S_IFDIR | 0o755, Nlink: 2}
	first := &store.Op{
		Kind: store.OpWorkspace, Timeline: 1, Workspace: 1, Seq: 1, Who: who, Versions: []store.Version{root},
		Pointer: &store.Pointer{Workspace: store.Workspace{ID: 1, Name: "w", Timeline: 1}, NewTimeline: &store.Timeline{ID: 1}, Why: "init"},
	}
	if err := s.ApplyGroup(ctx, store.Group{Ops: []*store.Op{first.Fresh()}, JournalID: 9, Applied: 1}); err != nil {
		b.Fatal(err)
	}
	var ops []*store.Op
	var blobs []blob.Location
	ino, seq, ver := store.Ino(1), store.Seq(1), store.VersionID(1)
	var applied int64 = 1
	before := cpu(b)
	for b.Loop() {
		seq++
		ino++
		ver += 2
		dir := ino&^63 + 1<<30 // 64 files to a directory
		now := int64(seq) * 1_000_003
		ref := blob.Sum([]byte{byte(ino), byte(ino >> 8), byte(ino >> 16), byte(ino >> 24)})
		blobs = append(blobs, blob.Location{Ref: ref, Size: 4096, Encoding: 1, Pack: 1, Offset: int64(ino) * 1500, Length: 1500})
		ops = append(ops, &store.Op{
			Kind: store.OpCreate, Timeline: 1, Workspace: 1, Seq: seq, At: now, Who: who,
			Names: []store.Name{{Parent: dir, Name: fmt.Sprintf("file-%x.go", uint32(ino)*2654435761), Ino: ino, Type: syscall.S_IFREG}},
			Versions: []store.Version{
				{Ino: ino, Seq: seq, ID: ver, Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: 4096, Mtime: now, Ctime: now, Atime: now, Content: ref},
				{Ino: dir, Seq: seq, ID: ver + 1, Parent: ver - 1, Mode: syscall.S_IFDIR | 0o755, Nlink: 2, Mtime: now, Ctime: now, Atime: now},
			},
			Items: []store.Item{{Op: store.OpCreate, Ino: ino, Parent: dir, Name: "file"}},
		})
		if len(ops) == size {
			applied += int64(size)
			if err := s.ApplyGroup(ctx, store.Group{Ops: ops, Blobs: blobs, JournalID: 9, Applied: applied}); err != nil {
				b.Fatal(err)
			}
			ops, blobs = ops[:0], blobs[:0]
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric((cpu(b)-before)*1e6/float64(b.N), "cpu-us/op")
}

// cpu is the processor time of this process in seconds: on a busy machine it tells more than the clock.
func cpu(b *testing.B) float64 {
	b.Helper()
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()).Seconds()
}
