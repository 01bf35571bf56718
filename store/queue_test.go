package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// within fails the test if f hangs. It measures nothing.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

func TestStates(t *testing.T) {
	db := newFakeDB()
	p := startPipe(t, t.TempDir(), db, never())
	slot := p.mustPut(1, 10)
	if slot != 1 || p.last.Load() != 1 {
		t.Fatalf("slot %d, last %d", slot, p.last.Load())
	}
	if s := p.stats(); s.Written != 0 || s.Durable != 0 || s.Applied != 0 || s.PendingBytes == 0 {
		t.Fatalf("after append: %+v", s)
	}
	p.mustWait(slot)
	if s := p.stats(); s.Written != 1 || s.Durable != 0 || s.Flushes != 1 {
		t.Fatalf("after wait: %+v", s)
	}
	if err := p.sync(slot); err != nil {
		t.Fatal(err)
	}
	if s := p.stats(); s.Durable != 1 || s.Applied != 0 || s.Syncs != 1 {
		t.Fatalf("after sync: %+v", s)
	}
	if err := p.apply(context.Background(), slot); err != nil {
		t.Fatal(err)
	}
	if s := p.stats(); s.Applied != 1 || s.Groups != 1 || s.PendingBytes != 0 || s.Syncs != 1 {
		t.Fatalf("after apply: %+v", s)
	}
	for _, err := range []error{p.wait(2), p.sync(2), p.apply(context.Background(), 2)} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Fatalf("slot that does not exist: %v", err)
		}
	}
	p.stopClean()
	if _, err := p.append(numbered(2, 0)); !errors.Is(err, ErrClosed) {
		t.Fatalf("append after close: %v", err)
	}
}

// Only what is in packs already needs them flushed for a sync; the applier flushes what it has put there itself.
func TestSyncOfPacks(t *testing.T) {
	p := startPipe(t, t.TempDir(), newFakeDB(), never())
	for i, step := range []struct {
		packed bool
		syncs  int
	}{{false, 0}, {true, 1}, {false, 1}, {false, 1}, {true, 2}} {
		var slot Slot
		if step.packed {
			slot = p.putPacked(int64(i + 1))
		} else {
			slot = p.mustPut(int64(i+1), 10)
		}
		if err := p.sync(slot); err != nil {
			t.Fatal(err)
		}
		if p.cs.syncs != step.syncs {
			t.Fatalf("after step %d the packs were flushed %d times, want %d", i, p.cs.syncs, step.syncs)
		}
	}
	p.stopClean()
	if p.cs.syncs != 3 {
		t.Fatalf("%d flushes after the applier's", p.cs.syncs)
	}
}

// The order of things that a power cut relies on: contents before journal before rows.
func TestOrderOfSyncs(t *testing.T) {
	db := newFakeDB()
	p := startPipe(t, t.TempDir(), db, quick())
	var settled, synced bool
	p.cs.settle = func() error { settled, synced = true, false; return nil }
	p.cs.sync = func() error { synced = true; return nil }
	db.before = func(g *group) error {
		if !settled || !synced || p.j.durable.Load() < g.applied {
			return fmt.Errorf("settled %v, synced %v, journal durable up to %d of %d", settled, synced, p.j.durable.Load(), g.applied)
		}
		return nil
	}
	for i := range 50 {
		slot := p.mustPut(int64(i+1), 100)
		if i%5 == 0 {
			if err := p.apply(context.Background(), slot); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.stopClean()
	wantSeqs(t, db, 50)
}

func TestGroups(t *testing.T) {
	for _, size := range []int{1, 32, 1024} {
		db := newFakeDB()
		o := quick()
		o.groupOps = size
		p := startPipe(t, t.TempDir(), db, o)
		for i := range 300 {
			p.mustPut(int64(i+1), 50)
		}
		p.stopClean()
		wantSeqs(t, db, 300)
		for _, n := range db.groups {
			if n > size {
				t.Fatalf("a group of %d, the most is %d", n, size)
			}
		}
	}
}

// A group is also bounded in bytes.
func TestGroupBytes(t *testing.T) {
	db := newFakeDB()
	o := never()
	o.groupBytes = 10_000
	p := startPipe(t, t.TempDir(), db, o)
	for i := range 50 {
		p.mustPut(int64(i+1), 1000+i/49*20_000)
	}
	p.stopClean()
	wantSeqs(t, db, 50)
	if len(db.groups) < 6 {
		t.Fatalf("groups %v", db.groups)
	}
}

// Whoever waits for the database does not wait for the group to fill.
func TestApplyIsImmediate(t *testing.T) {
	db := newFakeDB()
	p := startPipe(t, t.TempDir(), db, never())
	within(t, "apply", func() {
		for i := range 20 {
			if err := p.apply(context.Background(), p.mustPut(int64(i+1), 10)); err != nil {
				t.Error(err)
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	block := make(chan struct{})
	db.before = func(*group) error { <-block; return nil }
	if err := p.apply(ctx, p.mustPut(21, 1)); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	close(block)
	p.stopClean()
}

// Ops that nobody waits for are written and applied all the same.
func TestNobodyWaits(t *testing.T) {
	db := newFakeDB()
	p := startPipe(t, t.TempDir(), db, quick())
	p.mustPut(1, 10)
	within(t, "the applier", func() {
		for p.applied.Load() < 1 {
			time.Sleep(time.Millisecond)
		}
	})
	p.stopClean()
}

func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	db := newFakeDB()
	o := quick()
	o.groupOps = 64
	p := startPipe(t, dir, db, o)
	var next atomic.Int64
	var order sync.Mutex // as fs holds its lock over Append
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				order.Lock()
				slot, err := p.put(next.Add(1), 10+i*g)
				order.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				switch (i + g) % 7 {
				case 0:
					err = p.sync(slot)
				case 1:
					err = p.apply(context.Background(), slot)
				default:
					err = p.wait(slot)
				}
				if err != nil {
					t.Error(err)
				}
				p.stats()
			}
		})
	}
	within(t, "the load", wg.Wait)
	p.stopClean()
	wantSeqs(t, db, 1600)
}

// Many who wait share one write and one flush.
func TestSharedSync(t *testing.T) {
	p := startPipe(t, t.TempDir(), newFakeDB(), never())
	const n = 64
	first := make(chan struct{}) // the first round stands still until all have come
	var came atomic.Int64
	var once sync.Once
	p.cs.sync = func() error { once.Do(func() { <-first }); return nil }
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			slot := p.putPacked(int64(i))
			if came.Add(1) == n {
				close(first)
			}
			if err := p.sync(slot); err != nil {
				t.Error(err)
			}
		})
	}
	within(t, "sync", wg.Wait)
	if s := p.stats(); s.Syncs > n/2 || s.Flushes > n {
		t.Fatalf("%d rounds and %d writes for %d callers", s.Syncs, s.Flushes, n)
	}
	p.stopClean()
}

