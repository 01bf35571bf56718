package fuse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wsfs/fs"
)

const (
	// maxBusy bounds the handlers that wait at the same time; with more, nobody reads until one of them ends. It is far
	// above what two disks can do and low enough for a thread each.
	maxBusy = 128
	// maxWorkers also counts those that wait for a lock, whose end depends on a request not yet read.
	maxWorkers = 8192
	// keepParked followers stay when they have nothing to do; a blocked handler then costs a wake-up and not a start.
	keepParked = 4
)

// conn is the transport of our own. Exactly one worker has the reader's role (leads), or, when all maxBusy wait, none
// (vacant). A worker answers what it read itself; see worker.serve.
type conn struct {
	fd       int // /dev/fuse, non-blocking
	stopFd   int // an eventfd: readable once the conn was asked to stop
	raw      gofuse.RawFileSystem
	log      *slog.Logger
	want     uint64         // capabilities to ask for
	granted  *atomic.Uint64 // those that the kernel agreed to
	maxIO    int            // largest READ and WRITE
	buffer   sync.Pool      // of *[]byte: requests and replies that do not fit a worker's own
	waiter   *waiter        // the leader's alone
	near     *near          // the leader's alone
	watch    *lookout
	init     []byte // the first message of the connection; written once, before anything is served
	kept     *Kept  // nil: the connection ends with this process
	redo     func(*request, *fs.Receipt) gofuse.Status
	receipts []fs.Receipt    // of the workers, by id
	passed   bool            // a request came that was not sent before; the leader's
	rings    *rings          // nil: everything comes over /dev/fuse
	before   func(op string) // called before a reply; nil but in tests
	onInit   func()          // called once, after the reply to INIT

	wg      sync.WaitGroup // of workers
	workers [maxWorkers + 1]atomic.Pointer[worker]

	mu      sync.Mutex
	parked  []*worker // guarded by mu; a stack: the warmest first
	free    []uint16  // guarded by mu; ids of workers that ended
	next    uint16    // guarded by mu; the first id never used
	busy    int       // guarded by mu; workers that are not parked and do not wait for a lock
	vacant  bool      // guarded by mu; nobody leads
	stopped bool      // guarded by mu; reading is over
	err     error     // guarded by mu; why, nil for an unmount
	closed  bool      // guarded by mu; the descriptors are

	ops     opCounters
	yields  atomic.Uint64
	panics  atomic.Uint64
	refused atomic.Uint64
	n       atomic.Int64 // workers
}

// newConn takes over fd, an open /dev/fuse that was just mounted.
func newConn(fd int, raw gofuse.RawFileSystem, o *Options) (*conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("fuse: make /dev/fuse non-blocking: %w", err)
	}
	stopFd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("fuse: make an eventfd: %w", err)
	}
	c := &conn{fd: fd, stopFd: stopFd, raw: raw, log: o.Log, want: capabilities, granted: o.granted, maxIO: o.MaxWrite, next: 1,
		watch: newLookout()}
	size := o.MaxWrite + os.Getpagesize() // the kernel wants room for the largest WRITE with its header at every read
	c.before = o.BeforeReply
	if c.kept = o.Kept; c.kept != nil {
		c.receipts, c.passed = c.kept.receipts(2), c.kept.Init == nil
	}
	c.buffer.New = func() any {
		b := make([]byte, size)
		if c.kept != nil {
			touch(b)
		}
		return &b
	}
	c.near = newNear()
	c.waiter = newWaiter(fd, stopFd, o.Poll, c.near)
	return c, nil
}

