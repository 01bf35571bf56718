package blob

import (
	"context"
	"sync"
)

// maxPlaces is how many looked up locations are kept: about half a megabyte.
const maxPlaces = 4096

// places are locations of blobs that will be asked for soon. The zero value is empty and ready.
type places struct {
	mu  sync.Mutex
	loc map[Ref]Location // guarded by mu
}

func (p *places) get(ref Ref) (Location, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	loc, ok := p.loc[ref]
	return loc, ok
}

func (p *places) put(loc Location) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loc == nil || len(p.loc) >= maxPlaces {
		p.loc = make(map[Ref]Location)
	}
	p.loc[loc.Ref] = loc
}

// Expect says that small contents will be read soon, in this order. They are looked up in one query; where several lie close
// together, the stretch of the pack is read. That something is not found is no error: reading it tells.
func (s *Store) Expect(ctx context.Context, refs []Ref) {
	s.ExpectAt(ctx, refs, nil)
}

// ExpectAt is Expect of who knows a cheaper way to where contents are than the index: hint, if it is not nil, is told which of refs, by
// their numbers, and calls found for those that it knows, in any order. It may be wrong: then the index is asked after all.
func (s *Store) ExpectAt(ctx context.Context, refs []Ref, hint func(which []int, found func(Location))) {
	batch, ok := s.index.(BatchIndex)
	if !ok || s.closed.Load() {
		return
	}
	var which []int
	for i, ref := range refs {
		if ref.IsZero() || s.inMemory(ref) != nil || s.runs.has(ref) {
			continue
		}
		if _, ok := s.pending.place(ref); ok {
			continue
		}
		if _, ok := s.places.get(ref); !ok {
			which = append(which, i)
		}
	}
	if len(which) == 0 {
		return
	}
	var stretches []Location // the first of each
	known := make(map[Ref]bool)
	found := func(loc Location) {
		switch {
		case loc.Size <= 0 || loc.Size > MaxBlob:
		case loc.Pack == 0:
			known[loc.Ref] = s.decodeRecord(loc) != nil
		default:
			known[loc.Ref] = true
			s.places.put(loc)
			stretches = append(stretches, loc)
		}
	}
	if hint != nil {
		hint(which, found)
	}
	ask := make([]Ref, 0, len(which))
	for _, i := range which {
		if !known[refs[i]] {
			ask = append(ask, refs[i])
		}
	}
	if len(ask) > 0 {
		_ = batch.LocateMany(ctx, ask, found)
	}
	for _, loc := range stretches {
		if !s.runs.has(loc.Ref) {
			s.readRun(loc)
		}
	}
}
