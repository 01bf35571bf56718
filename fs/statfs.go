package fs

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

// statfsCache asks the store's disk at most once a second: df and package managers ask often.
type statfsCache struct {
	dir string

	mu   sync.Mutex
	at   time.Time
	last Statfs
}

// Statfs is statfs(2): the space of the disk that the store is on.
func (f *FS) Statfs() (Statfs, error) { return f.statfs.get() }

func (s *statfsCache) get() (Statfs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.at) > time.Second {
		var st syscall.Statfs_t
		if err := syscall.Statfs(s.dir, &st); err != nil {
			return Statfs{}, fmt.Errorf("statfs of the store %s: %w", s.dir, err)
		}
		s.at = now
		s.last = Statfs{
			Blocks: st.Blocks, Bfree: st.Bfree, Bavail: st.Bavail, Files: st.Files, Ffree: st.Ffree,
			Bsize: uint32(st.Bsize), NameLen: 255,
		}
	}
	return s.last, nil
}
