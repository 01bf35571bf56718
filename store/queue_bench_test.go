package store

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
)

// benchOp is what closing a new file of 4 KiB leads to: a name, two versions, an item, and its bytes.
func benchOp(n int64, data []byte) *Op {
	return &Op{
		Kind: OpCreate, Timeline: 1, Workspace: 1, Seq: Seq(n), At: 1_700_000_000_000_000_000 + n, Who: benchWho,
		Names: []Name{{Parent: 77, Name: "some-file-name.go", Ino: Ino(n), Type: syscall.S_IFREG}},
		Versions: []Version{
			{Ino: Ino(n), Seq: Seq(n), ID: VersionID(n), Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: int64(len(data)), Mtime: 1_700_000_000_000_000_000 + n, Ctime: 1_700_000_000_000_000_000 + n, Atime: 1_700_000_000_000_000_000 + n, Content: blob.Ref{byte(n)}},
			{Ino: 77, Seq: Seq(n), ID: VersionID(n + 1), Mode: syscall.S_IFDIR | 0o755, Nlink: 2, Mtime: 1_700_000_000_000_000_000 + n},
		},
		Items:    []Item{{Op: OpCreate, Ino: Ino(n), Parent: 77, Name: "some-file-name.go"}},
		Contents: []blob.Staged{{Content: blob.Content{Ref: blob.Ref{byte(n)}, Size: int64(len(data))}, Small: data}},
	}
}

var benchWho = Attribution{
	Session: &Session{ID: 1, Name: "s"}, Command: &Command{ID: 1, Session: 1, Argv: "tar\x00xf"},
	Process: &Process{ID: 1, Session: 1, Comm: "tar", Argv: "tar\x00xf"},
}

// BenchmarkAppendWait is what an acknowledgement costs: encode, checksum, one pwrite. The database takes everything at
// once, so that only the journal is measured; the applier's fdatasync goes on beside it.
func BenchmarkAppendWait(b *testing.B) {
	for _, size := range []int{0, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := startPipe(b, b.TempDir(), discardDB(), pipelineOptions{})
			op := benchOp(1, bytes.Repeat([]byte{7}, size))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				slot, err := p.append(op)
				if err == nil {
					err = p.wait(slot)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if err := p.stop(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkAppendWaitNoSync is the same without the applier.
func BenchmarkAppendWaitNoSync(b *testing.B) {
	o := never()
	o.segment, o.maxPending = 0, 1<<40
	p := startPipe(b, b.TempDir(), discardDB(), o)
	op := benchOp(1, bytes.Repeat([]byte{7}, 4096))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	start := threadTime(b)
	for b.Loop() {
		slot, err := p.append(op)
		if err == nil {
			err = p.wait(slot)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(threadTime(b)-start)/float64(b.N), "cpu-ns/op")
}

// threadTime is the processor time of this thread, which other programs on the machine do not change much.
func threadTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	const thread = 1 // RUSAGE_THREAD
	if err := syscall.Getrusage(thread, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkAppendWaitParallel is many handlers at once.
func BenchmarkAppendWaitParallel(b *testing.B) {
	p := startPipe(b, b.TempDir(), discardDB(), pipelineOptions{})
	op := benchOp(1, bytes.Repeat([]byte{7}, 4096))
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			slot, err := p.append(op)
			if err == nil {
				err = p.wait(slot)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/float64(p.j.flushes.Load()), "ops/write")
	if err := p.stop(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSyncParallel is many fsyncs at once.
func BenchmarkSyncParallel(b *testing.B) {
	p := startPipe(b, b.TempDir(), discardDB(), pipelineOptions{groupDelay: time.Second})
	op := benchOp(1, bytes.Repeat([]byte{7}, 4096))
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			slot, err := p.append(op)
			if err == nil {
				err = p.sync(slot)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/float64(p.j.syncs.Load()), "ops/round")
	if err := p.stop(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkEncodeOp(b *testing.B) {
	op := benchOp(1, bytes.Repeat([]byte{7}, 4096))
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = appendOp(buf[:0], op, nil)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecodeOp(b *testing.B) {
	enc := appendOp(nil, benchOp(1, bytes.Repeat([]byte{7}, 4096)), nil)
	var known knownRows
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeOp(enc, &known); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewIno(b *testing.B) {
	var a idAlloc
	a.kinds[idIno].limit.Store(1 << 60)
	for b.Loop() {
		a.take(idIno)
	}
}

// discardDB forgets what it is given.
func discardDB() *fakeDB {
	db := newFakeDB()
	var n atomic.Int64
	db.after = func(g *group) error {
		n.Add(int64(len(g.ops)))
		db.ops, db.groups = nil, nil
		return nil
	}
	return db
}
