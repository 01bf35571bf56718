package fs

import (
	"math"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// A file that is only looked at needs no node. What stat(2) shows of it, where its bytes are and how often a kernel
// refers to it lies in the directory that it was found in, without pointers, and 1,000,000 of them are nothing to look
// through for the garbage collector. Whatever opens, changes or names such a file asks FS.nodeOf for its node, which takes the
// file out of there. An inode is at most in one of FS.nodes and FS.cold.

// coldFile is a regular file that the database has as memory has it, and that nobody has open.
type coldFile struct {
	id                  store.VersionID
	seq                 store.Seq
	origin              store.TimelineID
	size                int64
	mtime, ctime, atime int64
	content             blob.Ref
	uid, gid            uint32
	lookups             uint32 // references of the kernel
	entry               int32  // place of its name in dir.order; of a free one: the next free one, or -1
	mode, nlink         uint16 // no mode: free
}

// coldFiles are those of one directory. Guarded by FS.mu.
type coldFiles struct {
	fs     *FS // nil while there has never been one
	number uint32
	ino    store.Ino // of the directory
	list   []coldFile
	free   int32 // place and one of the first free one
	count  int
	known  int // of those, how many a kernel refers to
}

// coldRef is where a cold file is: number of the directory << 32 | place.
type coldRef uint64

// coolable reports whether a version is all that there is to know, and fits.
func coolable(v *store.Version) bool {
	return v.Mode&syscall.S_IFMT == syscall.S_IFREG && v.Mode <= math.MaxUint16 && v.Nlink > 0 && v.Nlink <= math.MaxUint16 &&
		v.Holes == 0 && v.Rdev == 0 && v.Target == "" && len(v.Xattrs) == 0
}

func (r *coldFile) keep(v *store.Version, lookups uint32, entry int32) {
	*r = coldFile{
		id: v.ID, seq: v.Seq, origin: v.Origin, size: v.Size, mtime: v.Mtime, ctime: v.Ctime, atime: v.Atime, content: v.Content,
		uid: v.UID, gid: v.GID, lookups: lookups, entry: entry, mode: uint16(v.Mode), nlink: uint16(v.Nlink),
	}
}

// version is the file's version, but for what came before it: that is asked of nobody who has only looked.
func (r *coldFile) version(ino store.Ino) store.Version {
	return store.Version{
		Ino: ino, Seq: r.seq, ID: r.id, Origin: r.origin, Mode: uint32(r.mode), UID: r.uid, GID: r.gid, Nlink: uint32(r.nlink),
		Size: r.size, Mtime: r.mtime, Ctime: r.ctime, Atime: r.atime, Content: r.content,
	}
}

// attr is node.attr of it.
func (r *coldFile) attr(ino store.Ino) Attr {
	return Attr{
		ID: ino, Ino: ino, Mode: uint32(r.mode), Nlink: uint32(r.nlink), UID: r.uid, GID: r.gid, Size: r.size,
		Blocks: (r.size + 511) / 512, Atime: r.atime, Mtime: r.mtime, Ctime: r.ctime, Generation: 1,
	}
}

// refer counts n more references of a kernel, and fewer if n is negative.
func (c *coldFiles) refer(r *coldFile, n int64) {
	before := r.lookups > 0
	r.lookups = uint32(min(max(0, int64(r.lookups)+n), math.MaxUint32))
	switch after := r.lookups > 0; {
	case after && !before:
		c.known++
	case before && !after:
		c.known--
	}
}

// coldOf is what the directory keeps of an entry's file, nil if that is not here.
func (d *dir) coldOf(e *dentry) *coldFile {
	if e.cold == 0 {
		return nil
	}
	return &d.cold.list[e.cold-1]
}

// coldFile is what is kept of an inode that has no node, nil if nothing is. FS.mu is held.
func (f *FS) coldFile(ino store.Ino) (*coldFiles, *coldFile) {
	ref, ok := f.cold[ino]
	if !ok {
		return nil, nil
	}
	c := &f.coldDirs[ref>>32].cold
	return c, &c.list[uint32(ref)]
}

// nodeOf is the node of an inode of the tree that memory has, nil if it has none. FS.mu is held.
func (f *FS) nodeOf(ino store.Ino) *node {
	if n := f.nodes[ino]; n != nil {
		return n
	}
	if ref, ok := f.cold[ino]; ok {
		return f.thaw(ref)
	}
	return nil
}

// has reports whether memory has an inode of the tree. FS.mu is held.
func (f *FS) has(ino store.Ino) bool {
	if f.nodes[ino] != nil {
		return true
	}
	_, ok := f.cold[ino]
	return ok
}

// thaw makes the node of a cold file. FS.mu is held.
func (f *FS) thaw(ref coldRef) *node {
	d := f.coldDirs[ref>>32]
	r := &d.cold.list[uint32(ref)]
	e := &d.order[r.entry]
	n := newNode(r.version(e.ino))
	n.lookups, n.parent, n.name = uint64(r.lookups), d.cold.ino, e.name
	n.mixed = f.unheard()
	f.nodes[n.ino] = n
	delete(f.cold, n.ino)
	d.cold.refer(r, -int64(r.lookups))
	*r = coldFile{entry: d.cold.free - 1}
	d.cold.free, e.cold = int32(uint32(ref))+1, 0
	d.cold.count--
	return n
}

// thaw makes a node of what the entry leads to, before the entry goes.
func (d *dir) thaw(e *dentry) {
	if e.cold != 0 {
		d.cold.fs.thaw(d.cold.fs.cold[e.ino])
	}
}

// cool takes away the node of a file that is in a loaded directory and that nothing but kernels knows. FS.mu is held, and no
// call is waiting that may have the node. It reports whether it did.
func (f *FS) cool(n *node, applied store.Slot) bool {
	if n.id != n.ino || n.slot > applied || n.fresh || n.gone || n.stale || n.opens > 0 || n.file != nil || n.dirtySince != 0 ||
		n.replaced != 0 || n.draft.by != nil || n.lookups > math.MaxUint32 || n.name == "" || !coolable(&n.v) {
		return false
	}
	if _, ok := f.unsettled[n]; ok {
		return false
	}
	p := f.nodes[n.parent]
	if p == nil || !f.mayCool(p) || len(f.byID) > 0 && f.byID[n.ino] != nil {
		return false
	}
	at := p.dir.find(n.name)
	if at < 0 || p.dir.order[at].ino != n.ino {
		return false
	}
	delete(f.nodes, n.ino)
	f.keepCold(p, at, &n.v, n.lookups)
	return true
}

// keepCold keeps what an entry of a loaded directory leads to. FS.mu is held.
func (f *FS) keepCold(p *node, at int, v *store.Version, lookups uint64) {
	c := f.coldIn(p)
	if c.free == 0 {
		c.list = append(c.list, coldFile{entry: -1})
		c.free = int32(len(c.list))
	}
	place := c.free - 1
	r := &c.list[place]
	c.free = r.entry + 1
	r.keep(v, 0, int32(at))
	c.refer(r, int64(lookups))
	c.count++
	p.dir.order[at].cold = place + 1
	f.cold[v.Ino] = coldRef(c.number)<<32 | coldRef(place)
}

// mayCool reports whether a directory may have cold files. FS.mu is held.
func (f *FS) mayCool(p *node) bool { return p.dir != nil && !p.gone && p.id == p.ino }

// rest is cool for a file that was just closed, if there are many nodes. FS.mu is held.
func (f *FS) rest(n *node) {
	if len(f.nodes) > f.manyNodes && f.loads == 0 && n.opens == 0 {
		f.cool(n, f.applied())
	}
}

// coldIn is where a loaded directory keeps cold files. FS.mu is held.
func (f *FS) coldIn(p *node) *coldFiles {
	c := &p.dir.cold
	if c.fs == nil {
		c.fs, c.ino = f, p.ino
		if k := len(f.coldFree); k > 0 {
			c.number, f.coldFree = f.coldFree[k-1], f.coldFree[:k-1]
			f.coldDirs[c.number] = p.dir
		} else {
			c.number, f.coldDirs = uint32(len(f.coldDirs)), append(f.coldDirs, p.dir)
		}
	}
	return c
}

// unload forgets a listing with all cold files in it, unless a kernel refers to one. FS.mu is held.
func (f *FS) unload(n *node) bool {
	c := &n.dir.cold
	if c.known > 0 {
		return false
	}
	for e := range n.dir.entries() {
		if e.cold != 0 {
			delete(f.cold, e.ino)
		}
	}
	f.leaveCold(c)
	n.dir = nil
	return true
}

// scatter makes nodes of all cold files of a directory that goes. FS.mu is held.
func (f *FS) scatter(d *dir) {
	for e := range d.entries() {
		d.thaw(e)
	}
	f.leaveCold(&d.cold)
}

func (f *FS) leaveCold(c *coldFiles) {
	if c.fs != nil {
		f.coldDirs[c.number] = nil
		f.coldFree = append(f.coldFree, c.number)
		*c = coldFiles{}
	}
}
