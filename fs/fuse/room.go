package fuse

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
)

// looseTimeout is how long the kernel keeps attributes of which it is not told that they changed.
const looseTimeout = time.Second

// room is a tree of a mount beside what was mounted, and its .wsfs tree. It is known for as long as the kernel knows the
// tree's root, and open only while somebody is in it: then the kernel knows nodes beyond the root, or has files open, or
// asks for something.
type room struct {
	v  *views
	n  uint64 // its view
	in *fs.Entrance

	refs    atomic.Int64 // of the kernel to the root
	used    atomic.Int64 // of the kernel to all other nodes, files open, requests under way
	handles atomic.Int64 // files and listings open; counted in used too
	busy    atomic.Int64 // requests under way; counted in used too
	back    bool         // the kernel knows it from before this process: used is not what it has; set once
	last    atomic.Int64 // ns; last request
	asked   atomic.Int64 // ns; last time that the kernel was asked to forget

	isOpen atomic.Bool // tree is not nil; written under mu

	names   sync.Mutex
	missing map[string]struct{} // guarded by names; what the kernel believes not to be at the root

	mu   sync.RWMutex // held while the tree is opened; used is counted up before it is taken
	tree *rawFS       // guarded by mu; nil while closed
	ctl  *rawControl  // guarded by mu
	shut func()       // guarded by mu; closes the tree
}

func (rm *room) base() uint64 { return rm.n << viewShift }

func (rm *room) enter() {
	rm.used.Add(1)
	rm.busy.Add(1)
}

func (rm *room) leave() {
	if rm != nil {
		rm.busy.Add(-1)
		rm.used.Add(-1)
	}
}

// held counts a handle that is opened or closed; nothing for the view 0, which has no room.
func (rm *room) held(n int64) {
	if rm != nil {
		rm.used.Add(n)
		rm.handles.Add(n)
	}
}

// rootAttr answers GETATTR of the root of a tree that is not open.
func (rm *room) rootAttr(cancel <-chan struct{}, in *gofuse.GetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	host := newRaw(nil, rm.v.opts)
	host.transport = rm.v.mount.transport
	c := host.call(cancel, &in.InHeader)
	a, err := rm.in.Attr(&c.Call)
	if err != nil {
		return status(err)
	}
	a.ID, a.Ino = store.RootIno, store.RootIno
	out.SetTimeout(looseTimeout)
	fillAttr(&out.Attr, &a, rm.base())
	return gofuse.OK
}

func (rm *room) touch() { rm.last.Store(time.Now().UnixNano()) }

// isClosed never waits: it is asked under views.mu. While the tree is opened it is closed, and used.
func (rm *room) isClosed() bool { return !rm.isOpen.Load() }

// open returns the tree, opening it if it is not. yield is called before anything that waits.
func (rm *room) open(cancel <-chan struct{}, yield func()) (*rawFS, *rawControl, error) {
	if !rm.mu.TryRLock() {
		yield()
		rm.mu.RLock()
	}
	tree, ctl := rm.tree, rm.ctl
	rm.mu.RUnlock()
	if tree != nil {
		return tree, ctl, nil
	}
	yield()
	rm.mu.Lock()
	defer rm.mu.Unlock()
	if rm.tree != nil {
		return rm.tree, rm.ctl, nil
	}
	ctx, stop := callContext(cancel)
	defer stop()
	t, err := rm.in.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	o := *rm.v.opts
	o.Resolver = t.Who
	if t.Limit != nil {
		o.AttrTimeout = looseTimeout
	}
	r := newRaw(t.FS, &o)
	r.base, r.room, r.limit, r.transport = rm.base(), rm, t.Limit, rm.v.mount.transport
	if t.Control != nil {
		r.control = newRawControl(rm.v, rm, t.Control, rm.base()|viewSize)
	}
	r.origin = t.FS.Observe(&observer{rm.v.mount, store.Ino(rm.base()), rm.in.Path, t.FS})
	if k := rm.v.kept; k != nil {
		r.mount = k.Mount
		r.again(k)
		if r.control != nil {
			r.control.again(k)
		}
		r.reopen()
	}
	rm.tree, rm.ctl = r, r.control
	rm.isOpen.Store(true)
	rm.shut = func() {
		if r.control != nil {
			r.control.OnUnmount()
		}
		r.OnUnmount()
		t.FS.Unobserve(r.origin)
		t.Close()
	}
	return rm.tree, rm.ctl, nil
}

