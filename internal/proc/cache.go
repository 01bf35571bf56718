package proc

import (
	"errors"
	"time"

	"wsfs/store"
)

// task is a cached thread.
type task struct {
	tid  int
	comm *file // of the thread; the first thread's is its image's too
	img  *image
}

func (t *task) first() bool { return t.tid == t.img.pid }

// current returns the cached entry of a thread if it is still the same thread of the same image.
func (r *Resolver) current(tid int) *task {
	r.mu.Lock()
	t, ok := r.tasks.get(tid)
	if !ok {
		r.mu.Unlock()
		return nil
	}
	img := t.img
	comm, leader, space := t.comm.acquire(), img.comm, img.space.acquire()
	if !t.first() && space == nil {
		leader.acquire()
	} else {
		leader = nil
	}
	known, name, dropped := img.known, img.facts.comm, img.dropped
	r.mu.Unlock()

	same := !dropped && unchanged(comm, leader, space, known, name)
	comm.release()
	leader.release()
	space.release()
	if same {
		return t
	}
	r.mu.Lock()
	if now, ok := r.tasks.get(tid); ok && now == t {
		r.drop(t)
	}
	r.mu.Unlock()
	return nil
}

// unchanged checks a thread by its comm, and its image by space or, without, by the first thread's comm (leader, nil if
// that is the same thread).
func unchanged(comm, leader, space *file, known bool, name string) bool {
	var buf [64]byte
	n, err := comm.pread(buf[:])
	if err != nil {
		return false
	}
	if space != nil {
		return space.sameSpace()
	}
	if leader != nil {
		if n, err = leader.pread(buf[:]); err != nil {
			return false
		}
	}
	if n > 0 && buf[n-1] == '\n' {
		n--
	}
	return !known || string(buf[:n]) == name
}

// opened is a task just opened, not cached yet.
type opened struct {
	dir  dir
	comm *file
	status
}

func (o *opened) close() {
	o.dir.close()
	o.comm.release()
}

func (r *Resolver) open(id int) (*opened, error) {
	d, err := openDir(r.o.Root, id)
	if err != nil {
		return nil, err
	}
	fd, err := d.open("comm")
	if err != nil {
		d.close()
		return nil, err
	}
	o := &opened{dir: d, comm: newFile(fd)}
	buf := r.borrow()
	defer r.giveBack(buf)
	text, err := d.read("status", buf[:4096])
	if err == nil {
		o.status, err = parseStatus(text)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// enter makes the entry of a thread. nil: it is gone, or there is no room for reading it.
func (r *Resolver) enter(tid int) *task {
	o, err := r.open(tid)
	if err != nil {
		r.failed(tid, err)
		return nil
	}
	if o.tgid == tid {
		img, err := r.startReading(o, 0)
		if err != nil {
			r.failed(tid, err)
			return nil
		}
		return &task{tid: tid, comm: img.comm, img: img}
	}
	img, err := r.process(o.tgid, 0)
	o.dir.close()
	if err == nil {
		// If the thread is still there, so was its process, and tgid had not become somebody else's number.
		var buf [64]byte
		_, err = o.comm.pread(buf[:])
	}
	if err != nil {
		o.comm.release()
		r.failed(tid, err)
		return nil
	}
	t := &task{tid: tid, comm: o.comm, img: img}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.insert(t)
	return t
}

// process returns the image of a process, from the cache or with a reader started. hops counts the descendants that asked.
func (r *Resolver) process(pid, hops int) (*image, error) {
	if t := r.current(pid); t != nil && t.first() {
		return t.img, nil
	}
	o, err := r.open(pid)
	if err != nil {
		return nil, err
	}
	return r.startReading(o, hops)
}

// startReading caches an image that is only being read. It takes o over.
func (r *Resolver) startReading(o *opened, hops int) (*image, error) {
	select {
	case r.readers <- struct{}{}:
	default:
		o.close()
		return nil, errBusy
	}
	img := &image{pid: o.dir.id, since: time.Now(), done: make(chan struct{}), comm: o.comm}
	r.mu.Lock()
	if t, ok := r.tasks.get(img.pid); ok && t.first() {
		// Somebody was faster, a moment ago.
		r.mu.Unlock()
		<-r.readers
		o.close()
		return t.img, nil
	}
	rd := &reader{r: r, img: img, comm: o.comm.acquire(), dir: o.dir, uid: o.uid, hops: hops}
	r.insert(&task{tid: img.pid, comm: o.comm, img: img})
	r.mu.Unlock()
	go rd.run()
	return img, nil
}

var errBusy = errors.New("too many processes that do not let themselves be read")

func (r *Resolver) failed(id int, err error) {
	if !gone(err) {
		r.o.Log.Warn("caller not known", "id", id, "error", err)
	}
}

// insert caches an entry and makes room for it. Called with mu held.
func (r *Resolver) insert(t *task) {
	if old, ok := r.tasks.get(t.tid); ok {
		r.drop(old)
	}
	r.tasks.put(t.tid, t)
	r.files++
	r.evict(r.o.MaxFiles)
}

// evict drops the oldest entries until at most limit descriptors are open. Called with mu held.
func (r *Resolver) evict(limit int) {
	if r.closed {
		limit = 0
	}
	for r.files > limit {
		t, ok := r.tasks.dropOldest()
		if !ok {
			return
		}
		r.close(t)
	}
}

func (r *Resolver) drop(t *task) {
	r.tasks.remove(t.tid)
	r.close(t)
}

// close lets go of what an entry owns. Called with mu held, once per entry.
func (r *Resolver) close(t *task) {
	t.comm.release()
	r.files--
	if !t.first() {
		return
	}
	t.img.dropped = true
	if t.img.space != nil {
		t.img.space.release()
		t.img.space = nil
		r.files--
	}
}

func (r *Resolver) mountSession() *store.Session {
	if r.o.MountSession == "" {
		return nil
	}
	return r.sessions.get(sessionKey{name: r.o.MountSession}, "")
}
