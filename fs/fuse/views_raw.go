package fuse

import (
	"context"
	"strings"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/store"
)

// The requests of views: each goes to the view of its node.

const (
	estale = gofuse.Status(syscall.ESTALE)
	exdev  = gofuse.Status(syscall.EXDEV)
)

// with calls fn with who serves the node of another view.
func (v *views) with(cancel <-chan struct{}, h *gofuse.InHeader, fn func(gofuse.RawFileSystem) gofuse.Status) gofuse.Status {
	raw, rm, st := v.at(cancel, h)
	if raw == nil {
		return st
	}
	defer rm.leave()
	return fn(raw)
}

// GetAttr of a tree that nobody is in does not open it: ls -l asks for it.
func (v *views) GetAttr(cancel <-chan struct{}, in *gofuse.GetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.GetAttr(cancel, in, out)
	}
	if rm := v.outside(in.NodeId); rm != nil {
		defer rm.leave()
		return rm.rootAttr(cancel, in, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.GetAttr(cancel, in, out) })
}

// GetXAttr: see GetAttr. A tree that is not open is said to have none of what ls asks for.
func (v *views) GetXAttr(cancel <-chan struct{}, h *gofuse.InHeader, name string, dest []byte) (n uint32, st gofuse.Status) {
	if h.NodeId < viewSize {
		return v.home.GetXAttr(cancel, h, name, dest)
	}
	if strings.HasPrefix(name, "security.") || strings.HasPrefix(name, "system.") {
		if rm := v.outside(h.NodeId); rm != nil {
			rm.leave()
			return 0, gofuse.ENODATA
		}
	}
	st = v.with(cancel, h, func(raw gofuse.RawFileSystem) (st gofuse.Status) {
		n, st = raw.GetXAttr(cancel, h, name, dest)
		return st
	})
	return n, st
}

// outside is the room of a node that is the root of a tree that is not open; nil for any other.
func (v *views) outside(id uint64) *room {
	if id>>viewShift&1 != 0 || id&(viewSize-1) != uint64(store.RootIno) {
		return nil
	}
	rm := v.room(id)
	if rm != nil && !rm.isClosed() {
		rm.leave()
		return nil
	}
	return rm
}

// Forget takes references of the kernel back.
func (v *views) Forget(id, n uint64) {
	if id < viewSize {
		v.home.Forget(id, n)
		return
	}
	rm := v.room(id)
	if rm == nil {
		return
	}
	defer rm.leave()
	switch {
	case id>>viewShift&1 != 0:
	case id&(viewSize-1) == uint64(store.RootIno):
		if rm.refs.Add(-int64(n)) <= 0 && !v.sweeps.Load() {
			v.wake()
		}
		return
	default:
		rm.mu.RLock()
		tree := rm.tree
		rm.mu.RUnlock()
		if tree != nil {
			tree.Forget(id, n)
		}
	}
	rm.used.Add(-int64(n))
}

// apart is the answer to a request about two nodes of different views.
func apart(a, b uint64) gofuse.Status {
	if (a>>viewShift|b>>viewShift)&1 != 0 {
		return gofuse.EPERM // of a .wsfs tree: not to be copied either
	}
	return exdev
}

// Link links only within a view.
func (v *views) Link(cancel <-chan struct{}, in *gofuse.LinkIn, name string, out *gofuse.EntryOut) gofuse.Status {
	if in.NodeId>>viewShift != in.Oldnodeid>>viewShift {
		return apart(in.NodeId, in.Oldnodeid)
	}
	if in.NodeId < viewSize {
		return v.home.Link(cancel, in, name, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Link(cancel, in, name, out) })
}

// Rename renames only within a view.
func (v *views) Rename(cancel <-chan struct{}, in *gofuse.RenameIn, oldName, newName string) gofuse.Status {
	if in.NodeId>>viewShift != in.Newdir>>viewShift {
		return apart(in.NodeId, in.Newdir)
	}
	if in.NodeId < viewSize {
		return v.home.Rename(cancel, in, oldName, newName)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status {
		return raw.Rename(cancel, in, oldName, newName)
	})
}

