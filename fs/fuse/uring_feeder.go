package fuse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// feeder keeps the spare entries of a queue. It runs no handler, because while it waited nobody would get the requests
// in its entries.
type feeder struct {
	q      *ringQueue
	spare  int // entries to keep with the kernel
	ring   *ring
	wakeFd int // an eventfd: commits has something

	// The goroutine's alone.
	entries map[uint64]*entry // with the kernel, by their name on the ring
	user    uint64            // the last name given
	refused error             // the last errno of an entry
	over    bool              // the transport was asked to stop, or does without rings

	mu      sync.Mutex
	commits []*entry // guarded by mu; replies of workers that do not keep their entry
	quit    bool     // guarded by mu; the kernel does without rings
	closed  bool     // guarded by mu
}

const userWake = 2 // as userStop; names of entries follow

func newFeeder(q *ringQueue, spare int) (*feeder, error) {
	r, err := newRing(2 * maxSpare)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		r.close()
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	return &feeder{q: q, spare: spare, ring: r, wakeFd: fd, entries: map[uint64]*entry{}, user: userWake}, nil
}

func (f *feeder) close() {
	f.mu.Lock()
	f.closed = true
	_ = unix.Close(f.wakeFd)
	for _, e := range f.commits {
		e.free()
	}
	f.commits = nil
	f.mu.Unlock()
	f.ring.close()
	for _, e := range f.entries {
		e.free()
	}
}

// run registers the entries, tells errs whether the queue has any, and lives until the connection ends.
func (f *feeder) run(errs chan<- error) {
	u := f.q.u
	defer u.wg.Done()
	defer f.close()
	u.pin(f.q.qid)
	defer u.unpin()
	f.ring.poll(u.c.stopFd, userStop)
	f.ring.poll(f.wakeFd, userWake)
	err := f.refill()
	if len(f.entries) == 0 {
		refuseRing(f.ring, u.c.fd, f.q.qid, 0)
	} else if err != nil {
		u.c.log.Warn("fuse: fewer spare entries than wanted", "err", err)
	}
	if err := f.ring.enter(false); err != nil { // the kernel waits for us now, so this mount is of no use
		u.c.log.Error("fuse: a ring fails", "err", err)
		u.c.stop()
	}
	got := f.take() // refusals are there at once
	if err = nil; len(f.entries)+len(got) == 0 {
		err = fmt.Errorf("register with queue %d: %w", f.q.qid, errors.Join(f.refused, syscall.EOPNOTSUPP))
	}
	errs <- err
	for {
		f.serve(got)
		if f.over || len(f.entries) == 0 {
			return
		}
		if err := f.ring.enter(true); err != nil {
			u.c.log.Error("fuse: a ring fails", "err", err)
			return
		}
		got = f.take()
	}
}

// take reads the answers and returns the entries that hold a request.
func (f *feeder) take() (got []*entry) {
	for {
		user, res, ok := f.ring.pop()
		if !ok {
			return got
		}
		switch user {
		case userStop:
			f.over = true
		case userWake:
			f.awake()
		default:
			e := f.entries[user]
			delete(f.entries, user)
			if e != nil {
				e.out = false
			}
			if res >= 0 && e != nil {
				got = append(got, e)
				continue
			}
			f.refused = syscall.Errno(-res)
			f.q.u.gone(res)
			if e != nil {
				e.free()
			}
		}
	}
}

// awake takes what others left.
func (f *feeder) awake() {
	var b [8]byte
	_, _ = unix.Read(f.wakeFd, b[:])
	f.ring.poll(f.wakeFd, userWake)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.commits {
		f.push(e, (*entry).commit)
	}
	f.commits, f.over = nil, f.over || f.quit
}

// serve makes a worker of each entry. Replacements are with the kernel first: the entry that is handed in last is used
// first, and that should be a worker's.
func (f *feeder) serve(got []*entry) {
	if len(got) == 0 {
		return
	}
	u := f.q.u
	if f.refused == nil && !f.over {
		if err := f.refill(); err != nil {
			u.c.log.Warn("fuse: fewer spare entries than wanted", "err", err)
		}
	}
	if err := f.ring.enter(false); err != nil {
		u.c.log.Error("fuse: a ring fails", "err", err)
	}
	for _, e := range got {
		w := u.newWorker(f.q, e)
		if w == nil {
			f.refuse(e)
			continue
		}
		u.promoted.Add(1)
		go w.run(true)
	}
}

// refuse answers a request for which there is no worker.
func (f *feeder) refuse(e *entry) {
	f.q.u.c.refused.Add(1)
	in, _ := e.message()
	var q request
	q.begin(in, make([]byte, outHeaderLen), nil)
	e.setReply(q.finish(gofuse.Status(syscall.ENOLCK)))
	f.push(e, (*entry).commit)
}

// refill registers entries until spare are with the kernel.
func (f *feeder) refill() error {
	for len(f.entries) < f.spare {
		e, err := newEntry(f.q.qid, f.q.u.payload)
		if err != nil {
			return err
		}
		f.push(e, (*entry).register)
	}
	return nil
}

func (f *feeder) push(e *entry, how func(*entry, *ring, int, uint64)) {
	if f.ring.full() {
		if err := f.ring.enter(false); err != nil {
			f.q.u.c.log.Error("fuse: a ring fails", "err", err)
		}
	}
	f.user++
	f.entries[f.user] = e
	how(e, f.ring, f.q.u.c.fd, f.user)
}

// commit hands in a reply for a worker that does not keep the entry.
func (f *feeder) commit(e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed { // the connection has ended
		e.free()
		return
	}
	f.commits = append(f.commits, e)
	f.wake()
}

// stop ends the feeder of a queue that is not used.
func (f *feeder) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quit = true
	if !f.closed {
		f.wake()
	}
}

func (f *feeder) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(f.wakeFd, one[:]) // can only fail by being signalled already
}
