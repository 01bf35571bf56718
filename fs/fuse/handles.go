package fuse

import (
	"slices"
	"sync"
)

// handles gives open files and listings the numbers by which the kernel names them. 0 is never used, and a number is
// used again only after its RELEASE.
type handles[T any] struct {
	mu   sync.RWMutex
	open []*T // guarded by mu
	free []uint64
	// Numbers up to first were given by a process before this one; what was brought back of them is in old.
	first uint64
	old   map[uint64]*T // guarded by mu
}

// before reports whether a number was given by a process before this one, and not by put.
func (t *handles[T]) before(fh uint64) bool { return fh != 0 && fh <= t.first }

// bring gives v a number of a process before this one, unless something has it by now.
func (t *handles[T]) bring(fh uint64, v *T) (have *T, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.old[fh]; have != nil {
		return have, false
	}
	if t.old == nil {
		t.old = map[uint64]*T{}
	}
	t.old[fh] = v
	return v, true
}

func (t *handles[T]) add(v *T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		fh := t.free[n-1]
		t.free = t.free[:n-1]
		t.open[fh-1] = v
		return t.first + fh
	}
	t.open = append(t.open, v)
	return t.first + uint64(len(t.open))
}

// put gives v a number that it had before. It comes before any request.
func (t *handles[T]) put(fh uint64, v *T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uint64(len(t.open)) < fh {
		t.open = append(t.open, nil)
		t.free = append(t.free, uint64(len(t.open)))
	}
	t.open[fh-1] = v
	t.free = slices.DeleteFunc(t.free, func(n uint64) bool { return n == fh })
}

// get returns nil for a number that names nothing.
func (t *handles[T]) get(fh uint64) *T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if fh <= t.first {
		return t.old[fh]
	}
	fh -= t.first
	if fh == 0 || fh > uint64(len(t.open)) {
		return nil
	}
	return t.open[fh-1]
}

func (t *handles[T]) remove(fh uint64) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fh <= t.first {
		v := t.old[fh]
		delete(t.old, fh)
		return v
	}
	fh -= t.first
	if fh == 0 || fh > uint64(len(t.open)) || t.open[fh-1] == nil {
		return nil
	}
	v := t.open[fh-1]
	t.open[fh-1] = nil
	t.free = append(t.free, fh)
	return v
}

// drain removes and returns everything open.
func (t *handles[T]) drain() []*T {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*T
	for _, v := range t.open {
		if v != nil {
			out = append(out, v)
		}
	}
	for _, v := range t.old {
		out = append(out, v)
	}
	t.open, t.free, t.old = nil, nil, nil
	return out
}
