package fuse

import (
	"context"
	"sync"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
)

// rawFS translates the kernel's requests to calls of one live workspace and back. It keeps nothing but the open files.
type rawFS struct {
	gofuse.RawFileSystem // of the library, only for what the kernel never sends here

	fs        *fs.FS
	base      uint64      // of its node ids: its view, shifted
	room      *room       // that it is the tree of; nil for view 0
	control   *rawControl // its .wsfs tree; nil: none
	limit     func(*fs.Call, *fs.Attr)
	opts      *Options
	now       func() time.Time
	origin    fs.Origin
	mount     uint64 // its number in the ledger; 0: it ends with this process
	transport transport
	callers   *sync.Pool
	files     handles[fs.Handle]
	dirs      handles[dirHandle]
	reads     sync.Pool // of *filled
}

// controlName is a name that the root of a workspace has and does not list.
const controlName = ".wsfs"

const eexist = gofuse.Status(syscall.EEXIST)

// reserved reports whether name in the directory id is the way into the control tree of this workspace.
func (r *rawFS) reserved(id uint64, name string) bool {
	return id == r.base|uint64(store.RootIno) && name == controlName && r.control != nil
}

func newRaw(f *fs.FS, o *Options) *rawFS {
	r := &rawFS{RawFileSystem: gofuse.NewDefaultRawFileSystem(), fs: f, opts: o, now: time.Now}
	r.callers = newCallerPool(r)
	r.reads.New = func() any { return &filled{pool: &r.reads} }
	return r
}

func (r *rawFS) String() string { return subtype }

// Lookup answers a name that does not exist with node 0, which the kernel remembers, and not with ENOENT, which it
// does not.
func (r *rawFS) Lookup(cancel <-chan struct{}, h *gofuse.InHeader, name string, out *gofuse.EntryOut) gofuse.Status {
	c := r.call(cancel, h)
	if r.reserved(h.NodeId, name) {
		defer r.done(c)
		return r.control.root(c, out)
	}
	if name == "." || name == ".." { // by a file handle: see CAP_EXPORT_SUPPORT
		a, err := r.lookupHandle(c, h, name)
		r.done(c)
		return r.entry(out, &a, err)
	}
	a, err := r.fs.Lookup(&c.Call, inode(h.NodeId), name)
	if r.limit != nil && err == nil {
		r.limit(&c.Call, &a)
	}
	r.done(c)
	if err != nil && fs.Errno(err) == syscall.ENOENT {
		if r.room != nil && inode(h.NodeId) == store.RootIno && !r.room.absent(name) {
			return gofuse.ENOENT
		}
		out.NodeId = 0
		out.SetEntryTimeout(r.opts.NegativeTimeout)
		return gofuse.OK
	}
	return r.entry(out, &a, err)
}

func (r *rawFS) lookupHandle(c *caller, h *gofuse.InHeader, name string) (a fs.Attr, err error) {
	if name == "." {
		a, err = r.fs.LookupSelf(&c.Call, inode(h.NodeId))
	} else {
		a, err = r.fs.LookupParent(&c.Call, inode(h.NodeId))
	}
	if r.limit != nil && err == nil {
		r.limit(&c.Call, &a)
	}
	return a, err
}

func (r *rawFS) Forget(nodeid, nlookup uint64) { r.fs.Forget(inode(nodeid), nlookup) }

func (r *rawFS) Mkdir(cancel <-chan struct{}, in *gofuse.MkdirIn, name string, out *gofuse.EntryOut) gofuse.Status {
	if r.reserved(in.NodeId, name) {
		return eexist
	}
	c := r.call(cancel, &in.InHeader)
	a, err := r.fs.Mkdir(&c.Call, inode(in.NodeId), name, in.Mode)
	r.done(c)
	return r.entry(out, &a, err)
}

