package fuse

import (
	"context"
	"sync"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
)

// rawFS translates the kernel's requests to calls of one live workspace and back. It keeps nothing but the open files.
type rawFS struct {
	gofuse.RawFileSystem // of the library, only for what the kernel never sends here

	fs        *fs.FS
	opts      *Options
	now       func() time.Time
	origin    fs.Origin
	transport transport
	callers   *sync.Pool
	files     handles[fs.Handle]
	dirs      handles[dirHandle]
	reads     sync.Pool // of *filled
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
	a, err := r.fs.Lookup(&c.Call, inode(h.NodeId), name)
	r.done(c)
	if err != nil && fs.Errno(err) == syscall.ENOENT {
		out.NodeId = 0
		out.SetEntryTimeout(r.opts.NegativeTimeout)
		return gofuse.OK
	}
	return r.entry(out, &a, err)
}

func (r *rawFS) Forget(nodeid, nlookup uint64) { r.fs.Forget(inode(nodeid), nlookup) }

func (r *rawFS) Mkdir(cancel <-chan struct{}, in *gofuse.MkdirIn, name string, out *gofuse.EntryOut) gofuse.Status {
	c := r.call(cancel, &in.InHeader)
	a, err := r.fs.Mkdir(&c.Call, inode(in.NodeId), name, in.Mode)
	r.done(c)
	return r.entry(out, &a, err)
}

func (r *rawFS) Mknod(cancel <-chan struct{}, in *gofuse.MknodIn, name string, out *gofuse.EntryOut) gofuse.Status {
	c := r.call(cancel, &in.InHeader)
	a, err := r.fs.Mknod(&c.Call, inode(in.NodeId), name, in.Mode, in.Rdev)
	r.done(c)
	return r.entry(out, &a, err)
}

func (r *rawFS) Symlink(cancel <-chan struct{}, h *gofuse.InHeader, target, name string, out *gofuse.EntryOut) gofuse.Status {
	c := r.call(cancel, h)
	a, err := r.fs.Symlink(&c.Call, inode(h.NodeId), name, target)
	r.done(c)
	return r.entry(out, &a, err)
}

func (r *rawFS) Link(cancel <-chan struct{}, in *gofuse.LinkIn, name string, out *gofuse.EntryOut) gofuse.Status {
	c := r.call(cancel, &in.InHeader)
	a, err := r.fs.Link(&c.Call, inode(in.Oldnodeid), inode(in.NodeId), name)
	r.done(c)
	return r.entry(out, &a, err)
}

func (r *rawFS) Unlink(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	c := r.call(cancel, h)
	err := r.fs.Unlink(&c.Call, inode(h.NodeId), name)
	r.done(c)
	return status(err)
}

func (r *rawFS) Rmdir(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	c := r.call(cancel, h)
	err := r.fs.Rmdir(&c.Call, inode(h.NodeId), name)
	r.done(c)
	return status(err)
}

func (r *rawFS) Rename(cancel <-chan struct{}, in *gofuse.RenameIn, oldName, newName string) gofuse.Status {
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
	*out = gofuse.StatfsOut{
		Blocks: s.Blocks, Bfree: s.Bfree, Bavail: s.Bavail, Files: s.Files, Ffree: s.Ffree,
		Bsize: s.Bsize, Frsize: s.Bsize, NameLen: s.NameLen,
	}
	return gofuse.OK
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
