package fs

import (
	"math"
	"slices"
	"sync"
	"syscall"

	"wsfs/store"
)

// lockTable holds the advisory locks of one live workspace: byte ranges of fcntl(2) and whole files of flock(2). The
// two kinds do not see each other, as on local Linux file systems.
type lockTable struct {
	mu      sync.Mutex
	inodes  map[store.Ino]*inodeLocks
	waiting map[uint64]lockWait // by owner: what it waits for, to refuse deadlocks
}

type inodeLocks struct {
	held    []heldLock
	changed chan struct{} // closed and replaced when a lock goes away; nil while nobody waits
}

type heldLock struct {
	Lock
	handle *Handle
}

type lockWait struct {
	ino    store.Ino
	want   Lock
	handle *Handle
}

func (l *Lock) overlaps(o *Lock) bool { return l.Start <= o.End && o.Start <= l.End }

// touches is overlaps, or being neighbours.
func (l *Lock) touches(o *Lock) bool {
	return l.overlaps(o) || l.End != math.MaxUint64 && l.End+1 == o.Start || o.End != math.MaxUint64 && o.End+1 == l.Start
}

func (l *Lock) conflicts(o *Lock) bool {
	return l.Flock == o.Flock && l.Owner != o.Owner && l.overlaps(o) &&
		(l.Type == syscall.F_WRLCK || o.Type == syscall.F_WRLCK)
}

// GetLock reports a lock that keeps want from being granted, or Type F_UNLCK.
func (f *FS) GetLock(_ *Call, id store.Ino, want Lock) (Lock, error) {
	ino := id
	f.mu.Lock()
	if n := f.known(id); n != nil {
		ino = n.ino
	}
	f.mu.Unlock()
	t := &f.locks
	t.mu.Lock()
	defer t.mu.Unlock()
	if held := t.blocker(ino, &want); held != nil {
		return held.Lock, nil
	}
	return Lock{Type: syscall.F_UNLCK, Start: want.Start, End: want.End}, nil
}

// SetLock takes, changes or releases a lock for want.Owner. With wait it blocks until granted; an interrupted wait is
// EINTR, a wait that could never end is EDEADLK. Without wait a conflict is EAGAIN.
func (f *FS) SetLock(c *Call, h *Handle, want Lock, wait bool) error {
	ino, t := h.n.ino, &f.locks
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inodes == nil {
		t.inodes, t.waiting = map[store.Ino]*inodeLocks{}, map[uint64]lockWait{}
	}
	for want.Type != syscall.F_UNLCK {
		if t.blocker(ino, &want) == nil {
			break
		}
		if !wait {
			return nameErr("lock", "a range that another process holds", syscall.EAGAIN)
		}
		if !want.Flock && t.deadlock(ino, &want) {
			return nameErr("lock", "a range whose holder waits for us", syscall.EDEADLK)
		}
		if want.Flock {
			// flock(2) converts by releasing first: two upgraders would wait for each other for ever.
			off := Lock{Start: want.Start, End: want.End, Type: syscall.F_UNLCK, Owner: want.Owner, Flock: true}
			t.put(ino, h, off)
			f.noteLocked(ino, h, &off)
		}
		if err := t.wait(c, ino, h, want); err != nil {
			return err
		}
	}
	t.put(ino, h, want)
	f.noteLocked(ino, h, &want)
	return nil
}

// wait returns when some lock of ino went away. t.mu is held, and released meanwhile.
func (t *lockTable) wait(c *Call, ino store.Ino, h *Handle, want Lock) error {
	il := t.inodes[ino]
	if il.changed == nil {
		il.changed = make(chan struct{})
	}
	ch := il.changed
	t.waiting[want.Owner] = lockWait{ino, want, h}
	t.mu.Unlock()
	c.yield()
	var cancel <-chan struct{}
	if c != nil {
		cancel = c.Cancel
	}
	var err error
	select {
	case <-ch:
	case <-cancel:
		err = nameErr("lock", "interrupted while waiting", syscall.EINTR)
	}
	t.mu.Lock()
	delete(t.waiting, want.Owner)
	return err
}

// blocker is the first lock, by its place in the file, that keeps want from being granted, or nil.
func (t *lockTable) blocker(ino store.Ino, want *Lock) *heldLock {
	il := t.inodes[ino]
	if il == nil {
		return nil
	}
	var first *heldLock
	for i := range il.held {
		if l := &il.held[i]; l.conflicts(want) && (first == nil || l.Start < first.Start) {
			first = l
		}
	}
	return first
}

// deadlock reports whether an owner that keeps want from being granted waits, directly or through others, for a lock
// of want's owner.
func (t *lockTable) deadlock(ino store.Ino, want *Lock) bool {
	seen := map[uint64]bool{}
	var blocked func(ino store.Ino, want *Lock) bool
	blocked = func(ino store.Ino, w *Lock) bool {
		il := t.inodes[ino]
		if il == nil {
			return false
		}
		for i := range il.held {
			held := &il.held[i]
			if !held.conflicts(w) {
				continue
			}
			if held.Owner == want.Owner {
				return true
			}
			if next, ok := t.waiting[held.Owner]; ok && !seen[held.Owner] {
				seen[held.Owner] = true
				if blocked(next.ino, &next.want) {
					return true
				}
			}
		}
		return false
	}
	return blocked(ino, want)
}

// put replaces what the owner has in the range by l; F_UNLCK leaves nothing. Neighbours of the same type become one lock:
// F_GETLK tells its whole range.
func (t *lockTable) put(ino store.Ino, h *Handle, l Lock) {
	il := t.inodes[ino]
	if il == nil {
		if l.Type == syscall.F_UNLCK {
			return
		}
		il = &inodeLocks{}
		t.inodes[ino] = il
	}
	var rest []heldLock
	for _, held := range il.held {
		if held.Flock != l.Flock || held.Owner != l.Owner || !held.touches(&l) {
			rest = append(rest, held)
			continue
		}
		if held.Type == l.Type {
			l.Start, l.End = min(l.Start, held.Start), max(l.End, held.End)
			continue
		}
		if held.Start < l.Start {
			left := held
			left.End = l.Start - 1
			rest = append(rest, left)
		}
		if held.End > l.End {
			right := held
			right.Start = l.End + 1
			rest = append(rest, right)
		}
	}
	if l.Type != syscall.F_UNLCK {
		rest = append(rest, heldLock{Lock: l, handle: h})
	}
	il.held = rest
	t.wake(ino, il)
}

func (t *lockTable) wake(ino store.Ino, il *inodeLocks) {
	if il.changed != nil {
		close(il.changed)
		il.changed = nil
	}
	if len(il.held) == 0 {
		delete(t.inodes, ino)
	}
}

// dropOwner releases the byte-range locks of an owner: close(2) of any descriptor does that.
func (t *lockTable) dropOwner(ino store.Ino, owner uint64) bool {
	return t.drop(ino, func(l *heldLock) bool { return !l.Flock && l.Owner == owner })
}

// dropHandle releases what was taken through a handle that is gone: flock(2) and open file description locks.
func (t *lockTable) dropHandle(ino store.Ino, h *Handle) {
	t.drop(ino, func(l *heldLock) bool { return l.handle == h })
}

func (t *lockTable) drop(ino store.Ino, gone func(*heldLock) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	il := t.inodes[ino]
	if il == nil {
		return false
	}
	n := len(il.held)
	il.held = slices.DeleteFunc(il.held, func(l heldLock) bool { return gone(&l) })
	dropped := len(il.held) != n
	if dropped {
		t.wake(ino, il)
	}
	return dropped
}
