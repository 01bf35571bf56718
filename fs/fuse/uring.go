package fuse

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxRingWorkers is also the number of handlers that may wait, for locks too. Each is a thread once it has answered.
	maxRingWorkers = 1024
	// maxSpare entries of a queue wait for the case that handlers of its workers wait; maxSpares bounds their sum.
	maxSpare, minSpare, maxSpares = 128, 8, 1024
	// keepRings workers of a queue keep an entry, and with it a thread, after a crowd is gone.
	keepRings = 32
	// goProcessors that Go gets for each of ours.
	goProcessors = 4
	// ringPatience is how long the kernel may take to give entries back after the end of a connection.
	ringPatience = 2 * time.Second
)

// rings carries requests over io_uring, beside a conn that reads /dev/fuse: there INIT comes, and always FORGET and
// INTERRUPT, and notifications go. The kernel has a queue for each processor and puts a request into that of the
// caller's. It fills the entry that was handed in last, in the thread that handed it in.
//
// So a worker has one entry, a ring of its own and a thread that is pinned to the queue's processor: the kernel switches
// from the caller to it and back, no other processor has to wake up, and nobody polls. The thread waits nowhere else
// while the kernel holds the entry. A handler that is going to wait just lets go of its thread; requests then go to other
// workers. If none is left, they go to the spare entries of the queue's feeder, which makes a worker of each.
//
// Never fewer entries than callers: the kernel looks at requests that found no entry only when a reply comes.
type rings struct {
	c       *conn
	payload int // of an entry, bytes
	queues  []*ringQueue
	cpus    unix.CPUSet // where our threads may run
	agreed  bool        // the kernel wants them; written before the reply to INIT
	begun   bool        // begin was called
	ready   atomic.Bool
	wg      sync.WaitGroup // of feeders and workers
	workers [maxRingWorkers + 1]atomic.Pointer[ringWorker]

	mu      sync.Mutex
	next    uint16     // guarded by mu; the first id never used
	free    []uint16   // guarded by mu
	ended   bool       // guarded by mu; no handler may wait any more
	missed  [64]uint64 // guarded by mu; interrupts of requests that did not wait yet
	missedN int        // guarded by mu

	n, yields, waits, promoted atomic.Uint64
}

// ringQueue is the kernel's queue of one processor.
type ringQueue struct {
	u      *rings
	qid    uint16
	feeder *feeder
	idle   atomic.Int32 // workers that keep an entry and a ring
}

// newRings makes what can fail before the kernel is asked: once it agreed, there is no way back for it but an error.
func newRings(c *conn, refuse bool) (*rings, error) {
	n, err := possibleCPUs()
	if err != nil {
		return nil, err
	}
	if b, err := os.ReadFile("/sys/module/fuse/parameters/enable_uring"); err != nil || strings.TrimSpace(string(b)) != "Y" {
		return nil, errors.New("the kernel's fuse module has no enable_uring, or it is off")
	}
	u := &rings{c: c, payload: uringPayload(c.maxIO), next: 1}
	if refuse {
		u.payload = os.Getpagesize()
	}
	if err := unix.SchedGetaffinity(0, &u.cpus); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	spare := max(minSpare, min(maxSpare, maxSpares/n))
	for i := range n {
		q := &ringQueue{u: u, qid: uint16(i)}
		if q.feeder, err = newFeeder(q, spare); err != nil {
			u.discard()
			return nil, err
		}
		u.queues = append(u.queues, q)
	}
	return u, nil
}

// useRings asks for requests over io_uring; call it before serve.
func (c *conn) useRings(o *Options) error {
	u, err := newRings(c, o.refuseRings)
	if err != nil {
		return err
	}
	c.rings = u
	c.want |= capOverIOURing
	return nil
}

// discard is for rings that the kernel never saw.
func (u *rings) discard() {
	for _, q := range u.queues {
		q.feeder.close()
	}
	u.queues = nil
}

