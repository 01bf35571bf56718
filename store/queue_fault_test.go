package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A full disk under the database: nothing acknowledged is lost, what needs room is refused, and it goes on by itself.
func TestDatabaseFull(t *testing.T) {
	db := newFakeDB()
	var full atomic.Bool
	full.Store(true)
	db.before = func(*group) error {
		if full.Load() {
			return errFull
		}
		return nil
	}
	o := quick()
	o.maxPending = 1000
	dir := t.TempDir()
	p := startPipe(t, dir, db, o)
	p.mustPut(1, 100)
	slot := p.mustPut(2, 5000)
	within(t, "apply", func() {
		if err := p.apply(context.Background(), slot); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("apply: %v", err)
		}
	})
	if _, err := p.put(3, 100); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("append of content: %v", err)
	}
	if es, _ := os.ReadDir(dir); len(es) != 1 {
		t.Fatalf("the journal still holds space that the database could use: %v", es)
	}
	slot = p.mustPut(3, 0)
	within(t, "wait", func() { p.mustWait(slot) })
	if p.stats().Stalled == nil {
		t.Fatal("stats do not say that the database is full")
	}
	full.Store(false)
	within(t, "recovery", func() {
		for p.applied.Load() < int64(slot) {
			time.Sleep(time.Millisecond)
		}
	})
	p.mustPut(4, 100)
	p.stopClean()
	wantSeqs(t, db, 4)
	if p.stats().Stalled != nil {
		t.Fatal("still stalled")
	}
}

