package fs

import (
	"sync"
	"time"

	"wsfs/store"
)

// notifier tells observers what changed by other means than their own requests. Events are queued under FS.mu and
// delivered by one goroutine, because telling the kernel may wait for requests that are under way.
type notifier struct {
	mu        sync.Mutex
	wake      *sync.Cond
	observers map[Origin]Observer
	next      Origin
	queue     []event
	pushed    uint64 // how many events there were
	heard     uint64 // how many of them were delivered
	busy      bool
	batch     int // how often busy was set
	stopped   bool
	done      chan struct{}
}

type event struct {
	origin Origin // who made the change
	id     store.Ino
	name   string // "" for an inode, else an entry of directory id
	entry  bool
	moved  *Moved
}

func (w *notifier) start() {
	w.wake = sync.NewCond(&w.mu)
	w.observers = map[Origin]Observer{}
	w.done = make(chan struct{})
	go w.run()
}

func (w *notifier) stop() {
	w.mu.Lock()
	w.stopped = true
	w.wake.Broadcast()
	w.mu.Unlock()
	<-w.done
}

func (w *notifier) run() {
	defer close(w.done)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.queue) == 0 && !w.stopped {
			w.wake.Wait()
		}
		if w.stopped {
			return
		}
		events := w.queue
		w.queue, w.busy = nil, true
		w.batch++
		var to []Observer
		var origins []Origin
		for id, o := range w.observers {
			to, origins = append(to, o), append(origins, id)
		}
		for _, e := range events {
			w.mu.Unlock()
			for i, o := range to {
				switch {
				case origins[i] == e.origin:
				case e.moved != nil:
					o.Moved(e.moved)
				case e.entry:
					o.EntryChanged(e.id, e.name)
				default:
					o.InodeChanged(e.id)
				}
			}
			w.mu.Lock()
			w.heard++
			w.wake.Broadcast()
		}
		w.busy = false
		w.wake.Broadcast()
	}
}

// push queues an event unless its maker is the only one who could want it: then it returns 0, else a number for told.
func (w *notifier) push(e event) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.observers) == 0 || len(w.observers) == 1 && w.observers[e.origin] != nil {
		return 0
	}
	w.queue = append(w.queue, e)
	w.pushed++
	w.wake.Broadcast()
	return w.pushed
}

// told reports whether an event was delivered, and waits for that at most so long.
func (w *notifier) told(n uint64, wait time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard >= n || wait <= 0 {
		return w.heard >= n
	}
	late := false
	t := time.AfterFunc(wait, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		late = true
		w.wake.Broadcast()
	})
	defer t.Stop()
	for w.heard < n && !late && !w.stopped {
		w.wake.Wait()
	}
	return w.heard >= n
}

// drain returns when everything queued before has been delivered.
func (w *notifier) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for (len(w.queue) > 0 || w.busy) && !w.stopped {
		w.wake.Wait()
	}
}

// Observe registers a mount. The Origin goes into its calls, so that it is not told about its own changes.
func (f *FS) Observe(o Observer) Origin {
	w := &f.notifier
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	w.observers[w.next] = o
	return w.next
}

// Unobserve ends what Observe began. With the last mount every reference of a kernel is gone, since an unmount sends
// no FORGET.
func (f *FS) Unobserve(id Origin) {
	w := &f.notifier
	w.mu.Lock()
	delete(w.observers, id)
	left := len(w.observers)
	// What is just being told may be told to it: who closes the workspace next must not wait for that under a lock.
	for n := w.batch; w.busy && n == w.batch && !w.stopped; {
		w.wake.Wait()
	}
	w.mu.Unlock()
	if left > 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for ino, n := range f.nodes {
		if ino != store.RootIno && n.lookups > 0 {
			n.lookups = 0
			f.dropOrphan(n)
		}
	}
	for _, d := range f.coldDirs {
		if d == nil || d.cold.known == 0 {
			continue
		}
		for e := range d.entries() {
			if r := d.coldOf(e); r != nil {
				d.cold.refer(r, -int64(r.lookups))
			}
		}
	}
	for _, n := range f.byID {
		n.lookups = 0
		f.dropOrphan(n)
	}
}

func (c *Call) origin() Origin {
	if c == nil {
		return 0
	}
	return c.Origin
}

// Foresee says to whoever observes that an undo, a rollback or a merge has begun, so that what tells of it can be made
// ready meanwhile. The caller calls over when it has ended, or has come to nothing.
func (f *FS) Foresee() (over func()) {
	w := &f.notifier
	w.mu.Lock()
	var to []Observer
	for _, o := range w.observers {
		to = append(to, o)
	}
	w.mu.Unlock()
	var all []func()
	for _, o := range to {
		all = append(all, o.Foresee())
	}
	return func() {
		for _, over := range all {
			over()
		}
	}
}

// announce tells what an op changed. FS.mu is held.
func (f *FS) announce(ch *change) {
	for i := range ch.op.Names {
		f.announceEntry(ch.c, ch.op.Names[i].Parent, ch.op.Names[i].Name)
	}
	for _, n := range ch.nodes {
		f.announceInode(ch.c, n)
	}
}

// announceEntry tells of a name in directory parent, given by its inode number or its id. FS.mu is held.
func (f *FS) announceEntry(c *Call, parent store.Ino, name string) {
	f.notifier.push(event{origin: c.origin(), id: f.idOf(parent), name: name, entry: true})
}

func (f *FS) announceInode(c *Call, n *node) {
	f.notifier.push(event{origin: c.origin(), id: n.id})
}
