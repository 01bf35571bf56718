package fs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"

	"wsfs/store"
)

// node is one inode in memory. All fields but ino and id, which never change, are guarded by FS.mu; file is set under it
// and has a lock of its own inside.
type node struct {
	ino     store.Ino
	id      store.Ino     // what kernels call it; see ids.go
	v       store.Version // as programs see it: size and times include what no version has yet
	lookups uint64        // references of the kernel, over all mounts
	opens   int32         // open handles
	slot    store.Slot    // last op that touched it: in memory until the database has that
	fresh   bool          // created, and in no op yet
	gone    bool          // a directory that was removed, or a file without names
	stale   bool          // not what its inode is any more, but handles still have it (ids.go)
	parent  store.Ino     // where it was last found; for directories always true
	name    string
	dir     *dir
	loading chan struct{} // closed when the load of dir that is under way ends
	file    *file

	dirtySince int64           // ns; 0 if clean
	replaced   store.VersionID // what its next version says it replaced
	draft      draft           // its head version, while that may still be amended
	birth      *birth          // while it may be a temporary (temp.go)

	kept   bool   // the ledger has something of its content; guarded by file.mu
	past   int32  // open handles that write past the pages of kernels (caching.go)
	shared bool   // others than who made it have opened it, or it was to be safe on the disk: it is no temporary
	mixed  bool   // another handle was opened meanwhile: pages may be older than the bytes
	untold uint64 // of notifier.push: kernels have to hear of its content before somebody opens it; 0: nothing
	large  bool   // a directory that was found too large to be read for one lookup (attrs.go)
	asks   uint16 // how many names in it the database was asked for since
}

func (n *node) isDir() bool { return n.v.Mode&syscall.S_IFMT == syscall.S_IFDIR }
func (n *node) isReg() bool { return n.v.Mode&syscall.S_IFMT == syscall.S_IFREG }

// label names a node in errors that people read.
func (f *FS) label(n *node) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.name != "" {
		return n.name
	}
	return fmt.Sprintf("inode %d", n.ino)
}

func newNode(v store.Version) *node { return &node{ino: v.Ino, id: v.Ino, v: v} }

// attr is the node's stat(2).
func (n *node) attr() Attr {
	a := Attr{
		ID: n.id, Ino: n.v.Ino, Mode: n.v.Mode, Nlink: n.v.Nlink, UID: n.v.UID, GID: n.v.GID, Rdev: n.v.Rdev,
		Size: n.v.Size, Atime: n.v.Atime, Mtime: n.v.Mtime, Ctime: n.v.Ctime, Generation: 1,
	}
	switch {
	case n.isDir():
		a.Size = 4096
		if n.dir != nil {
			a.Size = max(4096, int64(n.dir.live)*32)
		}
		a.Blocks = 8
	case n.isReg():
		a.Blocks = (max(0, n.v.Size-n.v.Holes) + 511) / 512
	}
	return a
}

// node finds what a kernel calls id, loading its attributes when memory does not have it. FS.mu is held on entry and on
// return, and released while the database is asked.
func (f *FS) node(c *Call, id store.Ino) (*node, error) {
	if n := f.known(id); n != nil {
		return n, nil
	}
	if id >= firstAlias || f.nodeOf(id) != nil {
		return nil, fmt.Errorf("node %d is not in use any more: %w", id, syscall.ESTALE)
	}
	return f.inode(c, id)
}

// inode is node by the number that history gives.
func (f *FS) inode(c *Call, ino store.Ino) (*node, error) {
	if n := f.nodeOf(ino); n != nil {
		return n, nil
	}
	view, moves := f.view, f.moves
	f.loads++
	f.mu.Unlock()
	c.yield()
	v, err := view.Version(context.Background(), ino)
	f.mu.Lock()
	f.loads--
	if moves != f.moves {
		return f.inode(c, ino)
	}
	if n := f.nodeOf(ino); n != nil {
		return n, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inode %d: %w", ino, err)
	}
	n := newNode(*v)
	n.gone = v.Nlink == 0
	f.mayBeKnown(n)
	f.adopt(n)
	return n, nil
}

// directory finds a node that must be a loaded directory. Like node, it may release FS.mu in between, so whatever
// the caller knew before has to be looked at again.
func (f *FS) directory(c *Call, id store.Ino) (*node, error) {
	for {
		n, err := f.node(c, id)
		if err != nil {
			return nil, err
		}
		if !n.isDir() {
			return nil, inoErr("open directory", n, syscall.ENOTDIR)
		}
		if n.dir != nil {
			if n.dir.unused {
				f.used(n)
			}
			return n, nil
		}
		if n.loading != nil {
			wait := n.loading
			f.loads++ // whoever waits may have nodes
			f.mu.Unlock()
			c.yield()
			<-wait
			f.mu.Lock()
			f.loads--
			continue
		}
		if err := f.load(c, n); err != nil {
			return nil, err
		}
	}
}

// load reads a whole directory, and the attributes if they are not too many. Nothing can change it meanwhile: a change needs it loaded.
func (f *FS) load(c *Call, n *node) error { return f.loadUpTo(c, n, f.limits.whole, math.MaxInt) }

// loadUpTo is load of a directory with at most so many names: of a larger one it notes that it is one, and does not read it. The attributes come
// with at most whole names.
func (f *FS) loadUpTo(c *Call, n *node, whole, most int) error {
	n.loading = make(chan struct{})
	view, moves, ino := f.view, f.moves, n.v.Ino
	f.loads++
	f.mu.Unlock()
	c.yield()
	got, err := readDir(view, ino, whole, most)
	f.mu.Lock()
	f.loads--
	close(n.loading)
	n.loading = nil
	if moves != f.moves {
		return nil // of another state: the caller looks again
	}
	if errors.Is(err, errLargeDir) {
		n.large, n.asks = true, 0
		return nil
	}
	if err != nil {
		f.log.Error("load a directory", "inode", ino, "error", err)
		return fmt.Errorf("load directory %d: %w", ino, err)
	}
	f.loaded(n, got)
	n.dir.unused = true
	return nil
}

// Forget takes back n lookups of id.
func (f *FS) Forget(id store.Ino, n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.forgot++; f.forgot == manyForgot {
		f.tidySoon()
	}
	if c, r := f.coldFile(id); r != nil {
		c.refer(r, -int64(min(n, math.MaxInt32)))
		return
	}
	node := f.known(id)
	if node == nil || id == store.RootIno {
		return
	}
	node.lookups -= min(n, node.lookups)
	f.dropOrphan(node)
}

// dropOrphan frees an inode that has no name, no handle and no reference.
func (f *FS) dropOrphan(n *node) {
	switch {
	case n.stale && n.lookups == 0 && n.opens == 0:
		f.discard(n)
	case n.unused():
		f.orphans = append(f.orphans, n)
	}
	f.freeOrphans()
}

// freeOrphans frees what dropOrphan could not yet.
func (f *FS) freeOrphans() {
	if len(f.orphans) == 0 {
		return
	}
	applied := f.st.Applied()
	for len(f.orphans) > 0 && f.orphans[0].slot <= applied {
		o := f.orphans[0]
		f.orphans[0] = nil // or the array keeps what is gone
		f.orphans = f.orphans[1:]
		if o.unused() {
			f.discard(o)
		}
	}
}

// unused reports that nothing leads to the inode any more.
func (n *node) unused() bool { return n.gone && n.lookups == 0 && n.opens == 0 }
