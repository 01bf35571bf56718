package fuse

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
)

// views serves a mount that shows more than one tree. View 0 is what was mounted: a workspace, or a generated directory
// that leads into workspaces; view 1 is its .wsfs tree. Every other tree has an even view, and the odd one after it is the
// .wsfs tree of that. A request goes to the view in its node id; one compare sends those of view 0 on (views_raw.go).
type views struct {
	gofuse.RawFileSystem // of the library, only for what the kernel never sends here

	home  gofuse.RawFileSystem // serves view 0
	ctl   *rawControl          // serves view 1; nil if there is none
	opts  *Options
	mount *Mount
	quit  chan struct{} // closed at the end of the mount
	over  sync.Once

	moving sync.Mutex // held while the kernel is told of a move in another tree than that of view 0

	mu      sync.RWMutex
	rooms   map[uint64]*room // guarded by mu; by even view
	byKey   map[any]*room    // guarded by mu
	numbers map[any]uint64   // guarded by mu; a tree that is entered again has the view that it had
	next    uint64           // guarded by mu; view to give next
	closed  bool             // guarded by mu

	kept  *Kept             // nil: the trees end with this process
	left  left              // guarded by mu
	noted map[uint64]string // guarded by mu; what kept has

	sweeps  atomic.Bool    // somebody looks after the rooms; written under mu
	sweeper sync.WaitGroup // whoever does
}

const (
	firstRoom = 2
	lastRoom  = 1<<(64-viewShift) - 2
	// maxNumbers is how many trees that nobody is in keep their view; beyond, they get another next time.
	maxNumbers = 1 << 16
	// sweepEvery is how often somebody looks whether a tree can be closed, while any is known.
	sweepEvery = time.Second
)

func newViews(home gofuse.RawFileSystem, o *Options) *views {
	return &views{
		RawFileSystem: gofuse.NewDefaultRawFileSystem(), home: home, opts: o, quit: make(chan struct{}),
		rooms: map[uint64]*room{}, byKey: map[any]*room{}, numbers: map[any]uint64{}, next: firstRoom,
	}
}

// bind connects v and what it serves with its mount, before the first request.
func (v *views) bind(m *Mount, more ...*rawControl) {
	v.mount, m.views = m, v
	for _, r := range append(more, v.ctl) {
		if r != nil {
			r.host.transport = m.transport
		}
	}
}

func (v *views) String() string { return subtype }

// enter answers a LOOKUP whose name leads into another tree.
func (v *views) enter(c *fs.Call, in *fs.Entrance, valid time.Duration, out *gofuse.EntryOut) error {
	a, err := in.Attr(c)
	if err != nil {
		return err
	}
	rm := v.roomOf(in)
	a.ID, a.Ino = store.RootIno, store.RootIno
	out.NodeId, out.Generation = rm.base()|uint64(store.RootIno), a.Generation
	out.SetEntryTimeout(valid)
	out.SetAttrTimeout(looseTimeout)
	fillAttr(&out.Attr, &a, rm.base())
	return nil
}

// roomOf is the room of a tree, with one more reference to its root.
func (v *views) roomOf(in *fs.Entrance) *room {
	v.mu.Lock()
	defer v.mu.Unlock()
	rm := v.byKey[in.Key]
	if rm == nil {
		rm = &room{v: v, n: v.number(in), in: in}
		rm.touch()
		v.rooms[rm.n], v.byKey[in.Key] = rm, rm
	}
	rm.refs.Add(1)
	return rm
}

// number is the view of a tree: the one it had, or a new one. v.mu is held.
func (v *views) number(in *fs.Entrance) uint64 {
	n := v.numberOf(in)
	v.note(n, in)
	return n
}

func (v *views) numberOf(in *fs.Entrance) uint64 {
	key := in.Key
	if n, ok := v.numbers[key]; ok && v.rooms[n] == nil {
		return n
	}
	if n, ok := v.left.numbers[in.Again]; ok && v.rooms[n] == nil {
		v.numbers[key] = n
		return n
	}
	if len(v.numbers) >= maxNumbers {
		clear(v.numbers)
	}
	for v.rooms[v.next] != nil || v.left.views[v.next] != "" {
		v.advance()
	}
	n := v.next
	v.advance()
	v.numbers[key] = n
	return n
}

func (v *views) advance() {
	if v.next += 2; v.next > lastRoom {
		v.next = firstRoom
	}
}

