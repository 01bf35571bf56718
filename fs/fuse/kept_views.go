package fuse

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
)

// Which view is which tree is in the memory that outlives the process, too: a kernel comes back with the node ids that it
// has. After a restart a tree is entered anew by what is written there (fs.Entrance.Again), under its number.
//
// What the kernel knows of such a tree was counted by a process that is no more. So it stays open until it is vacated, or
// the mount ends.

// Records follow each other: view:4 length:2 text. They count up to a number that is stored after them. When there is no
// room left, those that matter are written into the other half, which then counts.
const (
	keptViewsHalf = 256 << 10
	viewRecord    = 6
)

type keptViews struct {
	half atomic.Uint64 // that counts: 0 or 1
	used [2]atomic.Uint64
}

func (k *Kept) viewsHalf(i uint64) []byte {
	return k.mem[keptViewsAt+int(i)*keptViewsHalf:][:keptViewsHalf]
}

// Views are the trees beside what was mounted: what their Entrance said for Again, by number.
func (k *Kept) Views() map[uint64]string {
	list := map[uint64]string{}
	t := &k.head().views
	i := t.half.Load() & 1
	for b := k.viewsHalf(i)[:min(t.used[i].Load(), keptViewsHalf)]; len(b) >= viewRecord; {
		n := viewRecord + int(binary.LittleEndian.Uint16(b[4:]))
		if n > len(b) {
			break
		}
		list[uint64(binary.LittleEndian.Uint32(b))] = string(b[viewRecord:n])
		b = b[n:]
	}
	return list
}

// noteView writes what a view is. all is what matters if there is no room left. One call at a time.
func (k *Kept) noteView(view uint64, what string, all func() map[uint64]string) {
	t := &k.head().views
	i := t.half.Load()
	if !t.put(i, k.viewsHalf(i), view, what) {
		i = 1 - i
		t.used[i].Store(0)
		for n, w := range all() {
			t.put(i, k.viewsHalf(i), n, w)
		}
		t.put(i, k.viewsHalf(i), view, what) // if it does not fit, that tree ends with this process
		t.half.Store(i)
	}
}

func (t *keptViews) put(i uint64, half []byte, view uint64, what string) bool {
	b := half[t.used[i].Load():]
	n := viewRecord + len(what)
	if n > len(b) {
		return false
	}
	binary.LittleEndian.PutUint32(b, uint32(view))
	binary.LittleEndian.PutUint16(b[4:], uint16(len(what)))
	copy(b[viewRecord:], what)
	t.used[i].Add(uint64(n))
	return true
}

// left are the trees that a process before this one has shown, and this one not yet.
type left struct {
	views   map[uint64]string // by number
	numbers map[string]uint64
}

func (v *views) takeLeft(k *Kept) {
	v.kept = k
	v.noted = map[uint64]string{}
	if k.Init == nil {
		return
	}
	v.noted = k.Views()
	v.left.views, v.left.numbers = map[uint64]string{}, map[string]uint64{}
	for n, what := range v.noted {
		v.left.views[n], v.left.numbers[what] = what, n
		for v.next <= n && v.next < lastRoom {
			v.advance()
		}
	}
}

// note writes which tree a view is. v.mu is held.
func (v *views) note(n uint64, in *fs.Entrance) {
	if v.kept == nil || in.Again == "" || len(in.Again) > 1<<15 || v.noted[n] == in.Again {
		return
	}
	v.noted[n] = in.Again
	v.kept.noteView(n, in.Again, func() map[uint64]string {
		v.noted = map[uint64]string{}
		for n, what := range v.left.views {
			v.noted[n] = what
		}
		for n, rm := range v.rooms {
			if rm.in.Again != "" {
				v.noted[n] = rm.in.Again
			}
		}
		return v.noted
	})
}

// comeBack is room for a tree that the kernel knows from before this process.
func (v *views) comeBack(id uint64) *room {
	n := id >> viewShift &^ 1
	v.mu.RLock()
	what, ok := v.left.views[n]
	v.mu.RUnlock()
	if !ok || v.opts.Again == nil {
		return v.room(id) // somebody was faster, perhaps
	}
	in, err := v.opts.Again(what)
	v.mu.Lock()
	defer v.mu.Unlock()
	rm := v.rooms[n]
	if rm == nil && err == nil {
		delete(v.left.views, n)
		rm = &room{v: v, n: n, in: in, back: true}
		rm.refs.Store(1)
		rm.used.Store(usedBefore)
		v.rooms[n], v.byKey[in.Key], v.numbers[in.Key] = rm, rm, n
	}
	if rm != nil {
		rm.enter()
	}
	return rm
}