func (c *conn) serve() error {
	c.mu.Lock()
	c.spawn(nil)
	c.mu.Unlock()
	watched := make(chan struct{})
	go func() { defer close(watched); c.lookOn() }()
	c.wg.Wait()
	c.near.looks.Wait()
	close(c.watch.quit)
	<-watched
	if c.rings != nil {
		c.rings.wait()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *conn) close() error {
	c.waiter.close()
	if c.rings != nil && !c.rings.begun {
		c.rings.discard()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if err := errors.Join(unix.Close(c.fd), unix.Close(c.stopFd)); err != nil {
		return fmt.Errorf("fuse: close /dev/fuse: %w", err)
	}
	return nil
}

func (c *conn) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(c.stopFd, one[:]) // can only fail by being signalled already
}

// end is called by the leader w when reading is over: it cancels what still waits and dismisses the followers.
func (c *conn) end(w *worker, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped, c.err = true, err
	for _, f := range c.parked {
		f.wake <- false // has room for one, and a parked worker has none in it
	}
	c.parked = nil
	for id := range c.next {
		if o := c.workers[id].Load(); o != nil {
			o.interrupt()
		}
	}
	if c.rings != nil {
		c.rings.end()
	}
	c.retire(w)
}

// interrupt cancels the request that the kernel names. One that is not here has been answered meanwhile.
func (c *conn) interrupt(unique uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.next {
		if w := c.workers[id].Load(); w != nil && w.unique == unique {
			w.interrupt()
			return
		}
	}
	if c.rings != nil {
		c.rings.interrupt(unique)
	}
}

// interrupt cancels the request that w has yielded with; conn.mu is held.
func (w *worker) interrupt() {
	if w.unique != 0 && !w.cancelled {
		w.cancelled = true
		close(w.cancel)
	}
}

// settled is called when a handler that yielded has returned: from now on it is too late to interrupt it.
func (c *conn) settled(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.unique = 0
	if w.cancelled {
		w.cancel, w.cancelled = make(chan struct{}), false
	}
}

// spawn starts a worker that leads and reads into big; c.mu is held. It returns false when there are too many.
func (c *conn) spawn(big *[]byte) bool {
	var id uint16
	if n := len(c.free); n > 0 {
		id, c.free = c.free[n-1], c.free[:n-1]
	} else if c.next <= maxWorkers {
		id, c.next = c.next, c.next+1
	} else {
		return false
	}
	w := newWorker(c, id)
	w.lead, w.big = true, big
	c.workers[id].Store(w)
	c.busy++
	c.n.Add(1)
	c.wg.Add(1)
	go w.run()
	return true
}

// retire forgets a worker that ends; c.mu is held.
func (c *conn) retire(w *worker) {
	c.workers[w.id].Store(nil)
	c.free = append(c.free, w.id)
	c.n.Add(-1)
}

// pass gives the role of w away. A worker that is going to wait for a lock does not count as busy.
func (c *conn) pass(w *worker) {
	c.yields.Add(1)
	big := w.takeBuffer()
	c.mu.Lock()
	c.handOver(w, big)
}

// handOver makes somebody else read, into big, because w waits with the request it has. It unlocks c.mu.
func (c *conn) handOver(w *worker, big *[]byte) {
	w.unique = w.q.h.Unique
	if c.stopped { // nobody reads any more, and nobody else will cancel it
		w.interrupt()
	}
	if w.q.h.Opcode == opSetlkw {
		c.busy--
		w.uncounted = true
	}
	if n := len(c.parked); n > 0 {
		f := c.parked[n-1]
		c.parked = c.parked[:n-1]
		c.busy++
		c.mu.Unlock()
		f.big = big
		f.wake <- true
		return
	}
	if c.busy < maxBusy && !c.stopped && c.spawn(big) {
		c.mu.Unlock()
		return
	}
	c.vacant = true
	c.mu.Unlock()
	if big != nil {
		c.buffer.Put(big)
	}
}

// rejoin is called by a worker that answered a request and no longer leads. It reports whether it leads from now on;
// otherwise the worker ends.
func (c *conn) rejoin(w *worker) bool {
	c.mu.Lock()
	if w.uncounted {
		w.uncounted = false
		c.busy++
	}
	switch {
	case c.stopped:
	case c.vacant:
		c.vacant = false
		c.mu.Unlock()
		return true
	case len(c.parked) < keepParked:
		c.parked = append(c.parked, w)
		c.busy--
		c.mu.Unlock()
		if <-w.wake {
			return true
		}
		c.mu.Lock()
		c.retire(w)
		c.mu.Unlock()
		return false
	}
	c.busy--
	c.retire(w)
	c.mu.Unlock()
	return false
}

func (c *conn) yield(h *gofuse.InHeader) {
	// The reader wrote its worker's id where the kernel leaves a hole.
	if id := int(h.Padding); id > maxWorkers && c.rings != nil {
		c.rings.yield(id - maxWorkers)
	} else if id > 0 && id < len(c.workers) {
		if w := c.workers[id].Load(); w != nil {
			w.yield()
		}
	}
}

func (c *conn) receipt(h *gofuse.InHeader) *fs.Receipt {
	if id := int(h.Padding); id > 0 && id < len(c.receipts) {
		return &c.receipts[id]
	}
	return nil
}

func (c *conn) notify(msg []byte) error {
	for {
		_, err := unix.Write(c.fd, msg)
		if err != syscall.EINTR {
			return err
		}
	}
}

func (c *conn) stats(s *Stats) {
	s.Ops = c.ops.snapshot()
	s.PollHits, s.PollMisses, s.Blocked = c.waiter.hits.Load(), c.waiter.misses.Load(), c.waiter.blocked.Load()
	s.Near, s.Roused = c.near.held.Load(), c.near.freed.Load()
	s.Yields, s.Taken, s.Workers = c.yields.Load(), c.watch.taken.Load(), uint64(c.n.Load())
	s.Panics, s.Refused = c.panics.Load(), c.refused.Load()
	s.Transport = TransportOwn
	if u := c.rings; u != nil {
		if u.ready.Load() {
			s.Transport = TransportUring
		}
		s.Blocked += u.waits.Load()
		s.Yields += u.yields.Load()
		s.Workers += u.n.Load()
	}
}
