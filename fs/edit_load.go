package fs

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"wsfs/store"
)

// loadNames brings the directories of the names to memory, and what the names lead to that will lead elsewhere. FS.mu is held, and released
// meanwhile; the gate is closed, so that nothing changes.
func (ed *editor) loadNames(ctx context.Context) error {
	f := ed.f
	var dirs []*node
	seen := map[store.Ino]bool{}
	for i := range ed.e.Names {
		parent := ed.e.Names[i].Parent
		if p := f.nodeOf(parent); p != nil && p.isDir() && !p.gone && p.dir == nil && !seen[parent] { // one that is gone has to be made by this very edit
			dirs = append(dirs, p)
		}
		seen[parent] = true
	}
	if err := f.loadListings(dirs); err != nil {
		return err
	}
	old := ed.holders()
	var unknown []store.Ino
	for _, ino := range old {
		if f.nodeOf(ino) == nil {
			unknown = append(unknown, ino)
		}
	}
	view := f.view
	f.mu.Unlock()
	versions, err := view.Versions(ctx, unknown)
	f.mu.Lock()
	if err != nil {
		return err
	}
	for _, v := range versions {
		if v != nil && f.nodeOf(v.Ino) == nil {
			n := newNode(*v)
			n.gone = v.Nlink == 0
			f.mayBeKnown(n)
			f.adopt(n)
		}
	}
	dirs = dirs[:0]
	for _, ino := range old {
		ed.subject(ino)
		n, err := f.inode(nil, ino)
		if err != nil {
			return err
		}
		if n.isDir() && n.dir == nil {
			dirs = append(dirs, n)
		}
	}
	return f.loadListings(dirs)
}

// holders are the inodes that lose a name. FS.mu is held.
func (ed *editor) holders() []store.Ino {
	var list []store.Ino
	seen := map[store.Ino]bool{}
	for i := range ed.e.Names {
		nm := &ed.e.Names[i]
		p := ed.f.nodeOf(nm.Parent)
		if p == nil || p.gone || p.dir == nil {
			continue
		}
		if e := p.dir.get(nm.Name); e != nil && e.ino != nm.Ino && !seen[e.ino] {
			seen[e.ino] = true
			list = append(list, e.ino)
		}
	}
	return list
}

// loadListings reads directories, several at a time, with no more than the names: an edit of a few names needs no attributes of the others.
// FS.mu is held, and released meanwhile.
func (f *FS) loadListings(dirs []*node) error {
	if len(dirs) == 0 {
		return nil
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, min(len(dirs), runtime.GOMAXPROCS(0)))
	f.mu.Unlock()
	for w := range errs {
		wg.Go(func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(dirs) {
					return
				}
				errs[w] = f.loadListing(dirs[i])
			}
		})
	}
	wg.Wait()
	f.mu.Lock()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// loadListing is load without attributes, for whoever knows that n is a directory that is there. FS.mu is held, and released meanwhile.
func (f *FS) loadListing(n *node) error {
	for n.dir == nil {
		if wait := n.loading; wait != nil {
			f.mu.Unlock()
			<-wait
			f.mu.Lock()
		} else if err := f.loadUpTo(nil, n, 0, math.MaxInt); err != nil {
			return err
		}
	}
	return nil
}
