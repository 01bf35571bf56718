package fs

import (
	"maps"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"wsfs/store"
)

const (
	// manyForgot is how many references kernels take back before somebody looks what can go: what makes them forget that
	// many at once is want of memory.
	manyForgot = 50_000
	// manyNodes is how many nodes there may be, of FS.opts.MaxNodes inodes, before those that are not needed become cold
	// files: one in so many.
	manyNodes = 20
	// evictStep is how many inodes are looked at before others have the lock.
	evictStep = 512
	// muchFreed is how many inodes must have gone to be worth a collection of garbage, so that the system has the memory back.
	muchFreed = 100_000
	// tidyDelay is how long after manyForgot is looked what can go.
	tidyDelay = time.Second
)

// tidySoon has the housekeeper look what can go.
func (f *FS) tidySoon() {
	select {
	case f.tidy <- struct{}{}:
	default: // it will
	}
}

// inMemory is how many inodes are. FS.mu is held.
func (f *FS) inMemory() int { return len(f.nodes) + len(f.cold) }

// evict makes memory smaller: files that nobody uses lose their node, and if there are too many inodes, directories that
// neither a program nor a kernel uses are dropped with all they hold. Others get the lock in between.
func (f *FS) evict() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.freeOrphans()
	before, target := f.inMemory(), math.MaxInt
	switch {
	case f.forgot >= manyForgot: // they want memory
		target = f.opts.MaxNodes / 4
	case before > f.opts.MaxNodes:
		target = f.opts.MaxNodes * 3 / 4
	}
	f.forgot = 0
	if before <= target && len(f.nodes) <= f.manyNodes {
		return
	}
	f.peak = max(f.peak, before)
	f.sweep(func(n *node, applied store.Slot) { f.cool(n, applied) })
	if f.inMemory() > target {
		f.sweep(func(n *node, applied store.Slot) {
			if f.inMemory() > target {
				f.drop(n, applied)
			}
		})
	}
	f.freed += max(0, before-f.inMemory())
	if f.freed < muchFreed {
		return
	}
	f.freed = 0
	if f.inMemory() <= f.peak/4 { // a map keeps the room of what it once held
		f.nodes, f.cold = maps.Clone(f.nodes), maps.Clone(f.cold)
		f.peak = f.inMemory()
	}
	f.mu.Unlock()
	debug.FreeOSMemory()
	f.mu.Lock()
}

// sweep calls fn with every node and lets others have FS.mu in between. It ends early if a call waits that may have any
// node.
func (f *FS) sweep(fn func(n *node, applied store.Slot)) {
	applied, looked := f.applied(), 0
	for ino, n := range f.nodes {
		if looked++; looked%evictStep == 0 {
			f.mu.Unlock()
			runtime.Gosched()
			f.mu.Lock()
			applied = f.applied()
		}
		if f.loads > 0 {
			return
		}
		if f.nodes[ino] == n {
			fn(n, applied)
		}
	}
}

// applied is the last op that the database has. FS.mu is held.
func (f *FS) applied() store.Slot {
	if f.opts.ReadOnly {
		return math.MaxInt64
	}
	return f.st.Applied()
}

// drop forgets a clean inode that nobody uses, a directory's listing first. FS.mu is held.
func (f *FS) drop(n *node, applied store.Slot) {
	if n.slot > applied || n.fresh || n.opens > 0 || n.file != nil || n.loading != nil || n.dirtySince != 0 {
		return
	}
	if _, times := f.dirTimes[n]; times {
		return
	}
	if n.dir != nil && (n.dir.opens > 0 || n.dir.fresh > 0 || !f.unload(n)) {
		return
	}
	if n.lookups == 0 && n.ino != store.RootIno {
		f.discard(n)
	}
}

// keepHouse evicts what can go, now and then and when kernels have forgotten much, until the workspace is closed.
func (f *FS) keepHouse() {
	defer f.done.Done()
	tick := time.NewTicker(f.opts.CutAfter / 2)
	defer tick.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-tick.C:
		case <-f.tidy:
			select { // the rest of what is being forgotten
			case <-f.stop:
				return
			case <-time.After(tidyDelay):
			}
		}
		f.evict()
	}
}