// callContext is a context that ends when the caller was interrupted.
func callContext(cancel <-chan struct{}) (context.Context, func()) {
	ctx, stop := context.WithCancel(context.Background())
	if cancel != nil {
		go func() {
			select {
			case <-cancel:
				stop()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, stop
}

// close closes the tree unless somebody is in it, and reports whether it is closed.
func (rm *room) close() bool { return rm.closeIf(func() bool { return rm.used.Load() == 0 }) }

// closeBack is close for a tree of which nobody knows what the kernel has: what has no handle does not count.
func (rm *room) closeBack() bool {
	return rm.back && rm.closeIf(func() bool { return rm.busy.Load() == 0 && rm.handles.Load() == 0 })
}

func (rm *room) closeIf(empty func() bool) bool {
	rm.mu.Lock()
	if rm.tree == nil {
		rm.mu.Unlock()
		return true
	}
	if !empty() {
		rm.mu.Unlock()
		return false
	}
	shut := rm.shut
	rm.tree, rm.ctl, rm.shut = nil, nil, nil
	rm.isOpen.Store(false)
	rm.mu.Unlock()
	// Soon nobody tells the kernel of changes: what it keeps of the root must not outlast that. Whoever asks from here on
	// opens the tree anew.
	root := store.Ino(rm.base()) | store.RootIno
	rm.v.mount.InodeChanged(root)
	for name := range rm.takeAbsent() {
		rm.v.mount.EntryChanged(root, name)
	}
	shut()
	return true
}

// maxAbsent bounds how many names that are not at the root the kernel may remember.
const maxAbsent = 10_000

// absent notes that the kernel is told that the root has no such name, and reports whether it may remember that.
func (rm *room) absent(name string) bool {
	rm.names.Lock()
	defer rm.names.Unlock()
	if rm.missing == nil {
		rm.missing = map[string]struct{}{}
	}
	if len(rm.missing) >= maxAbsent {
		return false
	}
	rm.missing[name] = struct{}{}
	return true
}

func (rm *room) takeAbsent() map[string]struct{} {
	rm.names.Lock()
	defer rm.names.Unlock()
	names := rm.missing
	rm.missing = nil
	return names
}

// end closes the tree whoever is in it: the mount is over.
func (rm *room) end() {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	if rm.tree != nil {
		rm.shut()
		rm.tree, rm.ctl, rm.shut = nil, nil, nil
		rm.isOpen.Store(false)
	}
}

// tidy closes the tree if nobody has been in it for a while. The kernel keeps nodes that nobody uses for as long as it
// has memory, so it is asked to forget them first.
func (rm *room) tidy(now time.Time) {
	idle := rm.in.Idle.Nanoseconds()
	if rm.back || now.UnixNano()-rm.last.Load() < idle {
		return
	}
	if rm.used.Load() == 0 {
		rm.close()
		return
	}
	if rm.handles.Load() == 0 && now.UnixNano()-rm.asked.Load() > 6*idle {
		rm.asked.Store(now.UnixNano())
		if !rm.inhabited(false) {
			rm.empty()
		}
	}
}

// empty asks the kernel to forget every node but the root that nobody uses. The names at the root go even if somebody
// stands in what they lead to, so the caller asks first whether anybody does.
func (rm *room) empty() {
	rm.used.Add(1)
	defer rm.used.Add(-1)
	rm.mu.RLock()
	tree, ctl := rm.tree, rm.ctl
	rm.mu.RUnlock()
	if tree == nil {
		return
	}
	names := []string{controlName}
	if d, err := tree.fs.OpenDir(nil, store.RootIno); err == nil {
		_ = d.Read(nil, 0, func(e fs.DirEntry) bool { // of what is loaded: it cannot fail
			if e.Name != "." && e.Name != ".." {
				names = append(names, e.Name)
			}
			return true
		})
		d.Close()
	}
	base := store.Ino(rm.base())
	for _, name := range names { // takes most of what is below them along
		rm.v.mount.EntryChanged(base|store.RootIno, name)
	}
	// A directory that was in use when its name was taken keeps what is below it, and can be reached by its id alone.
	if ctl != nil {
		ctl.empty()
	}
	tree.fs.Referred(func(parent store.Ino, name string) { rm.v.mount.EntryChanged(base|parent, name) })
}

// inhabited reports whether a process has its working directory in the tree, if root is set also at its root, or
// something is mounted there. It goes by names; in other mount namespaces the same directory has others.
func (rm *room) inhabited(root bool) bool {
	part := "/" + rm.in.Path + "/"
	whole := rm.v.mount.point + part
	mounted := false
	var own mountEntry
	if f, err := os.Open("/proc/self/mountinfo"); err == nil {
		_ = parseMountinfo(f, func(e mountEntry) bool { // a line that cannot be read says nothing
			mounted = mounted || strings.HasPrefix(e.Point+"/", whole)
			if e.Point == rm.v.mount.point {
				own = e
			}
			return !mounted
		})
		_ = f.Close()
	}
	if mounted {
		return true
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return false
	}
	defer proc.Close()
	pids, _ := proc.Readdirnames(-1) // of a part, if it fails
	ours, _ := os.Readlink("/proc/self/ns/mnt")
	for _, pid := range pids {
		if pid[0] < '0' || pid[0] > '9' {
			continue
		}
		cwd, err := os.Readlink("/proc/" + pid + "/cwd")
		if root {
			cwd += "/"
		}
		if err != nil || !strings.Contains(cwd, part) {
			continue
		}
		if strings.HasPrefix(cwd, whole) {
			return true
		}
		if ns, err := os.Readlink("/proc/" + pid + "/ns/mnt"); err == nil && ns != ours && own.shows(pid, cwd, part) {
			return true
		}
	}
	return false
}

// shows reports whether cwd, which has part in it, can be below part of this mount in the mount namespace of a process:
// many a directory elsewhere has the name of a workspace. What cannot be found out can be.
func (e *mountEntry) shows(pid, cwd, part string) bool {
	f, err := os.Open("/proc/" + pid + "/mountinfo")
	if err != nil || e.Point == "" {
		return true
	}
	defer f.Close()
	found := false
	err = parseMountinfo(f, func(o mountEntry) bool {
		// Contains: what a process that called chroot sees lacks the beginning.
		found = o.Major == e.Major && o.Minor == e.Minor && strings.Contains(cwd, strings.TrimSuffix(o.Point, "/")+part)
		return !found
	})
	return found || err != nil
}

// Vacate waits so long until the kernel has said what it forgot, and what was closed by programs that have just ended.
const (
	forgetWait  = 3 * time.Second
	releaseWait = 500 * time.Millisecond
)

// Vacate closes the tree that the key stands for; EBUSY if somebody is in it. Where nobody is, it is opened again when
// somebody goes in.
func (m *Mount) Vacate(key any) error {
	v := m.views
	if v == nil {
		return nil
	}
	v.mu.RLock()
	rm := v.byKey[key]
	v.mu.RUnlock()
	if rm == nil {
		return nil
	}
	for end := time.Now().Add(releaseWait); rm.handles.Load() != 0 && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
	if rm.handles.Load() == 0 && !rm.inhabited(true) {
		rm.empty()
		for end := time.Now().Add(forgetWait); ; time.Sleep(2 * time.Millisecond) {
			if rm.used.Load() == 0 && rm.close() || rm.closeBack() {
				return nil
			}
			if time.Now().After(end) {
				break
			}
		}
	}
	return fmt.Errorf("%s is in use: a program has a file or its working directory there (fuser -vm %s lists them): %w",
		m.point+"/"+rm.in.Path, m.point, syscall.EBUSY)
}

// Open lists the paths of the trees that are open beside what was mounted.
func (m *Mount) Open() []string {
	if m.views == nil {
		return nil
	}
	var list []string
	for _, rm := range m.views.all() {
		if !rm.isClosed() {
			list = append(list, rm.in.Path)
		}
	}
	return list
}
