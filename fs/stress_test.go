package fs_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand"
	"slices"
	"sync"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// dump is the whole tree as programs see it: path -> attributes and a hash of the content.
func (w *world) dump() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	var walk func(ino store.Ino, path string)
	walk = func(ino store.Ino, path string) {
		a, err := w.fs.GetAttr(w.c, ino, nil)
		w.must(err)
		xs, err := w.fs.ListXattr(w.c, ino)
		w.must(err)
		line := fmt.Sprintf("ino=%d mode=%o nlink=%d mtime=%d ctime=%d xattrs=%v", a.Ino, a.Mode, a.Nlink, a.Mtime, a.Ctime, xs)
		switch a.Mode & syscall.S_IFMT {
		case syscall.S_IFREG:
			h := fnv.New64()
			fmt.Fprint(h, w.read(path))
			line += fmt.Sprintf(" size=%d hash=%x", a.Size, h.Sum64())
		case syscall.S_IFLNK:
			target, err := w.fs.Readlink(w.c, ino)
			w.must(err)
			line += " -> " + target
		case syscall.S_IFDIR:
			d, err := w.fs.OpenDir(w.c, ino)
			w.must(err)
			var entries []fs.DirEntry
			w.must(d.Read(w.c, 2, func(e fs.DirEntry) bool { entries = append(entries, e); return true }))
			d.Close()
			for _, e := range entries {
				walk(e.Ino, path+"/"+e.Name)
			}
		}
		out[path] = line
	}
	walk(store.RootIno, "")
	return out
}

func (w *world) sameAfterReopen() {
	w.t.Helper()
	before := w.dump()
	w.reopen()
	after := w.dump()
	for _, p := range slices.Sorted(maps.Keys(before)) {
		if before[p] != after[p] {
			w.t.Errorf("%q\n memory   %s\n database %s", p, before[p], after[p])
		}
	}
	if len(before) != len(after) {
		w.t.Errorf("%d paths in memory, %d in the database", len(before), len(after))
	}
}

// TestManyWritersLeaveWhatTheySaw runs random operations from many goroutines: memory and database must agree in the
// end, every invariant of the store must hold, and only errors that POSIX allows may come back.
func TestManyWritersLeaveWhatTheySaw(t *testing.T) {
	w := newWorld(t)
	for i := range 4 {
		w.mkdir(fmt.Sprintf("d%d", i))
	}
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for seed := range int64(3) {
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				m := &monkey{w: w, r: rand.New(rand.NewSource(seed*100 + int64(g)))}
				for range rounds {
					if err := m.step(); err != nil {
						t.Errorf("seed %d, goroutine %d: %v", seed, g, err)
						return
					}
				}
			})
		}
		wg.Wait()
		w.must(w.fs.Sync(context.Background()))
		w.sameAfterReopen()
		w.crowd() // the other rounds in a memory that is too small
	}
}

type monkey struct {
	w *world
	r *rand.Rand
}

func (m *monkey) dir() (store.Ino, error) {
	if m.r.Intn(8) == 0 {
		return store.RootIno, nil
	}
	a, err := m.w.stat(fmt.Sprintf("d%d", m.r.Intn(4)))
	return a.Ino, err
}

func (m *monkey) name() string { return fmt.Sprintf("n%d", m.r.Intn(12)) }

// step does one operation; errors that a race or a missing name explains are fine.
func (m *monkey) step() error {
	err := m.act()
	switch fs.Errno(err) {
	case 0, syscall.ENOENT, syscall.EEXIST, syscall.ENOTDIR, syscall.EISDIR, syscall.ENOTEMPTY, syscall.EINVAL, syscall.EPERM,
		syscall.ELOOP:
		return nil
	}
	return err
}

func (m *monkey) act() error {
	f, c, r := m.w.fs, m.w.c, m.r
	dir, err := m.dir()
	if err != nil {
		return err
	}
	name := m.name()
	switch r.Intn(12) {
	case 0:
		_, err = f.Mkdir(c, dir, name, 0o755)
		return err
	case 1:
		return f.Rmdir(c, dir, name)
	case 2:
		return f.Unlink(c, dir, name)
	case 3, 4:
		to, err := m.dir()
		if err != nil {
			return err
		}
		return f.Rename(c, dir, name, to, m.name(), uint32(r.Intn(3)))
	case 5:
		a, err := f.Lookup(c, dir, name)
		if err != nil {
			return err
		}
		defer f.Forget(a.Ino, 1)
		to, err := m.dir()
		if err != nil {
			return err
		}
		_, err = f.Link(c, a.Ino, to, m.name())
		return err
	case 6:
		_, err = f.Symlink(c, dir, name, "target")
		return err
	case 7:
		a, err := f.Lookup(c, dir, name)
		if err != nil {
			return err
		}
		defer f.Forget(a.Ino, 1)
		mode, size := uint32(0o600+r.Intn(64)), int64(r.Intn(100_000))
		set := fs.SetAttr{Mode: &mode}
		if r.Intn(2) == 0 && a.Mode&syscall.S_IFMT == syscall.S_IFREG {
			set.Size = &size
		}
		_, err = f.SetAttr(c, a.Ino, nil, set)
		return err
	case 8:
		a, err := f.Lookup(c, dir, name)
		if err != nil {
			return err
		}
		defer f.Forget(a.Ino, 1)
		return f.SetXattr(c, a.Ino, "user.k", []byte(name), 0)
	default:
		return m.edit(dir, name)
	}
}

func (m *monkey) edit(dir store.Ino, name string) error {
	f, c, r := m.w.fs, m.w.c, m.r
	flags := uint32(syscall.O_RDWR)
	if r.Intn(2) == 0 {
		flags |= syscall.O_TRUNC
	}
	a, h, err := f.Create(c, dir, name, 0o644, flags)
	if err != nil {
		return err
	}
	defer f.Forget(a.Ino, 1)
	defer h.Release(c, 1)
	p := make([]byte, 1+r.Intn(200_000))
	r.Read(p)
	if r.Intn(3) > 0 {
		p = p[:min(len(p), 100)]
	}
	if _, err := h.WriteAt(c, p, int64(r.Intn(1000)), false); err != nil {
		return err
	}
	switch r.Intn(4) {
	case 0:
		err = f.Unlink(c, dir, name)
	case 1:
		err = f.Rename(c, dir, name, dir, m.name(), 0)
	case 2:
		err = h.Fsync(c, false)
	}
	return errors.Join(err, h.Flush(c, 1))
}