// room finds the room of a node and keeps it from being closed until leave.
func (v *views) room(id uint64) *room {
	v.mu.RLock()
	defer v.mu.RUnlock()
	rm := v.rooms[id>>viewShift&^1]
	if rm != nil {
		rm.enter()
	}
	return rm
}

// referred counts a reference to a node that only its file system has counted.
func (v *views) referred(id uint64) {
	if rm := v.room(id); rm != nil {
		rm.used.Add(1)
		rm.leave()
	}
}

// at is who serves a node of another view than 0, with its tree open; nil and an errno if nobody does. The room is nil
// for view 1; else the caller leaves it afterwards.
func (v *views) at(cancel <-chan struct{}, h *gofuse.InHeader) (gofuse.RawFileSystem, *room, gofuse.Status) {
	if h.NodeId>>viewShift == 1 && v.ctl != nil {
		return v.ctl, nil, gofuse.OK
	}
	rm := v.room(h.NodeId)
	if rm == nil && v.kept != nil {
		v.mount.transport.yield(h)
		rm = v.comeBack(h.NodeId)
	}
	if rm == nil {
		return nil, nil, estale
	}
	rm.touch()
	tree, ctl, err := rm.open(cancel, func() { v.mount.transport.yield(h) })
	if !v.sweeps.Load() {
		v.wake()
	}
	switch {
	case err != nil:
		rm.leave()
		return nil, nil, status(err)
	case h.NodeId>>viewShift&1 == 0:
		return tree, rm, gofuse.OK
	case ctl != nil:
		return ctl, rm, gofuse.OK
	}
	rm.leave()
	return nil, nil, estale
}

// wake starts looking after the rooms: one is open, or the kernel has forgotten one.
func (v *views) wake() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed && !v.sweeps.Swap(true) {
		v.sweeper.Add(1)
		go v.sweep()
	}
}

// sweep closes trees that nobody is in and forgets rooms that the kernel has forgotten, until no tree is open: a mount
// that nobody uses costs no time.
func (v *views) sweep() {
	defer v.sweeper.Done()
	tick := time.NewTicker(v.opts.sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-v.quit:
			return
		case <-tick.C:
		}
		for _, rm := range v.all() {
			rm.tidy(time.Now())
		}
		v.mu.Lock()
		open := 0
		for n, rm := range v.rooms {
			switch {
			case rm.back: // nobody closes it but Vacate
			case !rm.isClosed() || rm.used.Load() != 0:
				open++
			case rm.refs.Load() <= 0:
				delete(v.rooms, n)
				delete(v.byKey, rm.in.Key)
			}
		}
		v.sweeps.Store(open > 0)
		v.mu.Unlock()
		if open == 0 {
			return
		}
	}
}

func (v *views) all() []*room {
	v.mu.RLock()
	defer v.mu.RUnlock()
	list := make([]*room, 0, len(v.rooms))
	for _, rm := range v.rooms {
		list = append(list, rm)
	}
	slices.SortFunc(list, func(a, b *room) int { return int(a.n) - int(b.n) })
	return list
}

// OnUnmount ends what the kernel left open in every tree. The library's server calls it, and whoever ends the mount.
func (v *views) OnUnmount() { v.over.Do(v.end) }

func (v *views) end() {
	close(v.quit)
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.sweeper.Wait()
	for _, rm := range v.all() {
		rm.end()
	}
	if v.ctl != nil {
		v.ctl.OnUnmount()
	}
	v.home.OnUnmount()
}

// observer tells the kernel what changed in the tree of a room.
type observer struct {
	m    *Mount
	base store.Ino
	path string // of the tree, from the root of the mount
	fs   *fs.FS
}

// EntryChanged implements fs.Observer.
func (w *observer) EntryChanged(parent store.Ino, name string) { w.m.EntryChanged(w.base|parent, name) }

// InodeChanged implements fs.Observer.
func (w *observer) InodeChanged(id store.Ino) { w.m.InodeChanged(w.base | id) }

// Foresee implements fs.Observer.
func (w *observer) Foresee() (over func()) { return w.m.Foresee() }

// Moved implements fs.Observer. A mount has one echo at a time.
func (w *observer) Moved(ev *fs.Moved) {
	w.m.views.moving.Lock()
	defer w.m.views.moving.Unlock()
	w.m.moved(movedView{base: uint64(w.base), root: w.path, fs: w.fs}, ev)
}