// usedBefore stands for what the kernel knows from before this process, which nobody has counted here.
const usedBefore = 1 << 40

// resume opens trees that have something to go on with, before the first request.
func (v *views) resume(open []uint64) {
	for _, n := range open {
		rm := v.comeBack(n << viewShift)
		if rm == nil {
			continue
		}
		if _, _, err := rm.open(nil, func() {}); err != nil {
			v.opts.Log.Error("fuse: a tree of the process before cannot go on", "path", rm.in.Path, "err", err)
		}
		rm.leave()
	}
}

// redo answers a request that was done by a process before this one, by the tree that it is about.
func (v *views) redo(q *request, done *fs.Receipt) gofuse.Status {
	if q.h.NodeId < viewSize {
		if r, ok := v.home.(*rawFS); ok {
			return r.redo(q, done)
		}
		return gofuse.EIO
	}
	return v.with(q.cancel, q.h, func(raw gofuse.RawFileSystem) gofuse.Status {
		if r, ok := raw.(*rawFS); ok {
			return r.redo(q, done)
		}
		return gofuse.EIO
	})
}

// again says that handles which are not known were opened before this process, and can be opened again by what they are
// of: nothing of what is in the tree changes. New ones get numbers that none of those has.
func (r *rawFS) again(k *Kept) {
	if k != nil && k.Starts > 0 && r.fs.IsPast() {
		first := uint64(k.Starts) << 32
		r.files.first, r.dirs.first = first, first
	}
}

// file is the handle that a request is about.
func (r *rawFS) file(fh uint64, header *gofuse.InHeader) *fs.Handle {
	h := r.files.get(fh)
	if h != nil || !r.files.before(fh) {
		return h
	}
	c := r.call(nil, header)
	defer r.done(c)
	h, err := r.fs.Open(&c.Call, inode(header.NodeId), syscall.O_RDONLY)
	if err != nil {
		return nil
	}
	have, first := r.files.bring(fh, h)
	if !first {
		h.Release(nil, 0)
		return have
	}
	r.room.held(1)
	return h
}

// listing is the listing that a request is about. That of a directory that does not change has the same places again.
func (r *rawFS) listing(fh uint64, header *gofuse.InHeader) *dirHandle {
	d := r.dirs.get(fh)
	if d != nil || !r.dirs.before(fh) {
		return d
	}
	c := r.call(nil, header)
	defer r.done(c)
	dir, err := r.fs.OpenDir(&c.Call, inode(header.NodeId))
	if err != nil {
		return nil
	}
	have, first := r.dirs.bring(fh, &dirHandle{dir: dir})
	if !first {
		dir.Close()
		return have
	}
	r.room.held(1)
	return have
}

// again: see rawFS. What is read of a generated file is made anew, as if it had been opened now.
func (r *rawControl) again(k *Kept) {
	if k != nil && k.Starts > 0 {
		first := uint64(k.Starts) << 32
		r.files.first, r.dirs.first = first, first
	}
}

// file is the open file that a read is about. A write never gets one back: what it asks for may be done already.
func (r *rawControl) file(c *caller, fh, node uint64) *generated {
	g := r.files.get(fh)
	if g != nil || !r.files.before(fh) {
		return g
	}
	made, err := r.ctl.Open(&c.Call, r.id(node), syscall.O_RDONLY)
	if err != nil {
		return nil
	}
	g, first := r.files.bring(fh, &generated{made})
	if !first {
		made.Close()
		return g
	}
	r.held(1)
	return g
}

// listing is the names that a request is about.
func (r *rawControl) listing(c *caller, fh, node uint64) *[]fs.DirEntry {
	list := r.dirs.get(fh)
	if list != nil || !r.dirs.before(fh) {
		return list
	}
	made, err := r.names(c, node)
	if err != nil {
		return nil
	}
	list, first := r.dirs.bring(fh, &made)
	if first {
		r.held(1)
	}
	return list
}

// names are the names of a directory with their places.
func (r *rawControl) names(c *caller, node uint64) ([]fs.DirEntry, error) {
	id := r.id(node)
	names, err := r.ctl.ReadDir(&c.Call, id)
	if err != nil {
		return nil, err
	}
	list := slices.Concat([]fs.DirEntry{
		{Name: ".", Ino: store.Ino(id), Type: syscall.S_IFDIR}, {Name: "..", Ino: store.RootIno, Type: syscall.S_IFDIR},
	}, names)
	for i := range list {
		list[i].Cookie = uint64(i) + 1
	}
	return list, nil
}
