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
	batch, ok := s.index.(BatchIndex)
	if !ok || s.closed.Load() {
		return
	}
	ask := make([]Ref, 0, len(refs))
	for _, ref := range refs {
		if ref.IsZero() || s.inMemory(ref) != nil || s.runs.has(ref) {
			continue
		}
		if _, ok := s.pending.place(ref); ok {
			continue
		}
		if _, ok := s.places.get(ref); !ok {
			ask = append(ask, ref)
		}
	}
	if len(ask) == 0 {
		return
	}
	var stretches []Location // the first of each
	_ = batch.LocateMany(ctx, ask, func(loc Location) {
		switch {
		case loc.Size <= 0 || loc.Size > MaxBlob:
		case loc.Pack == 0:
			s.decodeRecord(loc)
		default:
			s.places.put(loc)
			stretches = append(stretches, loc)
		}
	})
	for _, loc := range stretches {
		if !s.runs.has(loc.Ref) {
			s.readRun(loc)
		}
	}
}
