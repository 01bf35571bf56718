package fuse

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

const (
	inHeaderLen  = int(unsafe.Sizeof(gofuse.InHeader{}))
	outHeaderLen = int(unsafe.Sizeof(gofuse.OutHeader{}))
	// smallLen: requests up to this are copied out of the big buffer, so that a handler that waits keeps 4 KiB and not
	// 1 MiB. Nearly all are below 200 bytes.
	smallLen = 4096
	// smallOutLen fits every reply without a payload, a symbolic link's target and most xattrs.
	smallOutLen = 2 * 4096
)

// worker is one goroutine that answers requests. All of it belongs to that goroutine, but for wake and unique.
type worker struct {
	c         *conn
	id        uint16
	lead      bool // has the reader's role
	locked    bool // to its thread: the kernel then wakes the one whose caches are warm
	uncounted bool // waits for a lock; guarded by conn.mu
	wake      chan bool
	unique    atomic.Uint64 // of the request in its hands, for interrupt
	op        uint32
	big       *[]byte // to read into; goes with the role
	bigInUse  bool    // the request in hand lies in big
	out       *[]byte // for large replies
	small     []byte
	smallOut  []byte
	inV, outV [1][]byte // so that the library's iovecs cost no allocation
}

func newWorker(c *conn, id uint16) *worker {
	return &worker{
		c: c, id: id, wake: make(chan bool, 1), small: make([]byte, smallLen), smallOut: make([]byte, smallOutLen),
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
			w.c.end(err)
			w.c.mu.Lock()
			w.c.retire(w)
			w.c.mu.Unlock()
			return
		}
		w.serve(in)
	}
}

// read returns the next request, or nil when the connection ended. The first word of it is never 0.
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
	h := (*gofuse.InHeader)(unsafe.Pointer(&in[0]))
	w.op = h.Opcode
	h.Padding = w.id
	w.unique.Store(h.Unique)
	out := w.reserve(h, in)
	n := w.handle(h, in, out)
	w.unique.Store(0)
	if n > 0 {
		w.reply(h, out[:n])
	}
	if h.Opcode == opInit && w.c.onInit != nil {
		w.c.onInit()
		w.c.onInit = nil
	}
	w.c.ops.add(h.Opcode, n > 0 && binary.NativeEndian.Uint32(out[4:]) != 0, time.Since(start))
}

// handle returns the length of the reply in out, 0 for none.
func (w *worker) handle(h *gofuse.InHeader, in, out []byte) (n int) {
	defer func() {
		if r := recover(); r != nil { // in the library: handlers are caught by conn.panicked
			w.c.panicked(r)
			n = refuse(h, out, syscall.EIO)
		}
	}()
	if n, ok := w.c.intercept(h, in, out); ok {
		return n
	}
	w.inV[0], w.outV[0] = in, out
	n, st := w.c.ps.HandleRequest(w.inV[:], w.outV[:])
	if st != gofuse.OK && wantsReply(h.Opcode) {
		w.c.refused.Add(1)
		w.c.log.Warn("fuse: request refused", "op", opName(h.Opcode), "len", len(in), "status", st.String())
		return refuse(h, out, syscall.EIO)
	}
	return n
}

// reply writes a reply. The kernel answers ENOENT when it gave the request up meanwhile, which only an aborted
// connection does; there is nobody left to tell.
func (w *worker) reply(h *gofuse.InHeader, out []byte) {
	for {
		_, _, e := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(w.c.fd), uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)))
		switch e {
		case 0, syscall.ENOENT, syscall.ENODEV, syscall.ECONNABORTED:
			return
		case syscall.EINTR, syscall.EAGAIN:
			continue
		}
		w.c.log.Error("fuse: the kernel refused a reply", "op", opName(h.Opcode), "len", len(out), "err", e)
		if len(out) <= outHeaderLen {
			return
		}
		// The caller waits for ever if it gets nothing: a reply of a wrong size becomes an error.
		out = out[:refuse(h, out, syscall.EIO)]
	}
}

// yield hands the role on, if w has it. Called from within a handler, on w's goroutine.
func (w *worker) yield() {
	if !w.lead {
		return
	}
	w.lead, w.locked = false, false
	runtime.UnlockOSThread() // a locked goroutine that waits costs two thread switches
	w.c.pass(w, w.op == opSetlkw)
}

// interrupt cancels the request in hand, as the kernel's INTERRUPT would. Called by whoever ends the connection.
func (w *worker) interrupt() {
	unique := w.unique.Load()
	if unique == 0 {
		return
	}
	var out [64]byte
	m := gofuse.InterruptIn{InHeader: gofuse.InHeader{Opcode: opInterrupt, Unique: unique | 1}, Unique: unique}
	m.Length = uint32(unsafe.Sizeof(m))
	in := unsafe.Slice((*byte)(unsafe.Pointer(&m)), m.Length)
	w.c.ps.HandleRequest([][]byte{in}, [][]byte{out[:]})
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
	case opIoctl: // always refused
	}
	if need+1024 <= smallOutLen {
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
func (c *conn) panicked(r any) gofuse.Status {
	c.panics.Add(1)
	c.log.Error("fuse: panic while answering a request; it gets EIO", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	return gofuse.EIO
}
