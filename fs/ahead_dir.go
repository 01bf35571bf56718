package fs

import (
	"runtime"
	"syscall"

	"wsfs/store"
)

// Who goes through a tree reads one directory after the other, and each costs a few queries. When a second directory of a
// parent is read just after the one before it, the next ones are read ahead, beside whoever goes on. Bounded: a directory that was read ahead and is used
// makes room for another one.
const (
	aheadDirs  = 12   // how many siblings, and how many children, are wanted at once
	aheadLook  = 4096 // entries that are looked at to find them
	aheadQueue = 64
	// aheadMost is how many are read at a time: whoever waits for one of them works on none.
	aheadMost = 4
)

// dirsAhead is which directories to read next. Guarded by FS.mu.
type dirsAhead struct {
	queue   []store.Ino
	running int // goroutines that load
}

// used is called when the listing of n, just loaded or read ahead, is used for the first time. FS.mu is held.
func (f *FS) used(n *node) {
	n.dir.unused = false
	p := f.nodes[n.parent]
	if p == nil || p == n || p.dir == nil || f.closed {
		return
	}
	e := p.dir.get(n.name)
	if e == nil {
		return
	}
	was := p.dir.walked
	if p.dir.walked = e.cookie; was == 0 || !p.dir.follows(was, e) {
		return
	}
	f.dirsAhead.queue = f.dirsAhead.queue[:0] // what was wanted before is behind, or comes again
	f.wantDirs(n.dir, firstCookie-1)
	f.wantDirs(p.dir, e.cookie)
	for f.dirsAhead.running < min(len(f.dirsAhead.queue), aheadMost, runtime.GOMAXPROCS(0)) {
		f.dirsAhead.running++
		f.done.Go(f.readDirsAhead)
	}
}

// follows reports whether e is the first directory behind a place in the listing.
func (d *dir) follows(cookie uint64, e *dentry) bool {
	for i := d.after(cookie); i < len(d.order) && d.order[i].cookie <= cookie+aheadLook; i++ {
		if o := &d.order[i]; !o.dead() && o.typ == syscall.S_IFDIR {
			return o == e
		}
	}
	return false
}

// wantDirs queues the directories behind a place in a listing that memory does not have. FS.mu is held.
func (f *FS) wantDirs(d *dir, cookie uint64) {
	i := d.after(cookie)
	for n := 0; i < len(d.order) && n < aheadDirs && len(f.dirsAhead.queue) < aheadQueue; i++ {
		e := &d.order[i]
		if e.cookie > cookie+aheadLook {
			return
		}
		if e.dead() || e.typ != syscall.S_IFDIR {
			continue
		}
		n++
		if c := f.nodes[e.ino]; c != nil && c.dir == nil && c.loading == nil && !c.gone {
			f.dirsAhead.queue = append(f.dirsAhead.queue, e.ino)
		}
	}
}

// readDirsAhead loads what is queued and ends. What fails is left to whoever asks for it.
func (f *FS) readDirsAhead() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.dirsAhead.queue) > 0 && !f.closed {
		ino := f.dirsAhead.queue[0]
		f.dirsAhead.queue = f.dirsAhead.queue[1:]
		n := f.nodes[ino]
		if n == nil || !n.isDir() || n.dir != nil || n.loading != nil || n.gone || f.inMemory() >= f.opts.MaxNodes {
			continue
		}
		if err := f.load(nil, n); err != nil {
			f.dirsAhead.queue = nil
		}
	}
	f.dirsAhead.running--
}
