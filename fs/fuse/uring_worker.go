package fuse

import (
	"encoding/binary"
	"time"
	"unsafe"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

// names of answers on a worker's ring
const (
	userStop  = 1
	userEntry = 2
)

// ringWorker answers the requests of one entry. All of it belongs to its goroutine, but for what rings.mu guards.
type ringWorker struct {
	u        *rings
	q        *ringQueue
	id       uint16
	e        *entry
	ring     *ring // nil until it keeps an entry
	pinned   bool  // to its thread and that to its processor
	over     bool  // the transport was asked to stop
	req      request
	cancel   chan struct{}
	small    []byte
	smallOut []byte

	// Guarded by rings.mu, as in worker.
	unique    uint64
	cancelled bool
}

// start makes an entry and hands it to the kernel. Without the means for that, the feeder goes on alone.
func (w *ringWorker) start() {
	e, err := newEntry(w.q.qid, w.u.payload)
	if err == nil {
		w.ring, err = newRing(4)
	}
	if err != nil {
		w.u.c.log.Warn("fuse: no ring for a worker", "err", err)
		w.u.retire(w)
		w.u.wg.Done()
		return
	}
	w.e = e
	w.q.idle.Add(1)
	w.ring.poll(w.u.c.stopFd, userStop)
	w.e.register(w.ring, w.u.c.fd, userEntry)
	go w.run(false)
}

// run is the worker's life; with has, its entry holds a request that a feeder got.
func (w *ringWorker) run(has bool) {
	defer w.u.wg.Done()
	defer w.u.retire(w)
	for {
		if has {
			w.serve()
			if !w.keep() {
				w.q.feeder.commit(w.e)
				return
			}
			w.e.commit(w.ring, w.u.c.fd, userEntry)
			if w.over { // somebody still waits for this reply
				_ = w.ring.enter(false)
			}
		}
		if !w.pinned {
			w.u.pin(w.q.qid)
			w.pinned = true
		}
		if has = w.next(); !has {
			w.unpin()
			w.q.idle.Add(-1)
			w.ring.close()
			w.e.free()
			return
		}
	}
}

// keep reports whether w stays with its entry, and makes the ring for it.
func (w *ringWorker) keep() bool {
	if w.ring != nil {
		return true
	}
	if !w.u.wantsWorker(w.q) {
		return false
	}
	r, err := newRing(4)
	if err != nil {
		w.u.c.log.Debug("fuse: no ring for a worker", "err", err)
		return false
	}
	w.ring = r
	w.q.idle.Add(1)
	r.poll(w.u.c.stopFd, userStop)
	return true
}

// next hands in what was pushed and waits for a request; false when there will be none.
func (w *ringWorker) next() bool {
	for !w.over {
		w.u.waits.Add(1)
		if err := w.ring.enter(true); err != nil {
			w.u.c.log.Error("fuse: a ring fails", "err", err)
			return false
		}
		has := false
		for {
			user, res, ok := w.ring.pop()
			if !ok {
				break
			}
			switch {
			case user == userStop:
				w.over = true
			case res >= 0:
				has, w.e.out = true, false
			default:
				w.e.out, w.over = false, true
				w.u.gone(res)
			}
		}
		if has {
			return true
		}
	}
	return false
}

// serve answers the request in w.e.
func (w *ringWorker) serve() {
	start := time.Now()
	in, payload := w.e.message()
	h := (*gofuse.InHeader)(unsafe.Pointer(&in[0]))
	h.Padding = maxWorkers + w.id // see conn.yield
	out := w.e.replyBuffer()
	if len(payload) <= smallLen { // the reply is made where the payload lies
		payload = w.small[:copy(w.small, payload)]
	} else {
		out = w.smallOut
	}
	w.req.begin(in, out, w.cancel)
	w.req.split, w.req.payload = true, payload
	reply := w.req.finish(w.handle())
	op := h.Opcode
	w.e.setReply(reply)
	w.u.c.ops.add(op, binary.NativeEndian.Uint32(reply[4:]) != 0, time.Since(start))
}

// handle turns a panic of a handler into EIO, and forgets that it yielded.
func (w *ringWorker) handle() (st gofuse.Status) {
	defer func() {
		if r := recover(); r != nil {
			st = w.u.c.panicked(w.req.h.Opcode, r)
		}
		if !w.pinned {
			w.settled()
		}
	}()
	return w.u.c.dispatch(&w.req)
}

// yield is called from within a handler that is going to wait, on w's goroutine.
func (w *ringWorker) yield() {
	if w.unpin(); w.unique != 0 {
		return
	}
	u := w.u
	u.yields.Add(1)
	u.mu.Lock()
	defer u.mu.Unlock()
	w.unique = w.req.h.Unique
	if u.ended {
		w.interrupt()
	}
	for _, m := range u.missed {
		if m == w.unique {
			w.interrupt()
		}
	}
}

// unpin lets the goroutine move again: what waits must not hold the thread of an entry, and the next user of the thread
// wants all processors.
func (w *ringWorker) unpin() {
	if w.pinned {
		w.pinned = false
		w.u.unpin()
	}
}

// interrupt cancels the request that w has yielded with; rings.mu is held.
func (w *ringWorker) interrupt() {
	if w.unique != 0 && !w.cancelled {
		w.cancelled = true
		close(w.cancel)
	}
}

func (w *ringWorker) settled() {
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	w.unique = 0
	if w.cancelled {
		w.cancel, w.cancelled = make(chan struct{}), false
	}
}