// begin is called once, after the reply to INIT. Until every queue has an entry, the kernel holds all requests back.
func (u *rings) begin() {
	u.begun = true
	if !u.agreed {
		u.c.log.Debug("the kernel does not offer FUSE over io_uring: requests come over /dev/fuse")
		u.discard()
		return
	}
	errs := make(chan error, len(u.queues))
	for _, q := range u.queues {
		u.wg.Add(1)
		go q.feeder.run(errs)
	}
	var err error
	for range u.queues {
		err = errors.Join(err, <-errs)
	}
	if err != nil { // a refused REGISTER makes the kernel go on over /dev/fuse
		u.c.log.Debug("FUSE over io_uring was refused: requests come over /dev/fuse", "err", err)
		for _, q := range u.queues {
			q.feeder.stop()
		}
		return
	}
	for _, q := range u.queues {
		if w := u.newWorker(q, nil); w != nil {
			w.start()
		}
	}
	// A thread that comes back from the kernel with a request needs one of Go's processors at once; it must not wait for
	// one until a goroutine of the applier is interrupted. The kernel sees to it that the threads share the processors.
	if n := goProcessors * runtime.NumCPU(); runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
	u.c.waiter.max = 0 // what still comes that way can wait; we are the leader
	u.ready.Store(true)
}

// newWorker returns nil if there are too many.
func (u *rings) newWorker(q *ringQueue, e *entry) *ringWorker {
	u.mu.Lock()
	defer u.mu.Unlock()
	var id uint16
	if n := len(u.free); n > 0 {
		id, u.free = u.free[n-1], u.free[:n-1]
	} else if u.next <= maxRingWorkers {
		id, u.next = u.next, u.next+1
	} else {
		return nil
	}
	w := &ringWorker{u: u, q: q, id: id, e: e, cancel: make(chan struct{}), small: make([]byte, smallLen), smallOut: make([]byte, smallOutLen)}
	u.workers[id].Store(w)
	u.n.Add(1)
	u.wg.Add(1)
	return w
}

func (u *rings) retire(w *ringWorker) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.workers[w.id].Store(nil)
	u.free = append(u.free, w.id)
	u.n.Add(^uint64(0))
}

// yield is conn.yield for a request that came over a ring; id is what its worker wrote into it.
func (u *rings) yield(id int) {
	if id > 0 && id < len(u.workers) {
		if w := u.workers[id].Load(); w != nil {
			w.yield()
		}
	}
}

// interrupt cancels the request that the kernel names. INTERRUPT comes another way than its request, so it may be here
// first.
func (u *rings) interrupt(unique uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.next {
		if w := u.workers[id].Load(); w != nil && w.unique == unique {
			w.interrupt()
			return
		}
	}
	u.missed[u.missedN%len(u.missed)] = unique
	u.missedN++
}

// end is called when the connection has ended: it cancels what waits, and what is going to.
func (u *rings) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	for id := range u.next {
		if w := u.workers[id].Load(); w != nil {
			w.interrupt()
		}
	}
}

// wait returns when no handler runs any more and the entries are back.
func (u *rings) wait() {
	done := make(chan struct{})
	go func() { u.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(ringPatience):
		u.c.stop() // the kernel did not end all of it, or a handler still waits
		<-done
	}
}

// gone looks at the errno that an entry came back with.
func (u *rings) gone(res int32) {
	switch e := syscall.Errno(-res); {
	case e == syscall.ENOTCONN, e == syscall.ECONNABORTED, e == syscall.ECANCELED: // the end of every mount
	case u.ready.Load():
		u.c.log.Error("fuse: the kernel refused a reply", "err", e)
		u.c.refused.Add(1)
	}
}

// full says that one more handler that waits for a lock could leave nobody to answer who unlocks.
func (u *rings) full() bool { return u.n.Load() > maxRingWorkers-maxBusy }

func (u *rings) wantsWorker(q *ringQueue) bool { return q.idle.Load() < keepRings }

// pin binds the calling thread to a processor. Where that may not be (offline, another cpuset), requests are only slower.
func (u *rings) pin(cpu uint16) {
	runtime.LockOSThread()
	var one unix.CPUSet
	one.Set(int(cpu))
	_ = unix.SchedSetaffinity(0, &one)
}

func (u *rings) unpin() {
	_ = unix.SchedSetaffinity(0, &u.cpus)
	runtime.UnlockOSThread()
}

// possibleCPUs is how many queues the kernel has. It numbers them like the processors, so there must be no gap.
func possibleCPUs() (int, error) {
	const path = "/sys/devices/system/cpu/possible"
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	s := strings.TrimSpace(string(b))
	first, last, more := strings.Cut(s, "-")
	if !more {
		last = first
	}
	n, err := strconv.Atoi(last)
	if err != nil || first != "0" || n > maxSpares {
		return 0, fmt.Errorf("%s: %q: only processors from 0 on without a gap", path, s)
	}
	return n + 1, nil
}
