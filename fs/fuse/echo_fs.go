package fuse

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
)

// echoFile is the number of every file that a helper opens: it has no bytes and is nobody's handle.
const echoFile = ^uint64(0)

// echoFS stands before a file system and answers the requests of an echo helper from its plan: nothing is changed,
// appended or attributed. Everybody else's pass, for one atomic load. What a helper asks and its plan does not hold is
// answered if it only reads, and EROFS if not.
type echoFS struct {
	gofuse.RawFileSystem

	thread atomic.Uint32 // of the helper under way, 0 if there is none
	run    atomic.Pointer[echoRun]

	suspects suspects

	referred func(id uint64) // counts a reference that only fs has counted; nil: nobody else counts
}

// echoRun is one plan with what it needs of the workspace it is about.
type echoRun struct {
	*echoPlan
	base uint64 // of node ids: the view
	fs   *fs.FS
	seen uint64 // guarded by mu; the node whose attributes the helper asked for last
}

func newEchoFS(raw gofuse.RawFileSystem) *echoFS { return &echoFS{RawFileSystem: raw} }

// helper is the plan if h is a request of its helper, else nil.
func (e *echoFS) helper(h *gofuse.InHeader) *echoRun {
	if t := e.thread.Load(); t != 0 && t == h.Pid {
		return e.run.Load()
	}
	return nil
}

// SyncFS passes on what RawFileSystem has no method for.
func (e *echoFS) SyncFS(ctx context.Context) gofuse.Status {
	if s, ok := e.RawFileSystem.(syncer); ok {
		return s.SyncFS(ctx)
	}
	return gofuse.ENOSYS
}

// id is what the kernel calls a node of the workspace; 0 is nothing.
func (r *echoRun) id(id store.Ino) uint64 {
	if id == 0 {
		return 0
	}
	return r.base | nodeID(id)
}

// slot is the name that a request is about, nil if the plan has none. The caller holds mu.
func (r *echoRun) slot(parent uint64, name string) *echoSlot {
	if parent>>viewShift<<viewShift != r.base {
		return nil
	}
	return r.slots[echoKey{store.Ino(parent - r.base), name}]
}

func (e *echoFS) Lookup(cancel <-chan struct{}, h *gofuse.InHeader, name string, out *gofuse.EntryOut) gofuse.Status {
	r := e.helper(h)
	if r == nil {
		e.suspects.looked(h.NodeId, name) // before: a move that comes between makes it a suspect again
		st := e.RawFileSystem.Lookup(cancel, h, name, out)
		if st == gofuse.OK && out.NodeId == 0 && e.thread.Load() != 0 {
			// The helper must be asked about too: a name that the kernel knows to be absent cannot be removed.
			out.SetEntryTimeout(0)
		}
		return st
	}
	if strings.HasPrefix(name, echoProbe) {
		return gofuse.Status(echoKnown)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slot(h.NodeId, name)
	switch {
	case s == nil || s.cur.ID != 0 && s.cur.ID == s.new.ID:
		return e.RawFileSystem.Lookup(cancel, h, name, out)
	case s.cur.ID == 0:
		return gofuse.ENOENT
	}
	a, err := r.fs.Refer(s.cur.ID)
	if err != nil {
		return status(err)
	}
	out.NodeId, out.Generation = r.id(s.cur.ID), a.Generation
	fillAttr(&out.Attr, &a, r.base)
	if e.referred != nil {
		e.referred(out.NodeId)
	}
	return gofuse.OK
}

// arrive answers the making of a name with what is there already, counting one lookup. The caller holds mu.
func (e *echoFS) arrive(r *echoRun, cancel <-chan struct{}, h *gofuse.InHeader, name string, kind uint32, out *gofuse.EntryOut) gofuse.Status {
	s := r.slot(h.NodeId, name)
	if s == nil || s.new.ID == 0 || s.cur.ID != 0 {
		return gofuse.EROFS
	}
	switch st := e.RawFileSystem.Lookup(cancel, h, name, out); {
	case st != gofuse.OK:
		return st
	case out.NodeId == 0: // somebody removed it meanwhile
		return gofuse.ENOENT
	case out.Attr.Mode&syscall.S_IFMT != kind:
		e.RawFileSystem.Forget(out.NodeId, 1)
		return gofuse.Status(syscall.ESTALE)
	}
	s.cur = s.new
	return gofuse.OK
}

// here reports whether a name leads to an id, for everybody; 0 is nothing. The caller holds mu.
func (e *echoFS) here(cancel <-chan struct{}, h gofuse.InHeader, parent uint64, name string, id uint64) bool {
	var out gofuse.EntryOut
	h.NodeId = parent
	switch e.RawFileSystem.Lookup(cancel, &h, name, &out) {
	case gofuse.OK:
	case gofuse.ENOENT:
		return id == 0
	default:
		return false
	}
	if out.NodeId != 0 {
		e.RawFileSystem.Forget(out.NodeId, 1)
	}
	return out.NodeId == id
}

func (e *echoFS) make(r *echoRun, cancel <-chan struct{}, h *gofuse.InHeader, name string, kind uint32, out *gofuse.EntryOut) gofuse.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.arrive(r, cancel, h, name, kind, out)
}

