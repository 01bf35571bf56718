package blob

import (
	"context"
	"sync"
)

// Leaves keeps decoded leaves of large contents for a reader that goes from one content to the next that is mostly the same: what
// they share is read, decompressed and verified once. It is safe for concurrent use. Many such reads would drive everything else out of
// the store's own cache, which therefore has no part in it. Contents that were announced to Expect are looked up in a few queries.
type Leaves struct {
	mu    sync.Mutex
	data  map[Ref][]byte
	place map[Ref]Location
	older map[Ref]Location // of the Expect before
	order []Ref            // oldest first
	bytes int
	most  int
}

// NewLeaves returns an empty set that keeps about most bytes.
func NewLeaves(most int) *Leaves {
	return &Leaves{data: make(map[Ref][]byte), place: make(map[Ref]Location), most: most}
}

// get returns a leaf, which nobody changes, or nil.
func (l *Leaves) get(ref Ref) []byte {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data[ref]
}

// put keeps a copy of a leaf in the place of the oldest ones.
func (l *Leaves) put(ref Ref, data []byte) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data[ref] != nil {
		return
	}
	for l.bytes+len(data) > l.most && len(l.order) > 0 {
		l.bytes -= len(l.data[l.order[0]])
		delete(l.data, l.order[0])
		l.order = l.order[1:]
	}
	l.data[ref] = append([]byte(nil), data...) // no buffer of one that went: somebody may still copy from that
	l.order = append(l.order, ref)
	l.bytes += len(data)
}

// where is the place of a blob that Expect looked up.
func (l *Leaves) where(ref Ref) (Location, bool) {
	if l == nil {
		return Location{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	loc, ok := l.place[ref]
	if !ok {
		loc, ok = l.older[ref]
	}
	return loc, ok
}

// Expect looks up where the bytes of contents are that will be read next, all at once, and forgets where those were that
// were announced before the last time: the next ones may be looked up while the last ones are read. It is no
// error that something is not found: reading it tells.
func (l *Leaves) Expect(ctx context.Context, s *Store, list []Content) {
	batch, ok := s.index.(BatchIndex)
	if !ok {
		return
	}
	place := make(map[Ref]Location)
	find := func(refs []Ref) {
		_ = batch.LocateMany(ctx, refs, func(loc Location) { place[loc.Ref] = loc })
	}
	var refs []Ref
	seen := make(map[Ref]bool)
	add := func(ref Ref) {
		if !ref.IsZero() && !seen[ref] && s.inMemory(ref) == nil {
			seen[ref] = true
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
		if loc, ok := place[c.Ref]; ok && loc.Size <= maxStored && s.inMemory(c.Ref) == nil {
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
