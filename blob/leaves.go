package blob

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Leaves keeps decoded leaves of large contents for a reader that goes from one content to the next that is mostly the same: what
// they share is read, decompressed and verified once. It is safe for concurrent use. Many such reads would drive everything else out of
// the store's own cache, which therefore has no part in it. Contents that were announced to Expect are looked up in a few queries.
type Leaves struct {
	mu    sync.RWMutex
	data  map[Ref]*keptLeaf
	place map[Ref]expected
	older map[Ref]expected // of the Expect before
	order []Ref            // those that go next first
	spare [][]byte         // of leaves that went, at most sparesOfLeaves
	bytes int
	most  int
}

const sparesOfLeaves = 8

// expected is a blob that Expect looked up.
type expected struct {
	loc  Location
	once bool // only one of the contents has it: it need not be kept
}

// keptLeaf is a leaf in a buffer that is used again: who reads it holds the lock.
type keptLeaf struct {
	data []byte
	used atomic.Bool // since it was last looked at whether it should go
}

// NewLeaves returns an empty set that keeps about most bytes.
func NewLeaves(most int) *Leaves {
	return &Leaves{data: make(map[Ref]*keptLeaf), place: make(map[Ref]expected), most: most}
}

// read copies what a leaf has from off on to p, and returns its size; 0: it is not there.
func (l *Leaves) read(ref Ref, p []byte, off int64) int64 {
	if l == nil {
		return 0
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	k := l.data[ref]
	if k == nil || off > int64(len(k.data)) {
		return 0
	}
	k.used.Store(true)
	copy(p, k.data[off:])
	return int64(len(k.data))
}

// put keeps a copy of a leaf in the place of those that were not used for longest.
func (l *Leaves) put(ref Ref, data []byte) {
	if l == nil || len(data) > l.most {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data[ref] != nil {
		return
	}
	if e, ok := l.expected(ref); ok && e.once {
		return
	}
	for l.bytes+len(data) > l.most {
		first := l.order[0]
		l.order = l.order[1:]
		k := l.data[first]
		if k.used.Swap(false) {
			l.order = append(l.order, first)
			continue
		}
		l.bytes -= len(k.data)
		delete(l.data, first)
		if l.spare = append(l.spare, k.data[:0]); len(l.spare) > sparesOfLeaves {
			l.spare = l.spare[1:]
		}
	}
	l.data[ref] = &keptLeaf{data: append(l.buffer(len(data)), data...)}
	l.order = append(l.order, ref)
	l.bytes += len(data)
}

// buffer is an empty one with room for n bytes.
func (l *Leaves) buffer(n int) []byte {
	for i, b := range l.spare {
		if cap(b) >= n && cap(b) <= 2*n {
			l.spare = slices.Delete(l.spare, i, i+1)
			return b
		}
	}
	return make([]byte, 0, n+n/8) // the next one may be a little longer
}

// where is the place of a blob that Expect looked up.
func (l *Leaves) where(ref Ref) (Location, bool) {
	if l == nil {
		return Location{}, false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	e, ok := l.expected(ref)
	return e.loc, ok
}

// expected needs the lock.
func (l *Leaves) expected(ref Ref) (expected, bool) {
	e, ok := l.place[ref]
	if !ok {
		e, ok = l.older[ref]
	}
	return e, ok
}

// Expect looks up where the bytes of contents are that will be read next, all at once, and forgets where those were that
// were announced before the last time: the next ones may be looked up while the last ones are read. It is no
// error that something is not found: reading it tells.
func (l *Leaves) Expect(ctx context.Context, s *Store, list []Content) {
	batch, ok := s.index.(BatchIndex)
	if !ok {
		return
	}
	seen := make(map[Ref]int, 4*len(list))
	place := make(map[Ref]expected, 4*len(list))
	find := func(refs []Ref) {
		_ = batch.LocateMany(ctx, refs, func(loc Location) { place[loc.Ref] = expected{loc, seen[loc.Ref] == 1} })
	}
	var refs []Ref
	add := func(ref Ref) {
		if ref.IsZero() {
			return
		}
		if seen[ref]++; seen[ref] == 1 && s.inMemory(ref) == nil {
			refs = append(refs, ref)
		}
	}
	for _, c := range list {
		add(c.Ref)
	}
	find(refs)
	refs = nil
	for _, c := range list {
		if c.Size <= MaxBlob || levelFor(c.Size) != 1 {
			continue // one blob, or larger than what is worth this
		}
		if loc := place[c.Ref].loc; loc.Size > 0 && loc.Size <= maxStored && s.inMemory(c.Ref) == nil {
			data := make([]byte, loc.Size)
			if s.fetch(ctx, loc, data) == nil {
				s.cache.put(c.Ref, data)
			}
		}
		n, err := s.node(ctx, c.Ref, 1, c.Size)
		if err != nil {
			continue
		}
		for i := range n.count() {
			add(n.ref(i))
		}
	}
	find(refs)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place, l.older = place, l.place
}
