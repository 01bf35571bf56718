package blob

// Hold keeps a small content that is staged readable until Release, whatever becomes of the Op that it came with. It
// reports false if the content is not staged (any more): then it is stored, and needs nobody to hold it.
func (s *Store) Hold(ref Ref) bool {
	p := s.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.small[ref]
	if e == nil {
		return false
	}
	e.n++
	return true
}

// Release ends a Hold that reported true.
func (s *Store) Release(ref Ref) {
	s.pending.remove(Staged{Content: Content{Ref: ref}, Small: []byte{0}}, s.cache.put)
}
