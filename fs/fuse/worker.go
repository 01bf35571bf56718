package fuse

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
)

const (
	// smallLen: requests up to this are copied out of the big buffer, so that a handler that waits keeps 4 KiB and not
	// 1 MiB. Nearly all are below 200 bytes.
	smallLen = 4096
	// smallOutLen fits every reply without a payload, a symbolic link's target and most xattrs.
	smallOutLen = 2 * 4096
)

// worker is one goroutine that answers requests. All of it belongs to that goroutine, but for what conn.mu guards and
// wake.
type worker struct {
	c         *conn
	id        uint16
	lead      bool // has the reader's role
	locked    bool // to its thread: the kernel then wakes the one whose caches are warm
	wake      chan bool
	q         request
	cancel    chan struct{}
	big       *[]byte // to read into; goes with the role
	bigInUse  bool    // the request in hand lies in big
	out       *[]byte // for large replies
	small     []byte
	smallOut  []byte
	uncounted bool          // waits for a lock; guarded by conn.mu
	role      atomic.Uint32 // roleFree, roleHandler or roleTaken, see watch.go
	cpu       int32         // that its thread is tied to, or far; see near.go
	tid       int32         // of the thread it is locked to, 0 if not asked for yet
	held      atomic.Int32  // that thread while it is on hold in a reply, else 0

	// Guarded by conn.mu. A request can be interrupted only by somebody else who reads, so not before it yielded.
	unique    uint64 // of the request that yielded, 0 if none
	cancelled bool   // cancel is closed
}

func newWorker(c *conn, id uint16) *worker {
	return &worker{
		c: c, id: id, cpu: far, wake: make(chan bool, 1), cancel: make(chan struct{}),
		small: make([]byte, smallLen), smallOut: make([]byte, smallOutLen),
	}
}

// run is the worker's life: read and answer while it leads, park when it does not.
func (w *worker) run() {
	defer w.c.wg.Done()
	for {
		if !w.lead {
			w.dropBuffers()
			if !w.c.rejoin(w) {
				return
			}
			w.lead = true
		}
		if !w.locked {
			runtime.LockOSThread()
			w.locked = true
		}
		in, err := w.read()
		if in == nil {
			w.c.end(w, err)
			return
		}
		w.serve(in)
	}
}

// read returns the next request, or nil when the connection ended.
func (w *worker) read() ([]byte, error) {
	if w.big == nil {
		w.big = w.c.buffer.Get().(*[]byte)
	}
	w.bigInUse = false
	n, err := w.c.waiter.next(*w.big)
	if n == 0 {
		return nil, err
	}
	if n <= smallLen {
		return w.small[:copy(w.small, (*w.big)[:n])], nil
	}
	w.bigInUse = true
	return (*w.big)[:n], nil
}

// serve answers one request: exactly one reply, except to those that get none.
func (w *worker) serve(in []byte) {
	start := time.Now()
	if len(in) < inHeaderLen { // cannot come from a kernel, and has no id to answer to
		w.c.refused.Add(1)
		return
	}
	reply := w.answer(in)
	op := w.q.h.Opcode
	if w.c.before != nil {
		w.c.before(opName(op))
	}
	if len(reply) > 0 {
		if w.lead {
			w.c.near.served(w.q.h.Pid, start)
			w.settle()
		}
		w.reply(op, reply)
	}
	if w.c.kept != nil && changing(op) {
		w.c.receipts[w.id].End()
	}
	if op == opInit && w.c.rings != nil {
		w.c.rings.begin()
	}
	if op == opInit && w.c.onInit != nil {
		w.c.onInit()
		w.c.onInit = nil
	}
	w.c.ops.add(op, len(reply) > 0 && binary.NativeEndian.Uint32(reply[4:]) != 0, time.Since(start))
}

// answer runs the handler and returns the reply, nil for a message that gets none.
func (w *worker) answer(in []byte) []byte {
	h := (*gofuse.InHeader)(unsafe.Pointer(&in[0]))
	h.Padding = w.id // the kernel leaves a hole there; see conn.yield
	w.q.begin(in, w.reserve(h, in), w.cancel)
	done, again := w.begin(h)
	if w.lead && h.Opcode != opInit { // before that one is answered there is nothing to read
		w.role.Store(roleHandler)
		w.c.watch.began()
	}
	var st gofuse.Status
	if again {
		st = w.c.redo(&w.q, done)
	} else {
		st = w.handle()
	}
	w.lost()
	if !w.lead {
		w.c.settled(w)
	}
	if !wantsReply(h.Opcode) {
		return nil
	}
	return w.q.finish(st)
}