func (e *echoFS) Mkdir(cancel <-chan struct{}, in *gofuse.MkdirIn, name string, out *gofuse.EntryOut) gofuse.Status {
	if r := e.helper(&in.InHeader); r != nil {
		return e.make(r, cancel, &in.InHeader, name, syscall.S_IFDIR, out)
	}
	return e.RawFileSystem.Mkdir(cancel, in, name, out)
}

func (e *echoFS) Mknod(cancel <-chan struct{}, in *gofuse.MknodIn, name string, out *gofuse.EntryOut) gofuse.Status {
	if r := e.helper(&in.InHeader); r != nil {
		return e.make(r, cancel, &in.InHeader, name, in.Mode&syscall.S_IFMT, out)
	}
	return e.RawFileSystem.Mknod(cancel, in, name, out)
}

func (e *echoFS) Symlink(cancel <-chan struct{}, h *gofuse.InHeader, target, name string, out *gofuse.EntryOut) gofuse.Status {
	if r := e.helper(h); r != nil {
		return e.make(r, cancel, h, name, syscall.S_IFLNK, out)
	}
	return e.RawFileSystem.Symlink(cancel, h, target, name, out)
}

func (e *echoFS) Create(cancel <-chan struct{}, in *gofuse.CreateIn, name string, out *gofuse.CreateOut) gofuse.Status {
	if r := e.helper(&in.InHeader); r != nil {
		st := e.make(r, cancel, &in.InHeader, name, syscall.S_IFREG, &out.EntryOut)
		echoOpened(&out.OpenOut)
		return st
	}
	return e.RawFileSystem.Create(cancel, in, name, out)
}

// echoOpened keeps the kernel's pages out of the cache of what was told to have changed, and FLUSH away.
func echoOpened(out *gofuse.OpenOut) {
	out.Fh, out.OpenFlags = echoFile, gofuse.FOPEN_NOFLUSH
}

// Open lets the helper open what it tells of for writing. Reading would need bytes.
func (e *echoFS) Open(cancel <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	if e.helper(&in.InHeader) == nil {
		return e.RawFileSystem.Open(cancel, in, out)
	}
	if in.Flags&syscall.O_ACCMODE != syscall.O_WRONLY || in.Flags&syscall.O_TRUNC != 0 {
		return gofuse.EROFS
	}
	echoOpened(out)
	return gofuse.OK
}

func (e *echoFS) Flush(cancel <-chan struct{}, in *gofuse.FlushIn) gofuse.Status {
	if in.Fh == echoFile { // of kernels that do not know NOFLUSH
		return gofuse.OK
	}
	return e.RawFileSystem.Flush(cancel, in)
}

// Release comes without a thread id.
func (e *echoFS) Release(cancel <-chan struct{}, in *gofuse.ReleaseIn) {
	if in.Fh != echoFile {
		e.RawFileSystem.Release(cancel, in)
	}
}

// SetAttr changes nothing and answers what is.
func (e *echoFS) SetAttr(cancel <-chan struct{}, in *gofuse.SetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	if e.helper(&in.InHeader) != nil {
		return e.RawFileSystem.GetAttr(cancel, &gofuse.GetAttrIn{InHeader: in.InHeader}, out)
	}
	return e.RawFileSystem.SetAttr(cancel, in, out)
}

