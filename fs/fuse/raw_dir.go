package fuse

import (
	"sync"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
)

// dirHandle is an open directory.
type dirHandle struct {
	mu  sync.Mutex // two readers of one descriptor take turns
	dir *fs.Dir
}

func (r *rawFS) OpenDir(cancel <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	c := r.call(cancel, &in.InHeader)
	defer r.done(c)
	d, err := r.fs.OpenDir(&c.Call, inode(in.NodeId))
	if err != nil {
		return status(err)
	}
	out.Fh = r.dirs.add(&dirHandle{dir: d})
	r.room.held(1)
	// The kernel keeps the listing until it changes the directory itself (it counts its own changes, and compares at the
	// start of every pass) or is told that somebody else did: entry and inode notifications both drop it.
	out.OpenFlags |= gofuse.FOPEN_CACHE_DIR | gofuse.FOPEN_KEEP_CACHE
	if r.mount != 0 {
		r.fs.OpenedDir(&c.Call, d, r.mount, out.Fh, out.OpenFlags)
	}
	return gofuse.OK
}

// lock takes the handle for c, giving the reader's role away first if another READDIR has it.
func (d *dirHandle) lock(c *caller) {
	if !d.mu.TryLock() {
		c.yield()
		d.mu.Lock()
	}
}

func (r *rawFS) ReadDir(cancel <-chan struct{}, in *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	d := r.listing(in.Fh, &in.InHeader)
	if d == nil {
		return ebadf
	}
	c := r.call(cancel, &in.InHeader)
	defer r.done(c)
	d.lock(c)
	defer d.mu.Unlock()
	return status(d.dir.Read(&c.Call, in.Offset, func(e fs.DirEntry) bool { return out.AddDirEntry(dirEntry(&e, r.base)) }))
}

// ReadDirPlus adds attributes, so that the kernel need not look every name up. An entry that does not fit any more is
// not counted as looked up; "." and ".." never are.
func (r *rawFS) ReadDirPlus(cancel <-chan struct{}, in *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	d := r.listing(in.Fh, &in.InHeader)
	if d == nil {
		return ebadf
	}
	c := r.call(cancel, &in.InHeader)
	defer r.done(c)
	d.lock(c)
	defer d.mu.Unlock()
	var later []limited
	err := d.dir.ReadPlus(&c.Call, in.Offset, func(e fs.DirEntry, a *fs.Attr) bool {
		entry := out.AddDirLookupEntry(dirEntry(&e, r.base))
		switch {
		case entry == nil:
			return false
		case a == nil:
		case r.limit != nil: // asks another tree, so not under the lock of this one
			later = append(later, limited{entry, *a})
		default:
			r.fillEntry(entry, a)
		}
		return true
	})
	for i := range later {
		r.limit(&c.Call, &later[i].attr)
		r.fillEntry(later[i].entry, &later[i].attr)
	}
	return status(err)
}

// limited is an entry in a reply whose attributes are not in it yet.
type limited struct {
	entry *gofuse.EntryOut
	attr  fs.Attr
}

func dirEntry(e *fs.DirEntry, base uint64) gofuse.DirEntry {
	return gofuse.DirEntry{Mode: e.Type, Name: e.Name, Ino: base | nodeID(e.Ino), Off: e.Cookie}
}

func (r *rawFS) ReleaseDir(in *gofuse.ReleaseIn) {
	if d := r.dirs.remove(in.Fh); d != nil {
		d.dir.Close()
		r.room.held(-1)
	}
}

func (r *rawFS) FsyncDir(cancel <-chan struct{}, in *gofuse.FsyncIn) gofuse.Status {
	c := r.call(cancel, &in.InHeader)
	err := r.fs.SyncDir(&c.Call, inode(in.NodeId))
	r.done(c)
	return status(err)
}