// begin writes the receipt of a request that can change something. ok: it is done, by a process before this one.
func (w *worker) begin(h *gofuse.InHeader) (done *fs.Receipt, ok bool) {
	c := w.c
	if c.kept == nil {
		return nil, false
	}
	if h.Opcode == opInit {
		c.init = bytes.Clone(w.q.in)
	}
	if changing(h.Opcode) {
		w.c.receipts[w.id].Begin(h.Unique&^uniqueResend, h.NodeId)
	}
	if c.passed {
		return nil, false
	}
	switch {
	case h.Unique&uniqueResend != 0:
		r, was := c.kept.again(h.Unique)
		if !was || !changing(h.Opcode) {
			return nil, false
		}
		to := &c.receipts[w.id]
		unique := to.Unique
		*to = r
		to.Unique = unique
		return to, true
	case h.Opcode != opForget && h.Opcode != opBatchForget && h.Opcode != opInterrupt:
		c.passed = true
		c.kept.passed()
	}
	return nil, false
}

// handle turns a panic of a handler into EIO.
func (w *worker) handle() (st gofuse.Status) {
	defer func() {
		if r := recover(); r != nil {
			st = w.c.panicked(w.q.h.Opcode, r)
		}
	}()
	return w.c.dispatch(&w.q)
}

// reply writes a reply. The kernel answers ENOENT when it gave the request up meanwhile, which only an aborted
// connection does; there is nobody left to tell.
func (w *worker) reply(op uint32, out []byte) {
	for {
		var e syscall.Errno
		if w.cpu != far {
			e = w.hold(out)
		} else {
			_, _, e = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(w.c.fd), uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)))
		}
		switch e {
		case 0, syscall.ENOENT, syscall.ENODEV, syscall.ECONNABORTED:
			return
		case syscall.EINTR, syscall.EAGAIN:
			continue
		}
		w.c.refused.Add(1)
		w.c.log.Error("fuse: the kernel refused a reply", "op", opName(op), "len", len(out), "err", e)
		if len(out) <= outHeaderLen {
			return
		}
		// The caller would wait for ever: a reply of a wrong size becomes an error.
		out = w.q.finish(gofuse.EIO)
	}
}

// yield hands the role on, if w has it. Called from within a handler, on w's goroutine.
func (w *worker) yield() {
	if !w.lead {
		return
	}
	if w.lost() {
		return
	}
	w.follow()
	w.c.pass(w)
}

// follow ends what comes with the role.
func (w *worker) follow() {
	w.lead, w.locked, w.tid = false, false, 0
	w.wander()
	runtime.UnlockOSThread() // a locked goroutine that waits costs two thread switches
}

// reserve returns a buffer that the reply of this request fits.
func (w *worker) reserve(h *gofuse.InHeader, in []byte) []byte {
	need := 0
	switch h.Opcode {
	case opRead, opReaddir, opReaddirplus:
		if len(in) >= int(unsafe.Sizeof(gofuse.ReadIn{})) {
			need = int((*gofuse.ReadIn)(unsafe.Pointer(h)).Size)
		}
	case opGetxattr, opListxattr:
		if len(in) >= int(unsafe.Sizeof(gofuse.GetXAttrIn{})) {
			need = int((*gofuse.GetXAttrIn)(unsafe.Pointer(h)).Size)
		}
	}
	if need+outHeaderLen <= smallOutLen {
		return w.smallOut
	}
	if w.out == nil {
		w.out = w.c.buffer.Get().(*[]byte)
	}
	return *w.out
}

// takeBuffer gives up the read buffer to the next leader, unless the request in hand lies in it.
func (w *worker) takeBuffer() *[]byte {
	if w.bigInUse {
		return nil
	}
	b := w.big
	w.big = nil
	return b
}

func (w *worker) dropBuffers() {
	for _, b := range []**[]byte{&w.big, &w.out} {
		if *b != nil {
			w.c.buffer.Put(*b)
			*b = nil
		}
	}
}

// panicked logs a panic of a handler; the request gets EIO.
func (c *conn) panicked(op uint32, r any) gofuse.Status {
	c.panics.Add(1)
	c.log.Error("fuse: a handler panicked; its request gets EIO", "op", opName(op), "panic", fmt.Sprint(r),
		"stack", string(debug.Stack()))
	return gofuse.EIO
}