// GetAttr of a helper never is about a handle that there is.
func (e *echoFS) GetAttr(cancel <-chan struct{}, in *gofuse.GetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	if r := e.helper(&in.InHeader); r != nil {
		r.mu.Lock()
		r.seen = in.NodeId
		r.mu.Unlock()
		return e.RawFileSystem.GetAttr(cancel, &gofuse.GetAttrIn{InHeader: in.InHeader}, out)
	}
	return e.RawFileSystem.GetAttr(cancel, in, out)
}

func (e *echoFS) Unlink(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	if r := e.helper(h); r != nil {
		return e.depart(r, cancel, h, name, false)
	}
	if st := e.suspects.check(h.NodeId, name); st != gofuse.OK {
		return st
	}
	return e.RawFileSystem.Unlink(cancel, h, name)
}

func (e *echoFS) Rmdir(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	if r := e.helper(h); r != nil {
		return e.depart(r, cancel, h, name, true)
	}
	if st := e.suspects.check(h.NodeId, name); st != gofuse.OK {
		return st
	}
	return e.RawFileSystem.Rmdir(cancel, h, name)
}

// depart answers the removal of a name that does not lead to this any more. If somebody has made the name anew, the
// kernel has that in its place by now, and must keep it: above all a directory, which would be dead in that kernel for good.
func (e *echoFS) depart(r *echoRun, cancel <-chan struct{}, h *gofuse.InHeader, name string, dir bool) gofuse.Status {
	if strings.HasPrefix(name, echoProbe) {
		return gofuse.Status(echoKnown)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slot(h.NodeId, name)
	switch {
	case s == nil || s.cur.ID == 0 || s.cur.ID != s.old.ID || s.old.ID == s.new.ID || (s.old.Type == syscall.S_IFDIR) != dir:
		return gofuse.EROFS
	case s.new.ID == 0 && !e.here(cancel, *h, h.NodeId, name, 0), dir && r.seen != r.id(s.old.ID):
		return gofuse.ENOENT // makes the kernel look again
	}
	s.cur = fs.EntryRef{}
	return gofuse.OK
}

func (e *echoFS) Rename(cancel <-chan struct{}, in *gofuse.RenameIn, from, to string) gofuse.Status {
	r := e.helper(&in.InHeader)
	if r == nil {
		if st := max(e.suspects.check(in.NodeId, from), e.suspects.check(in.Newdir, to)); st != gofuse.OK {
			return st
		}
		return e.RawFileSystem.Rename(cancel, in, from, to)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a, b := r.slot(in.NodeId, from), r.slot(in.Newdir, to)
	exchange := in.Flags&fs.RenameExchange != 0
	switch {
	case a == nil || b == nil || a == b || a.cur.ID == 0 || exchange != (b.cur.ID != 0):
		return gofuse.EROFS
	case b.new.ID != a.cur.ID:
		return gofuse.EROFS
	case !e.here(cancel, in.InHeader, in.Newdir, to, r.id(b.new.ID)),
		!e.here(cancel, in.InHeader, in.NodeId, from, r.id(a.new.ID)):
		return gofuse.Status(syscall.ESTALE) // somebody was faster
	}
	a.cur, b.cur = b.cur, a.cur
	return gofuse.OK
}

func (e *echoFS) Link(cancel <-chan struct{}, in *gofuse.LinkIn, name string, out *gofuse.EntryOut) gofuse.Status {
	if e.helper(&in.InHeader) != nil {
		return gofuse.EROFS
	}
	return e.RawFileSystem.Link(cancel, in, name, out)
}

func (e *echoFS) Tmpfile(cancel <-chan struct{}, in *gofuse.CreateIn, out *gofuse.CreateOut) gofuse.Status {
	if e.helper(&in.InHeader) != nil {
		return gofuse.EROFS
	}
	return e.RawFileSystem.Tmpfile(cancel, in, out)
}

func (e *echoFS) SetXAttr(cancel <-chan struct{}, in *gofuse.SetXAttrIn, name string, data []byte) gofuse.Status {
	if e.helper(&in.InHeader) != nil {
		return gofuse.EROFS
	}
	return e.RawFileSystem.SetXAttr(cancel, in, name, data)
}

func (e *echoFS) RemoveXAttr(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	if e.helper(h) != nil {
		return gofuse.EROFS
	}
	return e.RawFileSystem.RemoveXAttr(cancel, h, name)
}
