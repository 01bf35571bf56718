package fuse

import (
	"encoding/binary"
	"os"
	"testing"
	"unsafe"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

// FuzzRequest feeds a worker anything: it must answer what wants an answer, with a reply that is as long as it says, and
// never let a panic out.
func FuzzRequest(f *testing.F) {
	for op := range uint32(60) {
		b := make([]byte, 120)
		binary.NativeEndian.PutUint32(b[4:], op)
		b[8], b[16] = 7, 1
		f.Add(b)
		f.Add(b[:inHeaderLen])
		f.Add(append(b[:48:48], "name\x00other\x00"...))
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		f.Fatal(err)
	}
	o := Options{Poll: -1}.withDefaults()
	raw := newFake(false)
	c, err := newConn(int(null.Fd()), raw, &o)
	if err != nil {
		f.Fatal(err)
	}
	raw.t = c
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < inHeaderLen {
			return
		}
		in = append([]byte(nil), in...)
		w := newWorker(c, 0)
		h := (*gofuse.InHeader)(unsafe.Pointer(&in[0]))
		if op := h.Opcode; op == opOpen || op == opSetlkw { // those of the fake wait
			return
		}
		unique := h.Unique
		reply := w.answer(in)
		switch {
		case len(reply) == 0:
			if wantsReply(h.Opcode) {
				t.Fatalf("opcode %d got no reply", h.Opcode)
			}
		case len(reply) < outHeaderLen:
			t.Fatalf("opcode %d: reply of %d bytes", h.Opcode, len(reply))
		default:
			o := (*gofuse.OutHeader)(unsafe.Pointer(&reply[0]))
			if int(o.Length) != len(reply) || o.Unique != unique || o.Status > 0 {
				t.Fatalf("opcode %d: reply %+v of %d bytes", h.Opcode, o, len(reply))
			}
		}
		if n := c.panics.Load(); n != 0 {
			t.Fatalf("opcode %d panicked", h.Opcode)
		}
	})
}