func (r *rawFS) Mknod(cancel <-chan struct{}, in *gofuse.MknodIn, name string, out *gofuse.EntryOut) gofuse.Status {
	if r.reserved(in.NodeId, name) {
		return eexist
	}
	c := r.call(cancel, &in.InHeader)
	a, err := r.fs.Mknod(&c.Call, inode(in.NodeId), name, in.Mode, in.Rdev)
	r.done(c)
	return r.entry(out, &a, err)
}

func (r *rawFS) Symlink(cancel <-chan struct{}, h *gofuse.InHeader, target, name string, out *gofuse.EntryOut) gofuse.Status {
	if r.reserved(h.NodeId, name) {
		return eexist
	}
	c := r.call(cancel, h)
	a, err := r.fs.Symlink(&c.Call, inode(h.NodeId), name, target)
	r.done(c)
	return r.entry(out, &a, err)
}

func (r *rawFS) Link(cancel <-chan struct{}, in *gofuse.LinkIn, name string, out *gofuse.EntryOut) gofuse.Status {
	if r.reserved(in.NodeId, name) {
		return eexist
	}
	c := r.call(cancel, &in.InHeader)
	a, err := r.fs.Link(&c.Call, inode(in.Oldnodeid), inode(in.NodeId), name)
	r.done(c)
	return r.entry(out, &a, err)
}

func (r *rawFS) Unlink(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	if r.reserved(h.NodeId, name) {
		return gofuse.EPERM
	}
	c := r.call(cancel, h)
	err := r.fs.Unlink(&c.Call, inode(h.NodeId), name)
	r.done(c)
	return status(err)
}

func (r *rawFS) Rmdir(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	if r.reserved(h.NodeId, name) {
		return gofuse.EPERM
	}
	c := r.call(cancel, h)
	err := r.fs.Rmdir(&c.Call, inode(h.NodeId), name)
	r.done(c)
	return status(err)
}

func (r *rawFS) Rename(cancel <-chan struct{}, in *gofuse.RenameIn, oldName, newName string) gofuse.Status {
	if r.reserved(in.NodeId, oldName) || r.reserved(in.Newdir, newName) {
		return gofuse.EPERM
	}
	c := r.call(cancel, &in.InHeader)
	err := r.fs.Rename(&c.Call, inode(in.NodeId), oldName, inode(in.Newdir), newName, in.Flags)
	r.done(c)
	return status(err)
}

func (r *rawFS) Readlink(cancel <-chan struct{}, h *gofuse.InHeader) ([]byte, gofuse.Status) {
	c := r.call(cancel, h)
	target, err := r.fs.Readlink(&c.Call, inode(h.NodeId))
	r.done(c)
	return []byte(target), status(err)
}

func (r *rawFS) StatFs(_ <-chan struct{}, _ *gofuse.InHeader, out *gofuse.StatfsOut) gofuse.Status {
	s, err := r.fs.Statfs()
	if err != nil {
		return status(err)
	}
	fillStatfs(out, &s)
	return gofuse.OK
}

func fillStatfs(out *gofuse.StatfsOut, s *fs.Statfs) {
	*out = gofuse.StatfsOut{
		Blocks: s.Blocks, Bfree: s.Bfree, Bavail: s.Bavail, Files: s.Files, Ffree: s.Ffree,
		Bsize: s.Bsize, Frsize: s.Bsize, NameLen: s.NameLen,
	}
}

// SyncFS is syncfs(2). The kernel sends it to mounts of block devices only, so nobody may count on it; see `wsfs sync`.
func (r *rawFS) SyncFS(ctx context.Context) gofuse.Status { return status(r.fs.Sync(ctx)) }

// OnUnmount ends what the kernel left open: after an unmount or an abort it releases nothing.
func (r *rawFS) OnUnmount() {
	for _, h := range r.files.drain() {
		h.Release(nil, 0)
	}
	for _, d := range r.dirs.drain() {
		d.dir.Close()
	}
}
