package hosttree

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Same reports whether a directory, and everything in it, is surely what it was when the index was saved with its state:
// nothing was made, removed or changed, no attribute, no time. It is false where that is not sure, and of an index without a
// state. It opens directories and reads no file; the first difference ends it.
func (x *Index) Same(ctx context.Context, dir string) bool {
	if !x.Full || len(x.Moved) > 0 || x.Loaded.Timeline == 0 {
		return false
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(dir, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFDIR || uint64(st.Mtim.Nano()) != x.Loaded.Mtime ||
		uint64(st.Ctim.Nano()) != x.Loaded.Ctime || st.Ino != x.Loaded.Ino {
		return false
	}
	s := &sameness{x: x, ctx: ctx, free: make(chan struct{}, 1)}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	s.dir(fd, "")
	s.wg.Wait()
	return !s.differs.Load() && s.found.Load() == int64(len(x.Entries))
}

type sameness struct {
	x       *Index
	ctx     context.Context
	free    chan struct{} // one for each goroutine beside the first
	wg      sync.WaitGroup
	differs atomic.Bool
	found   atomic.Int64
}

// dir takes fd over.
func (s *sameness) dir(fd int, rel string) {
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil || s.ctx.Err() != nil {
		s.differs.Store(true)
		return
	}
	var path []byte
	if rel != "" {
		path = append(append(path, rel...), '/')
	}
	base := len(path)
	s.found.Add(int64(len(names)))
	for _, name := range names {
		if s.differs.Load() {
			return
		}
		path = append(path[:base], name...)
		var st unix.Stat_t
		old, known := s.x.Entries[string(path)]
		if !known || unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || old.Mode != st.Mode || !old.IsDir() && old.Size != st.Size ||
			old.Mtime != st.Mtim.Nano() || old.Ctime != st.Ctim.Nano() || old.Ino != st.Ino {
			s.differs.Store(true)
			return
		}
		if !old.IsDir() {
			continue
		}
		sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			s.differs.Store(true)
			return
		}
		below := string(path)
		select {
		case s.free <- struct{}{}:
			s.wg.Go(func() {
				s.dir(sub, below)
				<-s.free
			})
		default:
			s.dir(sub, below)
		}
	}
}
