package store

import "sync/atomic"

// holds counts those who read packs by names that an older state of the database gives them.
type holds struct{ n atomic.Int64 }

// Hold keeps collection from deleting packs until release is called, which may be called more than once. A backup holds
// the store while it copies: the copy of the database names what was in the packs when it was made, whatever is moved
// meanwhile. Moving blobs into other packs may go on; what is left over is deleted in a later round.
func (s *Store) Hold() (release func()) {
	s.holds.n.Add(1)
	var once atomic.Bool
	return func() {
		if !once.Swap(true) {
			s.holds.n.Add(-1)
		}
	}
}

// Held reports whether packs may not be deleted now.
func (s *Store) Held() bool { return s.holds.n.Load() > 0 }
