package fuse

import (
	"sync"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
)

const ebadf = gofuse.EBADF

// longWrite is where copying takes so much longer than handing the reader's role on that others should not wait for it.
const longWrite = 256 << 10

// opened gives a handle its number. Pages the kernel has mostly stay good: what changes behind it is told to it.
func (r *rawFS) opened(c *caller, h *fs.Handle, flags uint32, out *gofuse.OpenOut) {
	past, keep := h.Caching(r.opts.can(gofuse.CAP_DIRECT_IO_ALLOW_MMAP))
	out.Fh = r.files.add(h)
	r.room.held(1)
	if past {
		out.OpenFlags |= gofuse.FOPEN_DIRECT_IO
	} else if keep {
		out.OpenFlags |= gofuse.FOPEN_KEEP_CACHE
	}
	if r.mount != 0 {
		r.fs.Opened(&c.Call, h, r.mount, out.Fh, flags, out.OpenFlags)
	}
	// FOPEN_NOFLUSH stays off for readers too: without FLUSH a close would not release the record locks of its process.
}

func (r *rawFS) Create(cancel <-chan struct{}, in *gofuse.CreateIn, name string, out *gofuse.CreateOut) gofuse.Status {
	if r.reserved(in.NodeId, name) {
		return eexist
	}
	c := r.call(cancel, &in.InHeader)
	defer r.done(c)
	flags, kill := in.Flags, in.Flags&syscall.O_TRUNC != 0 && in.OpenFlags&gofuse.OPEN_KILL_SUIDGID != 0
	if kill {
		flags |= syscall.O_EXCL // a file that is made here keeps the mode it is made with
	}
	a, h, err := r.fs.Create(&c.Call, inode(in.NodeId), name, in.Mode, flags)
	if flags != in.Flags && fs.Errno(err) == syscall.EEXIST {
		if a, h, err = r.fs.Create(&c.Call, inode(in.NodeId), name, in.Mode, in.Flags); err == nil {
			r.dropPrivileges(c, h, &a) // somebody else made the file first
		}
	}
	if err != nil {
		return status(err)
	}
	r.fillEntry(&out.EntryOut, &a)
	r.opened(c, h, in.Flags, &out.OpenOut)
	return gofuse.OK
}

func (r *rawFS) Tmpfile(cancel <-chan struct{}, in *gofuse.CreateIn, out *gofuse.CreateOut) gofuse.Status {
	c := r.call(cancel, &in.InHeader)
	defer r.done(c)
	a, h, err := r.fs.Tmpfile(&c.Call, inode(in.NodeId), in.Mode, in.Flags)
	if err != nil {
		return status(err)
	}
	r.fillEntry(&out.EntryOut, &a)
	r.opened(c, h, in.Flags, &out.OpenOut)
	return gofuse.OK
}

func (r *rawFS) Open(cancel <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	c := r.call(cancel, &in.InHeader)
	defer r.done(c)
	h, err := r.fs.Open(&c.Call, inode(in.NodeId), in.Flags)
	if err != nil {
		return status(err)
	}
	if in.Flags&syscall.O_TRUNC != 0 && in.Mode&gofuse.OPEN_KILL_SUIDGID != 0 {
		if a, err := r.fs.GetAttr(&c.Call, h.ID(), h); err == nil {
			if r.dropPrivileges(c, h, &a) {
				r.tellMode(c, in.NodeId)
			}
		}
	}
	r.opened(c, h, in.Flags, out)
	return gofuse.OK
}

// filled is the result of a READ whose bytes are in the reply already.
type filled struct {
	buf  []byte
	pool *sync.Pool
}

func (f *filled) Bytes([]byte) ([]byte, gofuse.Status)       { return f.buf, gofuse.OK }
func (f *filled) Size() int                                  { return len(f.buf) }
func (f *filled) Readv([][]byte) (n int, code gofuse.Status) { return len(f.buf), gofuse.OK }

func (f *filled) Done() {
	f.buf = nil
	f.pool.Put(f)
}

func (r *rawFS) Read(cancel <-chan struct{}, in *gofuse.ReadIn, buf []byte) (gofuse.ReadResult, gofuse.Status) {
	h := r.file(in.Fh, &in.InHeader)
	if h == nil {
		return nil, ebadf
	}
	c := r.call(cancel, &in.InHeader)
	n, err := h.ReadAt(&c.Call, buf[:min(len(buf), int(in.Size))], int64(in.Offset))
	r.done(c)
	if err != nil {
		return nil, status(err)
	}
	res := r.reads.Get().(*filled)
	res.buf = buf[:n]
	return res, gofuse.OK
}

