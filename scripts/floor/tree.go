package main

import (
	"slices"
	"sync"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

const forever = time.Hour // as package fs/fuse tells the kernel

// node is one inode.
type node struct {
	attr    gofuse.Attr
	lookups uint64
	opens   int
	data    []byte
	target  string
	xattrs  map[string][]byte
	kids    map[string]*entry
	order   []*entry // of kids, as they came; removed ones lead to nothing
}

type entry struct {
	name string
	n    *node
}

// kid is what a name leads to, or nil.
func (n *node) kid(name string) *node {
	if e := n.kids[name]; e != nil {
		return e.n
	}
	return nil
}

// tree is the file system. One lock guards all of it.
type tree struct {
	gofuse.RawFileSystem
	mu    sync.Mutex
	nodes map[uint64]*node
	next  uint64
}

func newTree() *tree {
	t := &tree{RawFileSystem: gofuse.NewDefaultRawFileSystem(), nodes: map[uint64]*node{}, next: gofuse.FUSE_ROOT_ID}
	t.add(syscall.S_IFDIR|0o755, gofuse.Owner{}).lookups = 1
	return t
}

func (t *tree) String() string { return "floor" }

// add makes a node that nothing names. mu is held.
func (t *tree) add(mode uint32, who gofuse.Owner) *node {
	n := &node{}
	n.attr = gofuse.Attr{Ino: t.next, Mode: mode, Nlink: 1, Owner: who, Blksize: 4096}
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		n.kids, n.attr.Nlink, n.attr.Size = map[string]*entry{}, 2, 4096
	}
	if mode&syscall.S_IFMT == syscall.S_IFREG {
		n.attr.Blksize = 64 << 10
	}
	now := time.Now()
	n.attr.SetTimes(&now, &now, &now)
	t.nodes[t.next] = n
	t.next++
	return n
}

func (n *node) changed() {
	now := time.Now()
	n.attr.SetTimes(nil, &now, &now)
}

func (n *node) size(to int) {
	if to > cap(n.data) {
		n.data = append(make([]byte, 0, max(to, 2*len(n.data))), n.data...)
	}
	if old := len(n.data); to > old {
		n.data = n.data[:to]
		clear(n.data[old:])
	}
	n.data = n.data[:to]
	n.attr.Size, n.attr.Blocks = uint64(to), uint64(to+511)/512
}

// entry answers with n, which is looked up once more.
func (n *node) entry(out *gofuse.EntryOut) gofuse.Status {
	n.lookups++
	out.NodeId, out.Generation, out.Attr = n.attr.Ino, 1, n.attr
	out.SetEntryTimeout(forever)
	out.SetAttrTimeout(forever)
	return gofuse.OK
}

// drop forgets n if nothing leads to it. mu is held.
func (t *tree) drop(n *node) {
	if n.lookups == 0 && n.opens == 0 && n.attr.Nlink == 0 {
		delete(t.nodes, n.attr.Ino)
	}
}

func (t *tree) Lookup(_ <-chan struct{}, h *gofuse.InHeader, name string, out *gofuse.EntryOut) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[h.NodeId].kid(name)
	if n == nil {
		out.SetEntryTimeout(forever)
		return gofuse.OK
	}
	return n.entry(out)
}

func (t *tree) Forget(id, count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.nodes[id]; n != nil && id != gofuse.FUSE_ROOT_ID {
		n.lookups -= min(count, n.lookups)
		t.drop(n)
	}
}

// make names a new node.
func (t *tree) make(h *gofuse.InHeader, name string, mode uint32, out *gofuse.EntryOut) (*node, gofuse.Status) {
	p := t.nodes[h.NodeId]
	if p.kid(name) != nil {
		return nil, gofuse.Status(syscall.EEXIST)
	}
	n := t.add(mode, h.Owner)
	t.bind(p, name, n)
	if n.kids != nil {
		p.attr.Nlink++
	}
	n.entry(out)
	return n, gofuse.OK
}

func (t *tree) bind(p *node, name string, n *node) {
	e := &entry{name, n}
	p.kids[name] = e
	p.order = append(p.order, e)
	p.changed()
}

func (t *tree) Mknod(_ <-chan struct{}, in *gofuse.MknodIn, name string, out *gofuse.EntryOut) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, st := t.make(&in.InHeader, name, in.Mode, out)
	return st
}

func (t *tree) Mkdir(_ <-chan struct{}, in *gofuse.MkdirIn, name string, out *gofuse.EntryOut) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, st := t.make(&in.InHeader, name, syscall.S_IFDIR|in.Mode&0o7777, out)
	return st
}

func (t *tree) Symlink(_ <-chan struct{}, h *gofuse.InHeader, to, name string, out *gofuse.EntryOut) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, st := t.make(h, name, syscall.S_IFLNK|0o777, out)
	if n != nil {
		n.target, n.attr.Size = to, uint64(len(to))
		out.Attr = n.attr
	}
	return st
}

func (t *tree) Readlink(_ <-chan struct{}, h *gofuse.InHeader) ([]byte, gofuse.Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return []byte(t.nodes[h.NodeId].target), gofuse.OK
}

func (t *tree) Link(_ <-chan struct{}, in *gofuse.LinkIn, name string, out *gofuse.EntryOut) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, n := t.nodes[in.NodeId], t.nodes[in.Oldnodeid]
	if p.kid(name) != nil {
		return gofuse.Status(syscall.EEXIST)
	}
	t.bind(p, name, n)
	n.attr.Nlink++
	n.changed()
	return n.entry(out)
}

// unbind: places in order must stay while somebody reads them.
func (n *node) unbind(name string) {
	n.kids[name].n = nil
	delete(n.kids, name)
	if n.opens == 0 && len(n.order) > 64 && len(n.order) > 2*len(n.kids) {
		n.order = slices.DeleteFunc(n.order, func(e *entry) bool { return e.n == nil })
	}
}

// take removes a name.
func (t *tree) take(p *node, name string, dir bool) gofuse.Status {
	n := p.kid(name)
	switch {
	case n == nil:
		return gofuse.ENOENT
	case dir && n.kids == nil:
		return gofuse.ENOTDIR
	case !dir && n.kids != nil:
		return gofuse.Status(syscall.EISDIR)
	case len(n.kids) > 0:
		return gofuse.Status(syscall.ENOTEMPTY)
	}
	p.unbind(name)
	p.changed()
	n.attr.Nlink--
	if dir {
		p.attr.Nlink--
		n.attr.Nlink = 0
	}
	t.drop(n)
	return gofuse.OK
}

func (t *tree) Unlink(_ <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.take(t.nodes[h.NodeId], name, false)
}

func (t *tree) Rmdir(_ <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.take(t.nodes[h.NodeId], name, true)
}

func (t *tree) Rename(_ <-chan struct{}, in *gofuse.RenameIn, from, to string) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, q := t.nodes[in.NodeId], t.nodes[in.Newdir]
	n, over := p.kid(from), q.kid(to)
	switch {
	case n == nil:
		return gofuse.ENOENT
	case in.Flags != 0:
		return gofuse.EINVAL
	case over == n:
		return gofuse.OK
	}
	if over != nil {
		if st := t.take(q, to, over.kids != nil); st != gofuse.OK {
			return st
		}
	}
	p.unbind(from)
	p.changed()
	t.bind(q, to, n)
	if n.kids != nil && p != q {
		p.attr.Nlink--
		q.attr.Nlink++
	}
	return gofuse.OK
}
