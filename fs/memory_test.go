package fs_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
)

var churn = flag.Int("churn", 20_000, "changes of TestChurnLeavesNothing")

// heap is how many bytes are reachable.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes in the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fill makes n files in directories of 100.
func (w *world) fill(n int) {
	w.t.Helper()
	var dir store.Ino
	for i := range n {
		if i%100 == 0 {
			a, err := w.fs.Mkdir(w.c, store.RootIno, fmt.Sprintf("package-%04d", i/100), 0o755)
			w.must(err)
			dir = a.ID
		}
		a, h, err := w.fs.Create(w.c, dir, fmt.Sprintf("source-file-%06d.c", i), 0o644, syscall.O_WRONLY)
		w.must(err)
		_, err = h.WriteAt(w.c, fmt.Appendln(nil, i), 0, false)
		w.must(err)
		w.must(h.Flush(w.c, 1))
		h.Release(w.c, 1)
		w.fs.Forget(a.ID, 1)
	}
	w.must(w.fs.Sync(context.Background()))
}

// look is what `find -printf %s` asks for: every listing with attributes. It returns the references that it counted.
func (w *world) look(dir store.Ino, found map[store.Ino]uint64) {
	d, err := w.fs.OpenDir(w.c, dir)
	w.must(err)
	var dirs []store.Ino
	w.must(d.ReadPlus(w.c, 0, func(e fs.DirEntry, a *fs.Attr) bool {
		if a != nil {
			found[a.ID]++
			if e.Type == syscall.S_IFDIR {
				dirs = append(dirs, a.ID)
			}
		}
		return true
	}))
	d.Close()
	for _, id := range dirs {
		w.look(id, found)
	}
}

// BenchmarkWalk is the first walk of a tree of 20,000 files; bytes/inode is what it leaves in memory.
func BenchmarkWalk(b *testing.B) {
	w := newWorld(b)
	const files = 20_000
	w.fill(files)
	b.ReportAllocs()
	var left int64
	for b.Loop() {
		b.StopTimer()
		w.reopen()
		found := make(map[store.Ino]uint64, files*2)
		before := heap()
		b.StartTimer()
		w.look(store.RootIno, found)
		b.StopTimer()
		left = heap() - before
		runtime.KeepAlive(found)
		b.StartTimer()
	}
	b.ReportMetric(float64(left)/files, "bytes/inode")
}

// TestInodesAreSmall bounds what an inode costs that a kernel has, and what is left when kernels have forgotten.
func TestInodesAreSmall(t *testing.T) {
	w := newWorld(t)
	const files = 4000
	w.fill(files)
	w.reopen()
	found := make(map[store.Ino]uint64, files*2)
	before := heap()
	w.look(store.RootIno, found)
	if each := (heap() - before) / files; each > 400 {
		t.Errorf("an inode that was listed costs %d bytes", each)
	} else {
		t.Logf("an inode that was listed costs %d bytes of heap", each)
	}
	if n := w.fs.Nodes(); n < files {
		t.Fatalf("%d inodes in memory", n)
	}
	// As small after they were used.
	for id := range found {
		a, err := w.fs.GetAttr(w.c, id, nil)
		w.must(err)
		if a.Mode&syscall.S_IFMT != syscall.S_IFREG {
			continue
		}
		h, err := w.fs.Open(w.c, id, syscall.O_RDONLY)
		w.must(err)
		h.Release(w.c, 0)
	}
	if n := w.fs.Cold(); n != 0 {
		t.Errorf("%d of %d files that were opened have no node", n, files)
	}
	w.fs.SetMaxNodes(1)
	w.fs.Evict()
	if n := w.fs.Cold(); n != files {
		t.Errorf("%d of %d files need no node", n, files)
	}
	if each := (heap() - before) / files; each > 400 {
		t.Errorf("an inode that was used costs %d bytes", each)
	} else {
		t.Logf("an inode that was used costs %d bytes of heap", each)
	}
	for id, n := range found {
		w.fs.Forget(id, n)
	}
	// Directories go before what holds them, or in the next pass.
	w.fs.Evict()
	w.fs.Evict()
	if n := w.fs.Nodes(); n > 1 {
		t.Errorf("%d inodes stay when everything is forgotten", n)
	}
	w.sameAfterReopen()
}

// TestChurnLeavesNothing makes, renames and removes for long: neither memory nor goroutines grow. A node left behind by
// every removed directory is found with -churn 100000.
func TestChurnLeavesNothing(t *testing.T) {
	w := newWorld(t)
	a, err := w.fs.Mkdir(w.c, store.RootIno, "d", 0o755)
	w.must(err)
	dir := a.ID
	round := func(n int) {
		for i := range n / 5 {
			name := fmt.Sprintf("f%07d", i)
			a, h, err := w.fs.Create(w.c, dir, name, 0o644, syscall.O_WRONLY|syscall.O_EXCL)
			w.must(err)
			_, err = h.WriteAt(w.c, fmt.Append(nil, i%100), 0, false) // few: the cache of blobs may grow to its bound
			w.must(err)
			w.must(h.Flush(w.c, 1))
			h.Release(w.c, 1)
			w.must(w.fs.Rename(w.c, dir, name, dir, "to-"+name, 0))
			to := fmt.Sprintf("last%d", i%7)
			w.must(w.fs.Rename(w.c, dir, "to-"+name, dir, to, 0))
			w.fs.Forget(a.ID, 1)
			sub, err := w.fs.Mkdir(w.c, dir, name+".d", 0o755)
			w.must(err)
			w.must(w.fs.Rmdir(w.c, dir, name+".d"))
			w.fs.Forget(sub.ID, 1)
		}
		w.must(w.fs.Sync(context.Background()))
		w.fs.Evict()
	}
	round(*churn / 2) // pools, caches and queues reach the size they have
	before, routines, inodes := heap(), runtime.NumGoroutine(), w.fs.Nodes()
	round(*churn)
	most, grown := 8<<20+int64(*churn)*16, heap()-before
	for try := 0; grown > most && try < 300; try++ { // what the database does behind the changes has buffers while it does it
		time.Sleep(10 * time.Millisecond)
		grown = heap() - before
	}
	t.Logf("%d changes left %d bytes in memory", *churn, grown)
	if grown > most {
		t.Errorf("%d bytes stay for each change", grown/int64(*churn))
	}
	if n := runtime.NumGoroutine(); n > routines+8 {
		t.Errorf("%d goroutines, were %d", n, routines)
	}
	if n := w.fs.Nodes(); n > inodes+2 { // one removed may wait for the next call
		t.Errorf("%d inodes in memory, were %d", n, inodes)
	}
}
