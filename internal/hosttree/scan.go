package hosttree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Change is a path whose stat(2) is not what an index says. Whether it holds anything else has to be looked at.
type Change struct {
	Path string
	Now  Entry // without content; nothing, if it is gone
}

// Changes finds what a directory has that differs from the index, in no order. skip are absolute paths that are not
// looked at. It reads no file, and each directory once.
func (x *Index) Changes(ctx context.Context, dir string, skip map[string]bool) ([]Change, error) {
	s := &scanner{x: x, ctx: ctx, skip: skip, now: time.Now().UnixNano()}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("look through %s: %w", dir, err)
	}
	if err := s.dir(fd, dir, ""); err != nil {
		return nil, err
	}
	if s.found < len(x.Entries) {
		for p := range x.Entries {
			if !s.seen(p) {
				s.list = append(s.list, Change{Path: p})
			}
		}
	}
	return s.list, nil
}

type scanner struct {
	x     *Index
	ctx   context.Context
	skip  map[string]bool
	now   int64
	list  []Change
	found int                 // entries of the index that are there
	gone  map[string]struct{} // entries of the index that are there, once one was missed
	all   []string
}

func (s *scanner) seen(path string) bool {
	if s.gone == nil {
		s.gone = make(map[string]struct{}, len(s.all))
		for _, p := range s.all {
			s.gone[p] = struct{}{}
		}
	}
	_, ok := s.gone[path]
	return ok
}

// dir takes fd over.
func (s *scanner) dir(fd int, abs, rel string) error {
	f := os.NewFile(uintptr(fd), abs)
	defer f.Close()
	if err := s.ctx.Err(); err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("look through %s: %w", abs, err)
	}
	for _, name := range names {
		path := name
		if rel != "" {
			path = rel + "/" + name
		}
		if s.skip[abs+"/"+name] || rel == "" && (name == ".wsfs" || strings.HasPrefix(name, StagingPrefix)) {
			continue
		}
		var ust unix.Stat_t
		if err := unix.Fstatat(fd, name, &ust, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			if errors.Is(err, syscall.ENOENT) {
				continue
			}
			return fmt.Errorf("look at %s: %w", filepath.Join(abs, name), err)
		}
		st := sysStat(&ust)
		old, known := s.x.Entries[path]
		if known {
			s.found++
			s.all = append(s.all, path)
		}
		if !known || !old.unchanged(&st) {
			c := Change{Path: path}
			c.Now.stat(&st, s.now)
			s.list = append(s.list, c)
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			continue
		}
		sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
			continue // replaced while we look
		}
		if err != nil {
			return fmt.Errorf("look through %s: %w", filepath.Join(abs, name), err)
		}
		if err := s.dir(sub, abs+"/"+name, path); err != nil {
			return err
		}
	}
	return nil
}

func sysStat(u *unix.Stat_t) syscall.Stat_t {
	return syscall.Stat_t{
		Dev: u.Dev, Ino: u.Ino, Nlink: u.Nlink, Mode: u.Mode, Uid: u.Uid, Gid: u.Gid, Rdev: u.Rdev, Size: u.Size, Blocks: u.Blocks,
		Mtim: syscall.Timespec{Sec: u.Mtim.Sec, Nsec: u.Mtim.Nsec}, Ctim: syscall.Timespec{Sec: u.Ctim.Sec, Nsec: u.Ctim.Nsec},
	}
}

// FromStat is an entry that was looked at in a scan that began at now (ns).
func FromStat(st *syscall.Stat_t, now int64) Entry {
	var e Entry
	e.stat(st, now)
	return e
}
