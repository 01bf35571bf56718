package fuse

import (
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

// What a generated tree refuses. Names are made by `wsfs fork` and taken by `wsfs drop`, not by mkdir and rmdir.

const unsupported = gofuse.Status(syscall.EOPNOTSUPP)

func (r *rawControl) Mkdir(<-chan struct{}, *gofuse.MkdirIn, string, *gofuse.EntryOut) gofuse.Status {
	return gofuse.EPERM
}

func (r *rawControl) Mknod(<-chan struct{}, *gofuse.MknodIn, string, *gofuse.EntryOut) gofuse.Status {
	return gofuse.EPERM
}

func (r *rawControl) Symlink(<-chan struct{}, *gofuse.InHeader, string, string, *gofuse.EntryOut) gofuse.Status {
	return gofuse.EPERM
}

func (r *rawControl) Link(<-chan struct{}, *gofuse.LinkIn, string, *gofuse.EntryOut) gofuse.Status {
	return gofuse.EPERM
}

func (r *rawControl) Unlink(<-chan struct{}, *gofuse.InHeader, string) gofuse.Status {
	return gofuse.EPERM
}

func (r *rawControl) Rmdir(<-chan struct{}, *gofuse.InHeader, string) gofuse.Status {
	return gofuse.EPERM
}

func (r *rawControl) Rename(<-chan struct{}, *gofuse.RenameIn, string, string) gofuse.Status {
	return gofuse.EPERM
}

func (r *rawControl) Create(<-chan struct{}, *gofuse.CreateIn, string, *gofuse.CreateOut) gofuse.Status {
	return gofuse.EPERM
}

func (r *rawControl) Tmpfile(<-chan struct{}, *gofuse.CreateIn, *gofuse.CreateOut) gofuse.Status {
	return unsupported
}

func (r *rawControl) GetXAttr(<-chan struct{}, *gofuse.InHeader, string, []byte) (uint32, gofuse.Status) {
	return 0, gofuse.ENODATA
}

func (r *rawControl) ListXAttr(<-chan struct{}, *gofuse.InHeader, []byte) (uint32, gofuse.Status) {
	return 0, gofuse.OK
}

func (r *rawControl) SetXAttr(<-chan struct{}, *gofuse.SetXAttrIn, string, []byte) gofuse.Status {
	return unsupported
}

func (r *rawControl) RemoveXAttr(<-chan struct{}, *gofuse.InHeader, string) gofuse.Status {
	return gofuse.ENODATA
}

func (r *rawControl) GetLk(<-chan struct{}, *gofuse.LkIn, *gofuse.LkOut) gofuse.Status {
	return unsupported
}

func (r *rawControl) SetLk(<-chan struct{}, *gofuse.LkIn) gofuse.Status  { return unsupported }
func (r *rawControl) SetLkw(<-chan struct{}, *gofuse.LkIn) gofuse.Status { return unsupported }

func (r *rawControl) Fallocate(<-chan struct{}, *gofuse.FallocateIn) gofuse.Status {
	return unsupported
}

func (r *rawControl) CopyFileRange(<-chan struct{}, *gofuse.CopyFileRangeIn) (uint32, gofuse.Status) {
	return 0, exdev
}

func (r *rawControl) Writev(<-chan struct{}, *gofuse.WriteIn, [][]byte) (uint32, gofuse.Status) {
	return 0, gofuse.ENOSYS // see rawFS.Writev: never sent by the kernel
}

func (r *rawControl) Ioctl(<-chan struct{}, *gofuse.IoctlIn, []byte, *gofuse.IoctlOut, []byte) gofuse.Status {
	return gofuse.Status(syscall.ENOTTY)
}
