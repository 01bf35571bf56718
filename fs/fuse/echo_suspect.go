package fuse

import (
	"sync"
	"sync/atomic"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
)

// suspects are names that a kernel may still take for what they led to before a move. Until it was told, or has looked again
// by itself, it must not take them away: the server would remove what the name leads to now, and the kernel what it has in
// its place; a directory that it removes so is dead in that kernel even if it lives on elsewhere. ESTALE makes the kernel look
// again, once, and come back.
type suspects struct {
	any   atomic.Int64 // names, so that nothing is looked for while there are none
	mu    sync.Mutex
	names map[suspect]int // guarded by mu; moves that are being told
}

type suspect struct {
	parent uint64
	name   string
}

// add notes the names of a move; what it returns is called once they have been told.
func (s *suspects) add(v movedView, ev *fs.Moved) (told func()) {
	mine := make(map[suspect]bool, len(ev.Entries))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[suspect]int{}
	}
	for i := range ev.Entries {
		e := &ev.Entries[i]
		if key := (suspect{uint64(v.id(e.Parent)), e.Name}); e.Old.ID != e.New.ID && !mine[key] {
			mine[key] = true
			s.names[key]++
		}
	}
	s.any.Store(int64(len(s.names)))
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for key := range mine {
			if s.names[key]--; s.names[key] <= 0 {
				delete(s.names, key)
			}
		}
		s.any.Store(int64(len(s.names)))
	}
}

// looked forgets a name about which the kernel was just told the truth.
func (s *suspects) looked(parent uint64, name string) {
	if s.any.Load() == 0 {
		return
	}
	s.mu.Lock()
	delete(s.names, suspect{parent, name})
	s.any.Store(int64(len(s.names)))
	s.mu.Unlock()
}

// check is ESTALE for a name that the kernel may take for another.
func (s *suspects) check(parent uint64, name string) gofuse.Status {
	if s.any.Load() == 0 {
		return gofuse.OK
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[suspect{parent, name}] > 0 {
		return estale
	}
	return gofuse.OK
}
