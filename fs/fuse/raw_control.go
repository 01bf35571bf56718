package fuse

import (
	"sync"
	"sync/atomic"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
)

// rawControl translates the kernel's requests to calls of a Control. Its tree cannot be changed, so it answers most of
// them by itself. ENOSYS is never among the answers: for many requests the kernel would take it for the whole mount.
type rawControl struct {
	gofuse.RawFileSystem // of the library, only for what the kernel never sends here

	v    *views
	room *room // that it belongs to; nil for view 0 and 1
	ctl  fs.Control
	host *rawFS // without a workspace: makes calls
	base uint64

	used    *atomic.Int64 // of the room; nil: nobody counts
	handles *atomic.Int64
	files   handles[generated]
	dirs    handles[[]fs.DirEntry]

	mu    sync.Mutex
	known map[knownName]struct{} // guarded by mu; names that the kernel has looked up, if the room can be emptied
}

// knownName is a name in a directory of the tree.
type knownName struct {
	dir  uint64 // as the kernel calls it
	name string
}

// maxKnown bounds what is remembered of names; the kernel forgets the others when it needs memory.
const maxKnown = 100_000

// know remembers a name that the kernel was told about.
func (r *rawControl) know(dir uint64, name string) {
	if r.room == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[knownName]struct{}{}
	}
	if len(r.known) < maxKnown {
		r.known[knownName{dir, name}] = struct{}{}
	}
}

// empty asks the kernel to forget every name.
func (r *rawControl) empty() {
	r.mu.Lock()
	known := r.known
	r.known = nil
	r.mu.Unlock()
	for k := range known {
		r.v.mount.EntryChanged(store.Ino(k.dir), k.name)
	}
}

// generated is an open file.
type generated struct{ fs.Generated }

func newRawControl(v *views, rm *room, ctl fs.Control, base uint64) *rawControl {
	r := &rawControl{RawFileSystem: gofuse.NewDefaultRawFileSystem(), v: v, room: rm, ctl: ctl, base: base}
	r.host = newRaw(nil, v.opts)
	if v.mount != nil {
		r.host.transport = v.mount.transport
	}
	if rm != nil {
		r.used, r.handles = &rm.used, &rm.handles
	}
	return r
}

func (r *rawControl) String() string { return subtype }

func (r *rawControl) count(n int64) {
	if r.used != nil {
		r.used.Add(n)
	}
}

func (r *rawControl) held(n int64) {
	if r.used != nil {
		r.used.Add(n)
		r.handles.Add(n)
	}
}

func (r *rawControl) id(node uint64) uint64 { return uint64(inode(node)) }

// Lookup answers ENOENT for what does not exist, which the kernel does not remember.
func (r *rawControl) Lookup(cancel <-chan struct{}, h *gofuse.InHeader, name string, out *gofuse.EntryOut) gofuse.Status {
	c := r.host.call(cancel, h)
	defer r.host.done(c)
	found, err := r.ctl.Lookup(&c.Call, r.id(h.NodeId), name)
	if err != nil {
		return status(err)
	}
	r.know(h.NodeId, name)
	if found.Enter != nil {
		return status(r.v.enter(&c.Call, found.Enter, found.Valid, out))
	}
	r.fillEntry(out, &found)
	return gofuse.OK
}

func (r *rawControl) fillEntry(out *gofuse.EntryOut, found *fs.Found) {
	out.NodeId, out.Generation = r.base|nodeID(found.Attr.ID), 1
	out.SetEntryTimeout(found.Valid)
	out.SetAttrTimeout(looseTimeout)
	fillAttr(&out.Attr, &found.Attr, r.base)
	r.count(1)
}

// root answers the LOOKUP of the tree's name.
func (r *rawControl) root(c *caller, out *gofuse.EntryOut) gofuse.Status {
	a, err := r.ctl.GetAttr(&c.Call, uint64(store.RootIno))
	if err != nil {
		return status(err)
	}
	r.fillEntry(out, &fs.Found{Attr: a, Valid: r.v.opts.EntryTimeout})
	return gofuse.OK
}

// Forget has nothing to take back here: the room counts.
func (r *rawControl) Forget(uint64, uint64) {}

func (r *rawControl) attr(c *caller, node uint64, out *gofuse.AttrOut) gofuse.Status {
	a, err := r.ctl.GetAttr(&c.Call, r.id(node))
	if err != nil {
		return status(err)
	}
	out.SetTimeout(looseTimeout)
	fillAttr(&out.Attr, &a, r.base)
	return gofuse.OK
}

func (r *rawControl) GetAttr(cancel <-chan struct{}, in *gofuse.GetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	c := r.host.call(cancel, &in.InHeader)
	defer r.host.done(c)
	return r.attr(c, in.NodeId, out)
}

// SetAttr lets a truncation pass, which is a part of how shells write to a file; there is nothing to truncate.
func (r *rawControl) SetAttr(cancel <-chan struct{}, in *gofuse.SetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	const ignored = gofuse.FATTR_SIZE | gofuse.FATTR_FH | gofuse.FATTR_LOCKOWNER | gofuse.FATTR_KILL_SUIDGID |
		gofuse.FATTR_CTIME | gofuse.FATTR_MTIME | gofuse.FATTR_MTIME_NOW
	if in.Valid&gofuse.FATTR_SIZE == 0 || in.Valid&^uint32(ignored) != 0 {
		return gofuse.EPERM
	}
	c := r.host.call(cancel, &in.InHeader)
	defer r.host.done(c)
	return r.attr(c, in.NodeId, out)
}

