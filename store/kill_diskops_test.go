package store_test

import (
	"maps"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The requests that a disk answers. Everything is there at once, in one process, so one lock does.

func (d *disk) String() string       { return "disk" }
func (d *disk) Init(*fuse.Server)    {}
func (d *disk) get(id uint64) *dnode { return d.nodes[id] }

func (n *dnode) attr(a *fuse.Attr) {
	*a = fuse.Attr{Ino: n.id, Size: uint64(len(n.data)), Blocks: uint64(len(n.data)+511) / 512, Mode: n.mode, Nlink: 1, Blksize: 4096}
}

func (n *dnode) entry(out *fuse.EntryOut) {
	out.NodeId, out.Generation = n.id, 1
	n.attr(&out.Attr)
}

func (n *dnode) link(name string, c *dnode) {
	if n.names[name] = c; c == nil {
		delete(n.names, name)
	}
	n.changes = append(n.changes, dname{name, c})
}

func (d *disk) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.get(h.NodeId).names[name]
	if c == nil {
		return fuse.ENOENT
	}
	c.entry(out)
	return fuse.OK
}

func (d *disk) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.get(in.NodeId).attr(&out.Attr)
	return fuse.OK
}

func (d *disk) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.get(in.NodeId)
	if size, ok := in.GetSize(); ok {
		n.resize(int64(size))
	}
	if mode, ok := in.GetMode(); ok {
		n.mode = n.mode&syscall.S_IFMT | mode&0o7777
	}
	n.attr(&out.Attr)
	return fuse.OK
}

func (n *dnode) resize(size int64) {
	n.data = append(n.data, make([]byte, max(0, size-int64(len(n.data))))...)[:size]
	n.pending = append(n.pending, dwrite{off: size})
}

func (d *disk) create(parent uint64, name string, mode uint32) *dnode {
	n := d.node(mode)
	d.see(seeName)
	d.get(parent).link(name, n)
	return n
}

func (d *disk) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.create(in.NodeId, name, syscall.S_IFDIR|in.Mode).entry(out)
	return fuse.OK
}

func (d *disk) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.create(in.NodeId, name, in.Mode).entry(out)
	return fuse.OK
}

func (d *disk) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.create(in.NodeId, name, syscall.S_IFREG|in.Mode).entry(&out.EntryOut)
	return fuse.OK
}

func (d *disk) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.see(seeName)
	d.get(h.NodeId).link(name, nil)
	return fuse.OK
}

func (d *disk) Rmdir(c <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return d.Unlink(c, h, name)
}

func (d *disk) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.see(seeName)
	n := d.get(in.NodeId).names[from]
	if n == nil {
		return fuse.ENOENT
	}
	d.get(in.Newdir).link(to, n)
	d.get(in.NodeId).link(from, nil)
	return fuse.OK
}

func (d *disk) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status               { return fuse.OK }
func (d *disk) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status    { return fuse.OK }
func (d *disk) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }
func (d *disk) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status                 { return fuse.OK }

func (d *disk) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	data := d.get(in.NodeId).data
	return fuse.ReadResultData(buf[:copy(buf, data[min(int(in.Offset), len(data)):])]), fuse.OK
}

func (d *disk) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.get(in.NodeId)
	if n.events {
		d.watch.tell(data)
		return uint32(len(data)), fuse.OK
	}
	d.see(seeWrite)
	w := dwrite{int64(in.Offset), slices.Clone(data)}
	if end := w.off + int64(len(data)); end > int64(len(n.data)) {
		n.data = append(n.data, make([]byte, end-int64(len(n.data)))...)
	}
	copy(n.data[w.off:], data)
	n.pending = append(n.pending, w)
	return uint32(len(data)), fuse.OK
}

func (d *disk) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.get(in.NodeId)
	if in.Mode != 0 {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	if end := int64(in.Offset + in.Length); end > int64(len(n.data)) {
		n.resize(end)
	}
	return fuse.OK
}

func (d *disk) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.get(in.NodeId)
	d.see(seeSync)
	if n.frozen {
		n.safe, n.frozen = slices.Clone(n.safe), false
	}
	for _, w := range n.pending {
		if w.data == nil {
			n.safe = append(n.safe, make([]byte, max(0, w.off-int64(len(n.safe))))...)[:w.off]
			continue
		}
		if end := w.off + int64(len(w.data)); end > int64(len(n.safe)) {
			n.safe = append(n.safe, make([]byte, end-int64(len(n.safe)))...)
		}
		copy(n.safe[w.off:], w.data)
	}
	n.pending = nil
	d.see(seeSynced)
	return fuse.OK
}

func (d *disk) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.get(in.NodeId)
	d.see(seeSync)
	n.safeNames, n.changes = maps.Clone(n.names), nil
	d.see(seeSynced)
	return fuse.OK
}

func (d *disk) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.get(in.NodeId)
	names := slices.Sorted(maps.Keys(n.names))
	for i := int(in.Offset); i < len(names); i++ {
		c := n.names[names[i]]
		if !out.AddDirEntry(fuse.DirEntry{Name: names[i], Mode: c.mode, Ino: c.id, Off: uint64(i + 1)}) {
			break
		}
	}
	return fuse.OK
}

func (d *disk) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Blocks: 1 << 24, Bfree: 1 << 23, Bavail: 1 << 23, Bsize: 4096, Frsize: 4096, NameLen: 255}
	return fuse.OK
}
