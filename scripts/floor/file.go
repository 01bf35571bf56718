package main

import (
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

func (t *tree) GetAttr(_ <-chan struct{}, in *gofuse.GetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	out.SetTimeout(forever)
	out.Attr = t.nodes[in.NodeId].attr
	return gofuse.OK
}

func (t *tree) SetAttr(_ <-chan struct{}, in *gofuse.SetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[in.NodeId]
	if v, ok := in.GetMode(); ok {
		n.attr.Mode = n.attr.Mode&syscall.S_IFMT | v&0o7777
	}
	if v, ok := in.GetUID(); ok {
		n.attr.Uid = v
	}
	if v, ok := in.GetGID(); ok {
		n.attr.Gid = v
	}
	if v, ok := in.GetSize(); ok {
		n.size(int(v))
		n.changed()
	}
	a, setA := in.GetATime()
	m, setM := in.GetMTime()
	now := time.Now()
	if setA {
		n.attr.SetTimes(&a, nil, &now)
	}
	if setM {
		n.attr.SetTimes(nil, &m, &now)
	}
	n.attr.SetTimes(nil, nil, &now)
	out.SetTimeout(forever)
	out.Attr = n.attr
	return gofuse.OK
}

func (t *tree) Create(_ <-chan struct{}, in *gofuse.CreateIn, name string, out *gofuse.CreateOut) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, st := t.make(&in.InHeader, name, syscall.S_IFREG|in.Mode&0o7777, &out.EntryOut)
	if n != nil {
		t.opened(n, &out.OpenOut)
	}
	return st
}

// opened: the number of a handle is that of its node.
func (t *tree) opened(n *node, out *gofuse.OpenOut) {
	n.opens++
	out.Fh, out.OpenFlags = n.attr.Ino, gofuse.FOPEN_KEEP_CACHE
}

func (t *tree) Open(_ <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[in.NodeId]
	if in.Flags&syscall.O_TRUNC != 0 {
		n.size(0)
		n.changed()
	}
	t.opened(n, out)
	return gofuse.OK
}

func (t *tree) Read(_ <-chan struct{}, in *gofuse.ReadIn, buf []byte) (gofuse.ReadResult, gofuse.Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[in.Fh]
	off := min(int(in.Offset), len(n.data))
	return gofuse.ReadResultData(buf[:copy(buf[:min(len(buf), int(in.Size))], n.data[off:])]), gofuse.OK
}

func (t *tree) Write(_ <-chan struct{}, in *gofuse.WriteIn, data []byte) (uint32, gofuse.Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, off := t.nodes[in.Fh], int(in.Offset)
	if in.Flags&syscall.O_APPEND != 0 {
		off = len(n.data)
	}
	if off+len(data) > len(n.data) {
		n.size(off + len(data))
	}
	copy(n.data[off:], data)
	n.changed()
	return uint32(len(data)), gofuse.OK
}

// Writev: Write is called instead.
func (t *tree) Writev(<-chan struct{}, *gofuse.WriteIn, [][]byte) (uint32, gofuse.Status) {
	return 0, gofuse.ENOSYS
}

func (t *tree) Flush(<-chan struct{}, *gofuse.FlushIn) gofuse.Status    { return gofuse.OK }
func (t *tree) Fsync(<-chan struct{}, *gofuse.FsyncIn) gofuse.Status    { return gofuse.OK }
func (t *tree) FsyncDir(<-chan struct{}, *gofuse.FsyncIn) gofuse.Status { return gofuse.OK }

func (t *tree) Release(_ <-chan struct{}, in *gofuse.ReleaseIn) { t.closed(in.Fh) }
func (t *tree) ReleaseDir(in *gofuse.ReleaseIn)                 { t.closed(in.Fh) }

func (t *tree) closed(fh uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[fh]
	n.opens--
	t.drop(n)
}

func (t *tree) OpenDir(_ <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened(t.nodes[in.NodeId], out)
	out.OpenFlags |= gofuse.FOPEN_CACHE_DIR
	return gofuse.OK
}

// list calls fn for the entries from off on. An offset is a place in order.
func (t *tree) list(in *gofuse.ReadIn, fn func(e gofuse.DirEntry, n *node) bool) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.nodes[in.NodeId]
	for i := in.Offset; i < uint64(len(d.order))+2; i++ {
		e := gofuse.DirEntry{Mode: syscall.S_IFDIR, Name: "..", Ino: 1, Off: i + 1}
		var n *node
		switch {
		case i == 0:
			e.Name, e.Ino = ".", in.NodeId
		case i > 1:
			if n = d.order[i-2].n; n == nil {
				continue
			}
			e.Name, e.Mode, e.Ino = d.order[i-2].name, n.attr.Mode, n.attr.Ino
		}
		if !fn(e, n) {
			break
		}
	}
	return gofuse.OK
}

func (t *tree) ReadDir(_ <-chan struct{}, in *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	return t.list(in, func(e gofuse.DirEntry, _ *node) bool { return out.AddDirEntry(e) })
}

func (t *tree) ReadDirPlus(_ <-chan struct{}, in *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	return t.list(in, func(e gofuse.DirEntry, n *node) bool {
		entry := out.AddDirLookupEntry(e)
		if entry != nil && n != nil {
			n.entry(entry)
		}
		return entry != nil
	})
}

func (t *tree) Access(<-chan struct{}, *gofuse.AccessIn) gofuse.Status { return gofuse.OK }

func (t *tree) GetXAttr(_ <-chan struct{}, h *gofuse.InHeader, name string, dest []byte) (uint32, gofuse.Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.nodes[h.NodeId].xattrs[name]
	switch {
	case !ok:
		return 0, gofuse.ENODATA
	case len(v) > len(dest):
		return uint32(len(v)), gofuse.Status(syscall.ERANGE)
	}
	return uint32(copy(dest, v)), gofuse.OK
}

func (t *tree) SetXAttr(_ <-chan struct{}, in *gofuse.SetXAttrIn, name string, data []byte) gofuse.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[in.NodeId]
	if n.xattrs == nil {
		n.xattrs = map[string][]byte{}
	}
	n.xattrs[name] = append([]byte{}, data...)
	return gofuse.OK
}

func (t *tree) ListXAttr(<-chan struct{}, *gofuse.InHeader, []byte) (uint32, gofuse.Status) {
	return 0, gofuse.OK
}

// Locks are granted to everybody: nothing that is measured here competes for one.
func (t *tree) GetLk(_ <-chan struct{}, _ *gofuse.LkIn, out *gofuse.LkOut) gofuse.Status {
	out.Lk.Typ = syscall.F_UNLCK
	return gofuse.OK
}
func (t *tree) SetLk(<-chan struct{}, *gofuse.LkIn) gofuse.Status  { return gofuse.OK }
func (t *tree) SetLkw(<-chan struct{}, *gofuse.LkIn) gofuse.Status { return gofuse.OK }

func (t *tree) StatFs(_ <-chan struct{}, _ *gofuse.InHeader, out *gofuse.StatfsOut) gofuse.Status {
	*out = gofuse.StatfsOut{Blocks: 1 << 24, Bfree: 1 << 23, Bavail: 1 << 23, Files: 1 << 24, Ffree: 1 << 23, Bsize: 4096, Frsize: 4096, NameLen: 255}
	return gofuse.OK
}
