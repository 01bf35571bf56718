package fuse

import (
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
)

// blockSize is st_blksize of regular files: stdio and python size their buffers by it, and every write(2) is a round
// trip.
const blockSize = 64 << 10

// Node ids and inode numbers given to the kernel are view << viewShift | id. View 0 is what was mounted; the others are
// trees of their own (views.go), so that no two files of a mount look like one.
const (
	viewShift = 40
	viewSize  = uint64(1) << viewShift
)

// nodeID is what the kernel calls a node of view 0, or any node whose view is in it already.
func nodeID(id store.Ino) uint64 { return uint64(id) }

// inode is what the view calls a node of the kernel.
func inode(id uint64) store.Ino { return store.Ino(id & (viewSize - 1)) }

func status(err error) gofuse.Status {
	if err == nil {
		return gofuse.OK
	}
	return gofuse.Status(fs.Errno(err))
}

// fillAttr translates attributes; base is the view's part of the inode number.
func fillAttr(out *gofuse.Attr, a *fs.Attr, base uint64) {
	out.Ino = base | nodeID(a.Ino)
	out.Size = uint64(a.Size)
	out.Blocks = uint64(a.Blocks)
	out.Atime, out.Atimensec = splitTime(a.Atime)
	out.Mtime, out.Mtimensec = splitTime(a.Mtime)
	out.Ctime, out.Ctimensec = splitTime(a.Ctime)
	out.Mode = a.Mode
	out.Nlink = a.Nlink
	out.Uid, out.Gid = a.UID, a.GID
	out.Rdev = a.Rdev
	out.Blksize = 4096
	if a.Mode&syscall.S_IFMT == syscall.S_IFREG {
		out.Blksize = blockSize
	}
}

// splitTime keeps the nanoseconds positive before 1970, as the kernel wants them.
func splitTime(ns int64) (sec uint64, nsec uint32) {
	s, n := ns/1e9, ns%1e9
	if n < 0 {
		s, n = s-1, n+1e9
	}
	return uint64(s), uint32(n)
}

func (r *rawFS) fillEntry(out *gofuse.EntryOut, a *fs.Attr) {
	out.NodeId = r.base | nodeID(a.ID)
	out.Generation = a.Generation
	out.SetEntryTimeout(r.opts.EntryTimeout)
	out.SetAttrTimeout(r.opts.AttrTimeout)
	fillAttr(&out.Attr, a, r.base)
	if r.room != nil {
		r.room.used.Add(1)
	}
}

// entry is the end of every call that returns a new entry.
func (r *rawFS) entry(out *gofuse.EntryOut, a *fs.Attr, err error) gofuse.Status {
	if err != nil {
		return status(err)
	}
	r.fillEntry(out, a)
	return gofuse.OK
}

// attr is the end of every call that returns attributes.
func (r *rawFS) attr(out *gofuse.AttrOut, a *fs.Attr, err error) gofuse.Status {
	if err != nil {
		return status(err)
	}
	out.SetTimeout(r.opts.AttrTimeout)
	fillAttr(&out.Attr, a, r.base)
	return gofuse.OK
}

func fromTime(sec uint64, nsec uint32) int64 { return int64(sec)*1e9 + int64(nsec) }

// setAttr translates what SETATTR asks for.
func setAttr(in *gofuse.SetAttrIn, now func() time.Time) fs.SetAttr {
	var s fs.SetAttr
	if v, ok := in.GetMode(); ok {
		s.Mode = &v
	}
	if v, ok := in.GetUID(); ok {
		s.UID = &v
	}
	if v, ok := in.GetGID(); ok {
		s.GID = &v
	}
	if v, ok := in.GetSize(); ok {
		size := int64(v)
		s.Size = &size
	}
	when := func(bit, nowBit uint32, sec uint64, nsec uint32) *int64 {
		if in.Valid&bit == 0 {
			return nil
		}
		t := fromTime(sec, nsec)
		if in.Valid&nowBit != 0 {
			t = now().UnixNano()
		}
		return &t
	}
	s.Atime = when(gofuse.FATTR_ATIME, gofuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec)
	s.Mtime = when(gofuse.FATTR_MTIME, gofuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec)
	s.Ctime = when(gofuse.FATTR_CTIME, 0, in.Ctime, in.Ctimensec)
	s.KillPriv = in.Valid&gofuse.FATTR_KILL_SUIDGID != 0
	return s
}
