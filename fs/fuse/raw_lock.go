package fuse

import (
	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
)

func lockOf(in *gofuse.LkIn) fs.Lock {
	return fs.Lock{
		Start: in.Lk.Start, End: in.Lk.End, Type: in.Lk.Typ, PID: in.Lk.Pid, Owner: in.Owner,
		Flock: in.LkFlags&gofuse.LK_FLOCK != 0,
	}
}

func (r *rawFS) GetLk(cancel <-chan struct{}, in *gofuse.LkIn, out *gofuse.LkOut) gofuse.Status {
	c := r.call(cancel, &in.InHeader)
	l, err := r.fs.GetLock(&c.Call, inode(in.NodeId), lockOf(in))
	r.done(c)
	if err != nil {
		return status(err)
	}
	out.Lk = gofuse.FileLock{Start: l.Start, End: l.End, Typ: l.Type, Pid: l.PID}
	return gofuse.OK
}

func (r *rawFS) SetLk(cancel <-chan struct{}, in *gofuse.LkIn) gofuse.Status {
	return r.setLock(cancel, in, false)
}

// SetLkw waits as long as the lock is held; the transport lets any number of requests do that.
func (r *rawFS) SetLkw(cancel <-chan struct{}, in *gofuse.LkIn) gofuse.Status {
	return r.setLock(cancel, in, true)
}

func (r *rawFS) setLock(cancel <-chan struct{}, in *gofuse.LkIn, wait bool) gofuse.Status {
	h := r.file(in.Fh, &in.InHeader)
	if h == nil {
		return ebadf
	}
	c := r.call(cancel, &in.InHeader)
	err := r.fs.SetLock(&c.Call, h, lockOf(in), wait)
	r.done(c)
	return status(err)
}