func (r *rawFS) Write(cancel <-chan struct{}, in *gofuse.WriteIn, data []byte) (uint32, gofuse.Status) {
	h := r.files.get(in.Fh)
	if h == nil {
		return 0, ebadf
	}
	c := r.call(cancel, &in.InHeader)
	if len(data) >= longWrite {
		c.yield()
	}
	var n int
	var err error
	killPriv := in.WriteFlags&gofuse.WRITE_KILL_SUIDGID != 0
	tell := killPriv && r.privileged(c, h)
	switch {
	case in.WriteFlags&gofuse.WRITE_CACHE != 0: // pages of a shared mapping, by nobody in particular
		n, err = h.WriteCached(&c.Call, data, int64(in.Offset))
	case in.Flags&syscall.O_APPEND != 0:
		n, err = h.Append(&c.Call, data, killPriv)
	default:
		n, err = h.WriteAt(&c.Call, data, int64(in.Offset), killPriv)
	}
	if tell && n > 0 {
		r.tellMode(c, in.NodeId)
	}
	r.done(c)
	if err != nil && n == 0 {
		return 0, status(err)
	}
	return uint32(n), gofuse.OK
}

// Writev is asked first by the library; the data is always in one piece here, and Write takes it.
func (r *rawFS) Writev(<-chan struct{}, *gofuse.WriteIn, [][]byte) (uint32, gofuse.Status) {
	return 0, gofuse.ENOSYS
}

func (r *rawFS) Flush(cancel <-chan struct{}, in *gofuse.FlushIn) gofuse.Status {
	h := r.file(in.Fh, &in.InHeader)
	if h == nil {
		return ebadf
	}
	c := r.call(cancel, &in.InHeader)
	err := h.Flush(&c.Call, in.LockOwner)
	r.done(c)
	return status(err)
}

func (r *rawFS) Release(cancel <-chan struct{}, in *gofuse.ReleaseIn) {
	h := r.files.remove(in.Fh)
	if h == nil {
		return
	}
	c := r.call(cancel, &in.InHeader)
	h.Release(&c.Call, in.LockOwner)
	r.done(c)
	r.room.held(-1)
}

func (r *rawFS) Fsync(cancel <-chan struct{}, in *gofuse.FsyncIn) gofuse.Status {
	h := r.file(in.Fh, &in.InHeader)
	if h == nil {
		return ebadf
	}
	c := r.call(cancel, &in.InHeader)
	err := h.Fsync(&c.Call, in.FsyncFlags&1 != 0)
	r.done(c)
	return status(err)
}

func (r *rawFS) Fallocate(cancel <-chan struct{}, in *gofuse.FallocateIn) gofuse.Status {
	h := r.files.get(in.Fh)
	if h == nil {
		return ebadf
	}
	c := r.call(cancel, &in.InHeader)
	err := h.Fallocate(&c.Call, in.Offset, in.Length, in.Mode)
	if err == nil {
		r.changedBy(c, h, in.NodeId)
	}
	r.done(c)
	return status(err)
}

func (r *rawFS) Lseek(cancel <-chan struct{}, in *gofuse.LseekIn, out *gofuse.LseekOut) gofuse.Status {
	h := r.file(in.Fh, &in.InHeader)
	if h == nil {
		return ebadf
	}
	c := r.call(cancel, &in.InHeader)
	off, err := h.Seek(&c.Call, int64(in.Offset), in.Whence)
	r.done(c)
	if err != nil {
		return status(err)
	}
	out.Offset = uint64(off)
	return gofuse.OK
}

func (r *rawFS) CopyFileRange(cancel <-chan struct{}, in *gofuse.CopyFileRangeIn) (uint32, gofuse.Status) {
	src, dst := r.files.get(in.FhIn), r.files.get(in.FhOut)
	if src == nil || dst == nil {
		return 0, ebadf
	}
	c := r.call(cancel, &in.InHeader)
	n, err := r.fs.CopyRange(&c.Call, src, int64(in.OffIn), dst, int64(in.OffOut), in.Len)
	if n > 0 {
		r.changedBy(c, dst, in.NodeIdOut)
	}
	r.done(c)
	if err != nil && n == 0 {
		return 0, status(err)
	}
	return n, gofuse.OK
}

// Ioctl refuses all: "not a typewriter" is what programs that probe expect.
func (r *rawFS) Ioctl(<-chan struct{}, *gofuse.IoctlIn, []byte, *gofuse.IoctlOut, []byte) gofuse.Status {
	return gofuse.Status(syscall.ENOTTY)
}
