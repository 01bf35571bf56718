package fuse

import (
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
)

// reopen gives the mount back what the process before had open.
func (r *rawFS) reopen() {
	for _, o := range r.fs.Restored(r.mount) {
		if o.Dir != nil {
			r.dirs.put(o.Fh, &dirHandle{dir: o.Dir})
		} else {
			r.files.put(o.Fh, o.Handle)
		}
		r.room.held(1)
	}
}

// redo answers a request that was done by a process before this one.
func (r *rawFS) redo(q *request, done *fs.Receipt) gofuse.Status {
	switch q.h.Opcode {
	case opMkdir, opMknod, opSymlink, opLink:
		a, err := r.fs.Refer(inode(done.Ino))
		return r.entry(output[gofuse.EntryOut](q), &a, err)
	case opCreate, opTmpfile:
		return r.redoCreate(q, done)
	case opOpen, opOpendir:
		out := output[gofuse.OpenOut](q)
		*out = gofuse.OpenOut{Fh: done.Fh, OpenFlags: uint32(done.Flags)}
		if q.h.Opcode == opOpen && r.files.get(done.Fh) == nil || q.h.Opcode == opOpendir && r.dirs.get(done.Fh) == nil {
			return estale
		}
	case opWrite:
		if in := input[gofuse.WriteIn](q); in != nil {
			output[gofuse.WriteOut](q).Size = in.Size
		}
	case opSetattr:
		a, err := r.fs.GetAttr(nil, inode(q.h.NodeId), nil)
		return r.attr(output[gofuse.AttrOut](q), &a, err)
	}
	return gofuse.OK // UNLINK, RMDIR, RENAME and extended attributes say no more
}

// redoCreate: the file is there, and may be open.
func (r *rawFS) redoCreate(q *request, done *fs.Receipt) gofuse.Status {
	in, out := input[gofuse.CreateIn](q), output[gofuse.CreateOut](q)
	if in == nil {
		return gofuse.EINVAL
	}
	h := r.files.get(done.Fh)
	if done.Ino == 0 && h != nil { // somebody else had made the file, and it was only opened
		done.Ino = uint64(h.ID())
	}
	a, err := r.fs.Refer(inode(done.Ino))
	if err != nil {
		return status(err)
	}
	if h == nil || h.ID() != store.Ino(inode(done.Ino)) {
		c := r.call(q.cancel, q.h)
		defer r.done(c)
		if h, err = r.fs.Open(&c.Call, a.ID, in.Flags&^(syscall.O_TRUNC|syscall.O_EXCL|syscall.O_CREAT)); err != nil {
			return status(err)
		}
		r.opened(c, h, in.Flags, &out.OpenOut)
	} else {
		out.OpenOut = gofuse.OpenOut{Fh: done.Fh, OpenFlags: uint32(done.Flags)}
	}
	r.fillEntry(&out.EntryOut, &a)
	return gofuse.OK
}