func TestBackPressure(t *testing.T) {
	// Of ops without content it is the memory that brakes: their records are small.
	for name, size := range map[string]int{"content": 1000, "names": 0} {
		t.Run(name, func(t *testing.T) {
			db := newFakeDB()
			open := make(chan struct{})
			db.before = func(*group) error { <-open; return nil }
			o := quick()
			o.maxPending = 50_000
			p := startPipe(t, t.TempDir(), db, o)
			var slot Slot
			for i := range 200 {
				slot = p.mustPut(int64(i+1), size) // never blocks
			}
			released := make(chan error, 1)
			go func() { released <- p.wait(slot) }()
			select {
			case err := <-released:
				t.Fatalf("wait did not brake: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			close(open)
			within(t, "wait", func() {
				if err := <-released; err != nil {
					t.Error(err)
				}
			})
			p.stopClean()
		})
	}
}

// Equal databases whatever the size of the groups.
func TestGroupSizesAreEqual(t *testing.T) {
	var want []*Op
	for _, size := range []int{1, 32, 1024} {
		db := newFakeDB()
		o := quick()
		o.groupOps = size
		p := startPipe(t, t.TempDir(), db, o)
		m := newOpMaker(5)
		for i := range 400 {
			op := m.op()
			op.Seq = Seq(i + 1)
			p.cs.mu.Lock()
			p.cs.pending += len(op.Contents)
			p.cs.mu.Unlock()
			if _, err := p.append(op); err != nil {
				t.Fatal(err)
			}
		}
		p.stopClean()
		if want == nil {
			want = db.ops
		} else if !reflect.DeepEqual(db.ops, want) {
			t.Fatalf("groups of %d give another database", size)
		}
	}
}

func TestBreakerMessage(t *testing.T) {
	var told int
	b := newBreaker(func(error) { told++ })
	first := b.trip(errFull)
	second := b.trip(errors.New("later"))
	if first != second || told != 1 || b.err() != first {
		t.Fatalf("%v, %v, told %d times", first, second, told)
	}
	var errno syscall.Errno
	if !errors.As(first, &errno) || errno != syscall.EIO || !strings.Contains(first.Error(), "no space") {
		t.Fatalf("errno %v of %v", errno, first)
	}
}

// TestSyncedMeanwhile: an op that the applier lets wait is soon on the disk all the same.
func TestSyncedMeanwhile(t *testing.T) {
	o := never()
	o.syncEvery = time.Millisecond
	p := startPipe(t, t.TempDir(), newFakeDB(), o)
	for i := range int64(3) { // it begins anew after a pause
		slot := int64(p.mustPut(1+i, 10))
		for end := time.Now().Add(30 * time.Second); p.j.durable.Load() < slot; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("op %d is not on the disk; the last that is: %d", slot, p.j.durable.Load())
			}
		}
	}
	if s := p.stats(); s.Applied != 0 {
		t.Fatalf("%d ops are applied already", s.Applied)
	}
}

// TestGroupsEnd: ops that come without a pause do not keep the applier from beginning.
func TestGroupsEnd(t *testing.T) {
	o := quick()
	o.groupDelay, o.groupAge = 50*time.Millisecond, 60*time.Millisecond
	p := startPipe(t, t.TempDir(), newFakeDB(), o)
	end := time.Now().Add(30 * time.Second)
	for i := int64(1); p.applied.Load() == 0; i++ {
		p.mustPut(i, 10)
		time.Sleep(100 * time.Microsecond)
		if time.Now().After(end) {
			t.Fatalf("of %d ops none is applied", i)
		}
	}
}
