package fs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/store"
)

// Restored is a handle or a listing that a process before this one had open.
type Restored struct {
	Fh     uint64
	Handle *Handle
	Dir    *Dir
}

// restoring is what a workspace goes on with.
type restoring struct {
	f       *FS
	st      *ledgerState
	who     map[uint64]store.Attribution
	handles map[handleKey]*Handle
	lost    int
}

// goOn brings back what the ledger says. Nobody else uses f yet.
func (f *FS) goOn() error {
	l := f.ledger
	if l == nil || f.opts.Starts == 0 {
		return nil
	}
	st, err := readNotes(l.notes())
	if err != nil {
		return err
	}
	f.recovered.seq, f.recovered.end = f.seq, l.End()
	not := st.made(f.seq)
	r := &restoring{f: f, st: st, who: map[uint64]store.Attribution{}, handles: map[handleKey]*Handle{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range st.sorted() {
		if err := r.file(id, st.files[id]); err != nil {
			r.lost++
			f.log.Error("a file that was open cannot go on", "inode", id, "error", err)
		}
	}
	f.restored = map[uint64][]Restored{}
	for k, h := range st.handles {
		if err := r.handle(k, h); err != nil {
			r.lost++
			f.log.Error("an open file cannot go on: its users get EBADF", "inode", h.id, "error", err)
		}
	}
	for id, nf := range st.files { // the handle is known only now
		if n := f.known(id); n != nil && n.file != nil {
			n.file.by = r.handles[nf.by]
		}
	}
	t, lost := st.table(func(k handleKey) *Handle { return r.handles[k] }, false)
	f.locks.inodes, f.locks.waiting = t.inodes, t.waiting
	l.mu.Lock()
	l.off, l.handles, l.nextWho = int64(len(l.notes())), len(st.handles), st.nextWho
	l.limit = min(max(l.limit, 2*l.off), ledgerHalf)
	for n, w := range r.who {
		l.who[w] = n
	}
	l.mu.Unlock()
	for _, k := range not {
		l.apart(k, nil, 0)
	}
	f.log.Info("went on with what was open", "files", len(st.files), "handles", len(st.handles), "locks", len(t.inodes),
		"lost", r.lost+lost)
	return nil
}

func (r *restoring) attribution(n uint64) store.Attribution {
	w, ok := r.who[n]
	if !ok && n != 0 {
		var err error
		if w, err = store.DecodeAttribution(r.st.who[n]); err != nil {
			r.f.log.Warn("who had a file open is not known any more", "error", err)
		}
		r.who[n] = w
	}
	return w
}

// file brings back an inode and what was written to it. f.mu is held, as by all that follow.
func (r *restoring) file(id store.Ino, nf *notedFile) error {
	f := r.f
	n, err := r.node(id, nf)
	if err != nil || n == nil || !nf.edited && !n.fresh {
		return err
	}
	fl := n.content()
	if nf.edited {
		if err := r.content(fl, nf); err != nil {
			return err
		}
		n.v.Size, n.v.Holes = fl.size, fl.holes()
		if n.v.Ctime < nf.at {
			n.v.Mtime, n.v.Ctime = nf.at, nf.at
		}
	}
	fl.who, fl.restored, n.kept = r.attribution(nf.who), true, true
	if n.gone && !n.fresh || n.dirtySince != 0 {
		return nil
	}
	n.dirtySince = max(nf.at, 1)
	if !n.gone {
		f.dirty[n] = struct{}{}
	}
	return nil
}

// node is the inode: as the database has it, or as the ledger has.
func (r *restoring) node(id store.Ino, nf *notedFile) (*node, error) {
	f := r.f
	if id >= firstAlias || r.st.stale[id] {
		return nil, syscall.ESTALE
	}
	n, err := f.inode(nil, id)
	var noted *node
	if nf.node != nil {
		var nerr error
		if noted, nerr = decodeNode(nf); nerr != nil {
			return nil, nerr
		}
	}
	switch {
	case err == nil:
		if noted != nil && !noted.fresh && noted.v.Ctime >= n.v.Ctime { // attributes that no version has
			n.v.Mode, n.v.UID, n.v.GID, n.v.Xattrs = noted.v.Mode, noted.v.UID, noted.v.GID, noted.v.Xattrs
			n.v.Mtime, n.v.Ctime, n.v.Atime = noted.v.Mtime, noted.v.Ctime, noted.v.Atime
		}
		return n, nil
	case !errors.Is(err, syscall.ENOENT):
		return nil, err
	case noted == nil:
		return nil, fmt.Errorf("neither the database nor the ledger has it: %w", err)
	}
	n = noted
	n.lookups, n.dirtySince = 1, max(n.v.Ctime, 1)
	if n.fresh && !n.gone {
		p, err := f.directory(nil, n.parent)
		if err != nil || p.gone || p.dir.get(n.name) != nil {
			n.gone, n.v.Nlink = true, 0 // its name is another's: that was acknowledged later
		} else {
			p.dir.set(n.name, n.ino, syscall.S_IFREG)
			p.dir.fresh++
			p.v.Mtime, p.v.Ctime = max(p.v.Mtime, n.v.Ctime), max(p.v.Ctime, n.v.Ctime)
			f.dirTimes[p] = struct{}{}
			f.dirty[n] = struct{}{}
		}
	}
	f.adopt(n)
	return n, nil
}

func decodeNode(nf *notedFile) (*node, error) {
	r := &noteReader{b: nf.node}
	v := store.Version{Ino: store.Ino(r.u())}
	parent, name, replaced := store.Ino(r.u()), r.text(), store.VersionID(r.u())
	v.ID = store.VersionID(r.u())
	for _, x := range []*uint32{&v.Mode, &v.UID, &v.GID, &v.Nlink, &v.Rdev} {
		*x = uint32(r.u())
	}
	for _, x := range []*int64{&v.Mtime, &v.Ctime, &v.Atime} {
		*x = r.i()
	}
	copy(v.Content[:], r.raw(int64(len(v.Content))))
	v.Size, v.Holes = r.i(), r.i()
	for range r.u() {
		if v.Xattrs == nil {
			v.Xattrs = map[string][]byte{}
		}
		k := r.text()
		v.Xattrs[k] = []byte(r.text())
		if r.bad {
			break
		}
	}
	if r.bad {
		return nil, errNote
	}
	n := newNode(v)
	n.parent, n.name, n.replaced = parent, name, replaced
	n.fresh, n.gone = nf.flags&nodeFresh != 0, nf.flags&nodeGone != 0
	return n, nil
}

// content brings back what was written over the last version.
func (r *restoring) content(fl *file, nf *notedFile) error {
	f := r.f
	fl.size, fl.limit = nf.size, min(nf.limit, fl.base.Size)
	fl.changed, fl.written = nf.dirt&editDirt != 0, nf.dirt&editWrote != 0
	if nf.spill != "" {
		fd, err := unix.Open(filepath.Join(f.scratch, nf.spill), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return fmt.Errorf("open its scratch file %s: %w", nf.spill, err)
		}
		fl.spill, fl.scratch = os.NewFile(uintptr(fd), "scratch"), nf.spill
		fl.valid, fl.validBytes = nf.valid, nf.valid.total()
		return nil
	}
	if fl.size > memMax || len(nf.valid) == 0 && fl.size > 0 {
		return nil // only its size is another
	}
	mem := make([]byte, fl.size, max(fl.size, 4096))
	if err := fl.readBase(f, nil, mem, 0); err != nil && fl.size > 0 {
		return err
	}
	for _, e := range nf.valid {
		nf.grow(end(e))
		copy(mem[e.Off:min(end(e), fl.size)], nf.mem[e.Off:])
	}
	fl.mem, fl.inMem, fl.valid, fl.validBytes = mem, true, nf.valid, nf.valid.total()
	return nil
}

// handle opens again what was open.
func (r *restoring) handle(k handleKey, nh *notedHandle) error {
	f := r.f
	if r.st.stale[nh.id] {
		return syscall.ESTALE
	}
	if k.dir {
		n, err := f.directory(nil, nh.id)
		if err != nil {
			return err
		}
		d := f.listing(n)
		d.key, d.base, d.ended = k, resumedCookie, nh.ended
		d.seen = make(map[uint64]struct{}, len(nh.seen)/8)
		for b := nh.seen; len(b) >= 8; b = b[8:] {
			d.seen[leUint64(b)] = struct{}{}
		}
		f.restored[k.mount] = append(f.restored[k.mount], Restored{Fh: k.fh, Dir: d})
		return nil
	}
	n, err := f.node(nil, nh.id)
	if err != nil {
		return err
	}
	h := f.newHandle(nil, n, nh.open, r.attribution(nh.who))
	h.mount, h.fh = k.mount, k.fh
	if nh.flags&handlePast != 0 {
		h.past = true
		n.past++
		n.mixed = true
	}
	if h.file != nil && nh.apart != nil {
		h.apart = nh.apart
		if s := h.who.Session; s != nil {
			if at := f.tracks.files[n.ino].of(s.ID); at != nil { // as a merged save has it; no version has that content
				at.content, at.saved = *nh.apart, false
			}
		}
	}
	r.handles[k] = h
	f.restored[k.mount] = append(f.restored[k.mount], Restored{Fh: k.fh, Handle: h})
	return nil
}

// Restored gives a mount what it had open, once.
func (f *FS) Restored(mount uint64) []Restored {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.restored[mount]
	delete(f.restored, mount)
	return list
}

// Dismiss ends what mounts had open that do not come back.
func (f *FS) Dismiss() {
	f.mu.Lock()
	left := f.restored
	f.restored = nil
	f.mu.Unlock()
	for _, list := range left {
		for _, r := range list {
			if r.Dir != nil {
				r.Dir.Close()
			} else {
				r.Handle.Release(nil, 0)
			}
		}
	}
}

// WasDone reports whether a request of a process before this one was done, by its receipt.
func (f *FS) WasDone(r *Receipt) bool { return r.done(f.recovered.seq, f.recovered.end) }

// scratchName is a new name for a scratch file of this workspace.
func (f *FS) scratchName() string {
	return scratchPrefix(f.ws.ID) + strconv.FormatUint(f.spills.Add(1), 36) + "." + strconv.FormatInt(f.now().UnixNano(), 36)
}

func scratchPrefix(ws store.WorkspaceID) string { return "ws" + strconv.FormatInt(int64(ws), 10) + "-" }

// clearScratch removes scratch files of this workspace that nothing refers to: of a process that was killed together with
// whoever held its ledger.
func (f *FS) clearScratch() {
	used := map[string]bool{}
	for _, n := range f.nodes {
		if n.file != nil {
			used[n.file.scratch] = true
		}
	}
	list, err := os.ReadDir(f.scratch)
	if err != nil {
		return
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), scratchPrefix(f.ws.ID)) && !used[e.Name()] {
			_ = os.Remove(filepath.Join(f.scratch, e.Name())) // else it takes room until the next start
		}
	}
}
