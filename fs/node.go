package fs

import (
	"context"
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
			a.Size = max(4096, int64(len(n.dir.byName))*32)
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
	if id >= firstAlias || f.nodes[id] != nil {
		return nil, fmt.Errorf("node %d is not in use any more: %w", id, syscall.ESTALE)
	}
	return f.inode(c, id)
}

// inode is node by the number that history gives.
func (f *FS) inode(c *Call, ino store.Ino) (*node, error) {
	if n := f.nodes[ino]; n != nil {
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
	if n := f.nodes[ino]; n != nil {
		return n, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inode %d: %w", ino, err)
	}
	n := newNode(*v)
	n.gone = v.Nlink == 0
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
			return n, nil
		}
		if n.loading != nil {
			wait := n.loading
			f.mu.Unlock()
			c.yield()
			<-wait
			f.mu.Lock()
			continue
		}
		if err := f.load(c, n); err != nil {
			return nil, err
		}
	}
}

// load reads a whole directory, names and attributes. Nothing can change it meanwhile: a change needs it loaded.
func (f *FS) load(c *Call, n *node) error {
	n.loading = make(chan struct{})
	view, moves, ino := f.view, f.moves, n.v.Ino
	f.loads++
	f.mu.Unlock()
	c.yield()
	d := newDir()
	var versions []*store.Version
	err := view.ReadDir(context.Background(), ino, func(name store.Name, v *store.Version) error {
		d.set(name.Name, name.Ino, name.Type)
		versions = append(versions, v)
		return nil
	})
	f.mu.Lock()
	f.loads--
	close(n.loading)
	n.loading = nil
	if moves != f.moves {
		return nil // of another state: the caller looks again
	}
	if err != nil {
		f.log.Error("load a directory", "inode", ino, "error", err)
		return fmt.Errorf("load directory %d: %w", ino, err)
	}
	for _, v := range versions {
		if v == nil {
			continue
		}
		if f.nodes[v.Ino] == nil {
			f.adopt(newNode(*v))
		}
	}
	for _, e := range d.byName {
		if child := f.nodes[e.ino]; child != nil && (child.parent == 0 || child.isDir()) {
			child.parent, child.name = ino, e.name
		}
	}
	n.dir = d
	return nil
}

// Forget takes back n lookups of id.
func (f *FS) Forget(id store.Ino, n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
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
	applied := f.st.Applied()
	for len(f.orphans) > 0 && f.orphans[0].slot <= applied {
		o := f.orphans[0]
		f.orphans = f.orphans[1:]
		if o.unused() {
			f.discard(o)
		}
	}
}

// unused reports that nothing leads to the inode any more.
func (n *node) unused() bool { return n.gone && n.lookups == 0 && n.opens == 0 }

// evict drops clean inodes that nobody uses when there are too many. Directories go first as whole listings.
func (f *FS) evict() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loads > 0 || len(f.nodes) <= f.opts.MaxNodes {
		return
	}
	applied := f.st.Applied()
	if f.opts.ReadOnly {
		applied = math.MaxInt64
	}
	target := f.opts.MaxNodes * 3 / 4
	for ino, n := range f.nodes {
		if len(f.nodes) <= target {
			return
		}
		if n.slot > applied || n.fresh || n.opens > 0 || n.file != nil || n.loading != nil || n.dirtySince != 0 {
			continue
		}
		if _, times := f.dirTimes[n]; times {
			continue
		}
		if n.dir != nil && n.dir.opens == 0 && n.dir.fresh == 0 {
			n.dir = nil
		}
		if n.lookups == 0 && n.dir == nil && ino != store.RootIno {
			f.discard(n)
		}
	}
}
