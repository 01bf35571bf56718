package fuse

import (
	"strings"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
)

func (r *rawFS) GetAttr(cancel <-chan struct{}, in *gofuse.GetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	var h *fs.Handle
	if in.Flags()&gofuse.FUSE_GETATTR_FH != 0 { // only of regular files, so never a listing's number
		h = r.files.get(in.Fh())
	}
	c := r.call(cancel, &in.InHeader)
	a, err := r.fs.GetAttr(&c.Call, inode(in.NodeId), h)
	if r.limit != nil && err == nil {
		r.limit(&c.Call, &a)
	}
	r.done(c)
	return r.attr(out, &a, err)
}

func (r *rawFS) SetAttr(cancel <-chan struct{}, in *gofuse.SetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	var h *fs.Handle
	if fh, ok := in.GetFh(); ok {
		h = r.files.get(fh)
	}
	c := r.call(cancel, &in.InHeader)
	a, err := r.fs.SetAttr(&c.Call, inode(in.NodeId), h, setAttr(in, r.now))
	r.done(c)
	return r.attr(out, &a, err)
}

// Access is not sent under default_permissions: the kernel checks modes itself.
func (r *rawFS) Access(cancel <-chan struct{}, in *gofuse.AccessIn) gofuse.Status {
	c := r.call(cancel, &in.InHeader)
	err := r.fs.Access(&c.Call, inode(in.NodeId), in.Mask)
	r.done(c)
	return status(err)
}

// GetXAttr copies a value to dest. With no dest the kernel only asks for the length.
func (r *rawFS) GetXAttr(cancel <-chan struct{}, h *gofuse.InHeader, name string, dest []byte) (uint32, gofuse.Status) {
	c := r.call(cancel, h)
	v, err := r.fs.GetXattr(&c.Call, inode(h.NodeId), name)
	r.done(c)
	if err != nil {
		// ls -l asks for the label of every file until one answer is "not supported"; without SELinux "no such label"
		// means the same, and costs a round trip a file.
		if name == "security.selinux" && fs.Errno(err) == syscall.ENODATA {
			return 0, gofuse.Status(syscall.EOPNOTSUPP)
		}
		return 0, status(err)
	}
	if len(v) > len(dest) {
		return uint32(len(v)), gofuse.Status(syscall.ERANGE)
	}
	return uint32(copy(dest, v)), gofuse.OK
}

func (r *rawFS) ListXAttr(cancel <-chan struct{}, h *gofuse.InHeader, dest []byte) (uint32, gofuse.Status) {
	c := r.call(cancel, h)
	names, err := r.fs.ListXattr(&c.Call, inode(h.NodeId))
	r.done(c)
	if err != nil {
		return 0, status(err)
	}
	var list []byte
	if len(names) > 0 {
		list = []byte(strings.Join(names, "\x00") + "\x00")
	}
	if len(list) > len(dest) {
		return uint32(len(list)), gofuse.Status(syscall.ERANGE)
	}
	return uint32(copy(dest, list)), gofuse.OK
}

func (r *rawFS) SetXAttr(cancel <-chan struct{}, in *gofuse.SetXAttrIn, name string, data []byte) gofuse.Status {
	c := r.call(cancel, &in.InHeader)
	err := r.fs.SetXattr(&c.Call, inode(in.NodeId), name, data, in.Flags)
	r.done(c)
	return status(err)
}

func (r *rawFS) RemoveXAttr(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	c := r.call(cancel, h)
	err := r.fs.RemoveXattr(&c.Call, inode(h.NodeId), name)
	r.done(c)
	return status(err)
}