// CopyFileRange copies only within a view; elsewhere the kernel does it by reading and writing.
func (v *views) CopyFileRange(cancel <-chan struct{}, in *gofuse.CopyFileRangeIn) (n uint32, st gofuse.Status) {
	if in.NodeId>>viewShift != in.NodeIdOut>>viewShift {
		return 0, exdev
	}
	if in.NodeId < viewSize {
		return v.home.CopyFileRange(cancel, in)
	}
	st = v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) (st gofuse.Status) {
		n, st = raw.CopyFileRange(cancel, in)
		return st
	})
	return n, st
}

func (v *views) Readlink(cancel <-chan struct{}, h *gofuse.InHeader) (target []byte, st gofuse.Status) {
	if h.NodeId < viewSize {
		return v.home.Readlink(cancel, h)
	}
	st = v.with(cancel, h, func(raw gofuse.RawFileSystem) (st gofuse.Status) {
		target, st = raw.Readlink(cancel, h)
		return st
	})
	return target, st
}

func (v *views) ListXAttr(cancel <-chan struct{}, h *gofuse.InHeader, dest []byte) (n uint32, st gofuse.Status) {
	if h.NodeId < viewSize {
		return v.home.ListXAttr(cancel, h, dest)
	}
	st = v.with(cancel, h, func(raw gofuse.RawFileSystem) (st gofuse.Status) {
		n, st = raw.ListXAttr(cancel, h, dest)
		return st
	})
	return n, st
}

func (v *views) Read(cancel <-chan struct{}, in *gofuse.ReadIn, buf []byte) (res gofuse.ReadResult, st gofuse.Status) {
	if in.NodeId < viewSize {
		return v.home.Read(cancel, in, buf)
	}
	st = v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) (st gofuse.Status) {
		res, st = raw.Read(cancel, in, buf)
		return st
	})
	return res, st
}

func (v *views) Write(cancel <-chan struct{}, in *gofuse.WriteIn, data []byte) (n uint32, st gofuse.Status) {
	if in.NodeId < viewSize {
		return v.home.Write(cancel, in, data)
	}
	st = v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) (st gofuse.Status) {
		n, st = raw.Write(cancel, in, data)
		return st
	})
	return n, st
}

// Writev is asked first by the library; the data is always in one piece here, and Write takes it.
func (v *views) Writev(<-chan struct{}, *gofuse.WriteIn, [][]byte) (uint32, gofuse.Status) {
	return 0, gofuse.ENOSYS
}

func (v *views) Release(cancel <-chan struct{}, in *gofuse.ReleaseIn) {
	if in.NodeId < viewSize {
		v.home.Release(cancel, in)
		return
	}
	v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status {
		raw.Release(cancel, in)
		return gofuse.OK
	})
}

func (v *views) ReleaseDir(in *gofuse.ReleaseIn) {
	if in.NodeId < viewSize {
		v.home.ReleaseDir(in)
		return
	}
	v.with(nil, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status {
		raw.ReleaseDir(in)
		return gofuse.OK
	})
}

// StatFs is that of the store's disk, whatever is asked for.
func (v *views) StatFs(cancel <-chan struct{}, h *gofuse.InHeader, out *gofuse.StatfsOut) gofuse.Status {
	return v.home.StatFs(cancel, h, out)
}

// Ioctl refuses all, as rawFS does.
func (v *views) Ioctl(<-chan struct{}, *gofuse.IoctlIn, []byte, *gofuse.IoctlOut, []byte) gofuse.Status {
	return gofuse.Status(syscall.ENOTTY)
}

// SyncFS is for a mount of one workspace.
func (v *views) SyncFS(ctx context.Context) gofuse.Status {
	if s, ok := v.home.(syncer); ok {
		return s.SyncFS(ctx)
	}
	return gofuse.OK
}