func (r *rawControl) Access(<-chan struct{}, *gofuse.AccessIn) gofuse.Status { return gofuse.OK }

func (r *rawControl) Readlink(cancel <-chan struct{}, h *gofuse.InHeader) ([]byte, gofuse.Status) {
	c := r.host.call(cancel, h)
	defer r.host.done(c)
	target, err := r.ctl.Readlink(&c.Call, r.id(h.NodeId))
	return []byte(target), status(err)
}

func (r *rawControl) Open(cancel <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	c := r.host.call(cancel, &in.InHeader)
	defer r.host.done(c)
	g, err := r.ctl.Open(&c.Call, r.id(in.NodeId), in.Flags)
	if err != nil {
		return status(err)
	}
	out.Fh = r.files.add(&generated{g})
	out.OpenFlags |= gofuse.FOPEN_DIRECT_IO
	r.held(1)
	return gofuse.OK
}

func (r *rawControl) Read(cancel <-chan struct{}, in *gofuse.ReadIn, buf []byte) (gofuse.ReadResult, gofuse.Status) {
	c := r.host.call(cancel, &in.InHeader)
	defer r.host.done(c)
	g := r.file(c, in.Fh, in.NodeId)
	if g == nil {
		return nil, ebadf
	}
	n, err := g.ReadAt(&c.Call, buf[:min(len(buf), int(in.Size))], int64(in.Offset))
	if err != nil {
		return nil, status(err)
	}
	return gofuse.ReadResultData(buf[:n]), gofuse.OK
}

func (r *rawControl) Write(cancel <-chan struct{}, in *gofuse.WriteIn, data []byte) (uint32, gofuse.Status) {
	g := r.files.get(in.Fh)
	if g == nil {
		return 0, ebadf
	}
	c := r.host.call(cancel, &in.InHeader)
	defer r.host.done(c)
	n, err := g.WriteAt(&c.Call, data, int64(in.Offset))
	if err != nil {
		return 0, status(err)
	}
	return uint32(n), gofuse.OK
}

func (r *rawControl) Flush(<-chan struct{}, *gofuse.FlushIn) gofuse.Status    { return gofuse.OK }
func (r *rawControl) Fsync(<-chan struct{}, *gofuse.FsyncIn) gofuse.Status    { return gofuse.OK }
func (r *rawControl) FsyncDir(<-chan struct{}, *gofuse.FsyncIn) gofuse.Status { return gofuse.OK }

func (r *rawControl) Release(_ <-chan struct{}, in *gofuse.ReleaseIn) {
	if g := r.files.remove(in.Fh); g != nil {
		g.Close()
		r.held(-1)
	}
}

// Lseek: a file of unknown size has no holes.
func (r *rawControl) Lseek(_ <-chan struct{}, in *gofuse.LseekIn, out *gofuse.LseekOut) gofuse.Status {
	const seekData = 3
	if in.Whence != seekData {
		return gofuse.EINVAL
	}
	out.Offset = in.Offset
	return gofuse.OK
}

func (r *rawControl) OpenDir(cancel <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	c := r.host.call(cancel, &in.InHeader)
	defer r.host.done(c)
	list, err := r.names(c, in.NodeId)
	if err != nil {
		return status(err)
	}
	out.Fh = r.dirs.add(&list)
	r.held(1)
	return gofuse.OK
}

func (r *rawControl) ReadDir(cancel <-chan struct{}, in *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	return r.readDir(cancel, in, func(e gofuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus tells no attributes, which the kernel then asks for if somebody wants to know: they may lead into trees.
func (r *rawControl) ReadDirPlus(cancel <-chan struct{}, in *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	return r.readDir(cancel, in, func(e gofuse.DirEntry) bool {
		entry := out.AddDirLookupEntry(e)
		if entry == nil {
			return false
		}
		*entry = gofuse.EntryOut{}
		return true
	})
}

func (r *rawControl) readDir(cancel <-chan struct{}, in *gofuse.ReadIn, add func(gofuse.DirEntry) bool) gofuse.Status {
	c := r.host.call(cancel, &in.InHeader)
	defer r.host.done(c)
	list := r.listing(c, in.Fh, in.NodeId)
	if list == nil {
		return ebadf
	}
	for i := in.Offset; i < uint64(len(*list)); i++ {
		if !add(dirEntry(&(*list)[i], r.base)) {
			break
		}
	}
	return gofuse.OK
}

func (r *rawControl) ReleaseDir(in *gofuse.ReleaseIn) {
	if r.dirs.remove(in.Fh) != nil {
		r.held(-1)
	}
}

func (r *rawControl) StatFs(_ <-chan struct{}, _ *gofuse.InHeader, out *gofuse.StatfsOut) gofuse.Status {
	s, err := r.ctl.Statfs()
	if err != nil {
		return status(err)
	}
	fillStatfs(out, &s)
	return gofuse.OK
}

// OnUnmount closes what the kernel left open.
func (r *rawControl) OnUnmount() {
	for _, g := range r.files.drain() {
		g.Close()
	}
	r.dirs.drain()
}