// With room for a few ops at a time the queue gets shorter all the same, and the journal with it.
func TestDatabaseNearlyFull(t *testing.T) {
	dir := t.TempDir()
	db := newFakeDB()
	var room atomic.Int64
	full := make(chan struct{})
	db.before = func(g *group) error {
		<-full
		if int64(len(g.ops)) > room.Load() {
			return errFull
		}
		return nil
	}
	o := never()
	o.retry, o.groupDelay = 10*time.Millisecond, time.Millisecond
	p := startPipe(t, dir, db, o)
	for i := range 300 {
		p.mustWait(p.mustPut(int64(i+1), 1000))
	}
	before := p.stats().Segments
	p.j.endPreparers()
	p.j.dir += "/gone" // no room for a spare segment either
	room.Store(3)
	close(full)
	within(t, "apply", func() {
		for p.apply(context.Background(), 300) != nil { // it reports that the disk is full as long as it is
			time.Sleep(time.Millisecond)
		}
	})
	wantSeqs(t, db, 300)
	if after := p.stats().Segments; before < 4 || after > 1 {
		t.Fatalf("%d segments before, %d after", before, after)
	}
	if _, err := p.put(301, 100); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("append while there is no room for a reserve: %v", err)
	}
	// Then there is room, and that is found out without anybody doing anything.
	if err := os.Mkdir(p.j.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	room.Store(1000)
	within(t, "recovery", func() {
		for {
			if slot, err := p.put(301, 100); err == nil {
				p.mustWait(slot)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	wantSeqs(t, db, 301)
}

// Closed while the disk is full, the changes stay in the journal for the next start.
func TestCloseWhileFull(t *testing.T) {
	dir := t.TempDir()
	db := newFakeDB()
	db.before = func(*group) error { return errFull }
	p := startPipe(t, dir, db, quick())
	p.mustWait(p.mustPut(1, 100))
	within(t, "stop", func() {
		if err := p.stop(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("stop: %v", err)
		}
	})
	if err := p.close(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	db.before = nil
	p = startPipe(t, dir, db, quick())
	wantSeqs(t, db, 1)
	p.stopClean()
}

// A transaction may have been committed although it reported a failure: it is not applied again.
func TestFailureAfterCommit(t *testing.T) {
	db := newFakeDB()
	failed := false
	db.after = func(*group) error {
		if !failed {
			failed = true
			return errFull
		}
		return nil
	}
	p := startPipe(t, t.TempDir(), db, quick())
	for i := range 10 {
		p.mustPut(int64(i+1), 100)
	}
	p.stopClean()
	wantSeqs(t, db, 10)
}

// Any other failure stops the store, with an error that is EIO to programs, and the journal stays.
func TestApplyFails(t *testing.T) {
	dir := t.TempDir()
	db := newFakeDB()
	cause := errors.New("fake: constraint failed")
	db.before = func(*group) error { return cause }
	p := startPipe(t, dir, db, quick())
	slot := p.mustPut(1, 100)
	p.mustWait(slot)
	within(t, "apply", func() {
		if err := p.apply(context.Background(), slot); !errors.Is(err, cause) || !errors.Is(err, syscall.EIO) {
			t.Errorf("apply: %v", err)
		}
	})
	_, err := p.put(2, 0)
	for _, err := range []error{err, p.wait(slot), p.sync(slot), p.stop()} {
		if !errors.Is(err, cause) || !errors.Is(err, syscall.EIO) {
			t.Errorf("got %v", err)
		}
	}
	if err := p.close(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	db.before = nil
	p = startPipe(t, dir, db, quick())
	wantSeqs(t, db, 1)
	p.stopClean()
}

// Each round flushes every segment that was written since the last one, and nothing else.
func TestSyncFlushesSegments(t *testing.T) {
	p := startPipe(t, t.TempDir(), newFakeDB(), never())
	var flushed []string
	p.j.syncFile = func(f *os.File) error {
		flushed = append(flushed, f.Name())
		return nil
	}
	var slot Slot
	for i := range 200 { // over several segments of 64 KiB
		slot = p.mustPut(int64(i+1), 1000)
		if i%3 == 0 {
			p.mustWait(slot)
		}
	}
	if err := p.sync(slot); err != nil {
		t.Fatal(err)
	}
	if len(flushed) != len(p.j.segs) || len(flushed) < 3 {
		t.Fatalf("flushed %v of %d segments", flushed, len(p.j.segs))
	}
	flushed = nil
	if err := p.sync(p.mustPut(201, 10)); err != nil {
		t.Fatal(err)
	}
	if len(flushed) != 1 || flushed[0] != p.j.segs[len(p.j.segs)-1].path {
		t.Fatalf("flushed %v for one more op", flushed)
	}
	if err := p.sync(10); err != nil || len(flushed) != 1 {
		t.Fatalf("flushed %v for an op that was durable, %v", flushed, err)
	}
	p.stopClean()
}

// A failed fdatasync is never tried again: everything later fails with it, and nothing is applied any more.
func TestJournalSyncFails(t *testing.T) {
	db := newFakeDB()
	p := startPipe(t, t.TempDir(), db, never())
	calls := 0
	p.j.syncFile = func(*os.File) error {
		calls++
		return syscall.ENOSPC
	}
	slot := p.mustPut(1, 10)
	for range 3 {
		if err := p.sync(slot); !errors.Is(err, syscall.EIO) {
			t.Fatalf("sync: %v", err)
		}
	}
	_, err := p.put(2, 0)
	for _, err := range []error{err, p.wait(slot), p.stop()} {
		if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "fdatasync") {
			t.Errorf("got %v", err)
		}
	}
	if calls != 1 || len(db.ops) != 0 {
		t.Fatalf("%d calls, %d ops applied", calls, len(db.ops))
	}
}

// A failed flush of contents stops the store: what the disk has is unknown from there on.
func TestContentSyncFails(t *testing.T) {
	p := startPipe(t, t.TempDir(), newFakeDB(), never())
	cause := fmt.Errorf("fake: %w", syscall.EIO)
	p.cs.sync = func() error { return cause }
	slot := p.putPacked(1)
	if err := p.sync(slot); !errors.Is(err, cause) {
		t.Fatalf("sync: %v", err)
	}
	p.cs.sync = nil
	if err := p.sync(slot); !errors.Is(err, cause) {
		t.Fatalf("second sync: %v", err)
	}
	if _, err := p.put(2, 0); !errors.Is(err, cause) {
		t.Fatalf("append: %v", err)
	}
	within(t, "stop", func() {
		if err := p.stop(); !errors.Is(err, cause) {
			t.Errorf("stop: %v", err)
		}
	})
}

// A failed write of the journal stops the store, and every waiter hears of it.
func TestJournalWriteFails(t *testing.T) {
	db := newFakeDB()
	p := startPipe(t, t.TempDir(), db, never())
	p.mustWait(p.mustPut(1, 10))
	if err := p.j.segs[0].f.Close(); err != nil {
		t.Fatal(err)
	}
	slot := p.mustPut(2, 10)
	if err := p.wait(slot); !errors.Is(err, os.ErrClosed) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("wait: %v", err)
	}
	if err := p.wait(1); err == nil {
		t.Fatal("wait for an earlier slot: no error from a stopped store")
	}
	within(t, "apply", func() {
		if err := p.apply(context.Background(), slot); err == nil {
			t.Error("apply: no error")
		}
	})
	if db.applied[1] != 0 {
		t.Fatal("applied what the journal does not have")
	}
}

// Room is decided in append, before anything is accepted.
func TestJournalFull(t *testing.T) {
	dir := t.TempDir()
	p := startPipe(t, dir, newFakeDB(), never())
	p.mustPut(1, 10)
	p.j.endPreparers()
	// Nothing can be made in a directory that is not there any more; ENOSPC itself is tested on a small file system.
	gone := filepath.Join(dir, "gone")
	p.j.dir = gone
	for i := 2; i < 200; i++ {
		slot, err := p.put(int64(i), 1000)
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if last := p.last.Load(); last != int64(i-1) || i < 60 {
				t.Fatalf("refused op %d, last %d", i, last)
			}
			return
		}
		_ = slot
	}
	t.Fatal("never refused")
}
