package blob

import "sync"

// pending holds the blobs that are staged but not applied: small contents with their bytes, blobs in packs with their
// places. Each is counted: it stays until every Staged that has it was applied.
type pending struct {
	mu    sync.RWMutex
	small map[Ref]*pendingSmall // guarded by mu
	packs map[Ref]*pendingPack  // guarded by mu
	// patches are provisional contents. They are few.
	patches map[Ref]*patch // guarded by mu
	// late are the last ones that are not staged any more, for who has read the name of one just before that.
	late     [16]*patch // guarded by mu
	lateNext int        // guarded by mu
}

type pendingSmall struct {
	n    int
	data []byte
	loc  Location // where Settle put it; the zero Location before
}

type pendingPack struct {
	n   int
	loc Location
}

func newPending() *pending {
	return &pending{small: map[Ref]*pendingSmall{}, packs: map[Ref]*pendingPack{}, patches: map[Ref]*patch{}}
}

// data returns the bytes of a small content, or nil.
func (p *pending) data(ref Ref) []byte {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if e := p.small[ref]; e != nil {
		return e.data
	}
	return nil
}

// place returns where a blob was written, if it was and is not applied.
func (p *pending) place(ref Ref) (Location, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if e := p.packs[ref]; e != nil {
		return e.loc, true
	}
	if e := p.small[ref]; e != nil && e.loc.Size != 0 {
		return e.loc, true
	}
	return Location{}, false
}

// patch returns the patch that ref names, or nil.
func (p *pending) patch(ref Ref) *patch {
	p.mu.RLock()
	defer p.mu.RUnlock()
	e := p.patches[ref]
	if e == nil && p.late[0] != nil {
		for _, l := range p.late {
			if l != nil && l.root.Ref == ref {
				return l
			}
		}
	}
	return e
}

// add counts one more Staged.
func (p *pending) add(st Staged) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if st.Patch {
		if e := p.patches[st.Content.Ref]; e != nil {
			e.n++
		} else if len(st.Packed) > 0 {
			p.patches[st.Content.Ref] = &patch{n: 1, root: st.Packed[0]}
		}
		return
	}
	if len(st.Small) > 0 {
		if e := p.small[st.Content.Ref]; e != nil {
			e.n++
		} else {
			p.small[st.Content.Ref] = &pendingSmall{n: 1, data: st.Small}
		}
	}
	for i := range st.Packed {
		p.addPacked(st.Packed[i])
	}
}

// addPacked counts one more use of a written blob. Called with mu held.
func (p *pending) addPacked(loc Location) {
	if e := p.packs[loc.Ref]; e != nil {
		e.n++
	} else {
		p.packs[loc.Ref] = &pendingPack{n: 1, loc: loc}
	}
}

// settled notes where a small content went, so that settling it again finds it there.
func (p *pending) settled(loc Location) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.small[loc.Ref]; e != nil {
		e.loc = loc
	}
}

// remove takes back one add and calls gone for each small content that nobody waits for any more. With the last Staged of a
// patch goes the one that it was settled to, which is returned.
func (p *pending) remove(st Staged, gone func(Ref, []byte)) *Staged {
	if st.Patch {
		return p.removePatch(st, gone)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(st.Small) > 0 {
		if e := p.small[st.Content.Ref]; e != nil {
			if e.n--; e.n == 0 {
				delete(p.small, st.Content.Ref)
				gone(st.Content.Ref, e.data)
			}
		}
	}
	for i := range st.Packed {
		ref := st.Packed[i].Ref
		if e := p.packs[ref]; e != nil {
			if e.n--; e.n == 0 {
				delete(p.packs, ref)
			}
		}
	}
	return nil
}

// removePatch is remove for a patch. What it was settled to goes with the last Staged that has it.
func (p *pending) removePatch(st Staged, gone func(Ref, []byte)) *Staged {
	p.mu.Lock()
	e := p.patches[st.Content.Ref]
	if e == nil {
		p.mu.Unlock()
		return nil
	}
	e.n--
	last := e.n == 0
	if last {
		delete(p.patches, st.Content.Ref)
		if st := e.settled.Load(); st != nil {
			l := &patch{root: e.root}
			l.settled.Store(&Staged{Content: st.Content})
			p.late[p.lateNext%len(p.late)] = l
			p.lateNext++
		}
	}
	p.mu.Unlock()
	if !last {
		return nil
	}
	settled := e.settled.Load()
	if settled != nil {
		p.remove(*settled, gone)
	}
	return settled
}
