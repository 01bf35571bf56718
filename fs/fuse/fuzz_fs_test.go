package fuse

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// rawRequest is one of the kernel's, as bytes.
func rawRequest(op uint32, node uint64, body []byte, names ...string) []byte {
	b := make([]byte, inHeaderLen, inHeaderLen+len(body)+64)
	b = append(b, body...)
	for _, n := range names {
		b = append(append(b, n...), 0)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint32(b[4:], op)
	binary.NativeEndian.PutUint64(b[8:], 7) // unique
	binary.NativeEndian.PutUint64(b[16:], node)
	return b
}

// words are the fields of a request's body, 32 bits each.
func words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

// FuzzFS feeds a real workspace requests that no kernel sends: two from each input, so that the second may use what the
// first has made. Each is answered, nothing panics, and at the end the store passes its check.
func FuzzFS(f *testing.F) {
	const all = ^uint32(0)
	for op := range uint32(60) {
		for _, node := range []uint64{0, 1, 2, 1 << 41, 1<<64 - 1} {
			f.Add(rawRequest(op, node, words(make([]uint32, 20)...)), rawRequest(op, node, words(all, all, all, all, all, all, all, all, all, all), "a", "b"))
		}
		f.Add(rawRequest(op, 1, nil, "x"), rawRequest(op, 1, words(0o100644, 0o22, 0, 0), "x"))
		f.Add(rawRequest(op, 1, words(0x8241, 0o100644, 0, 0), "new"), rawRequest(op, 2, words(1, 0, 0, 0, 1<<30, 0, all, 0)))
		f.Add(rawRequest(35, 1, words(0x42, 0o100600, 0, 0), "made"), rawRequest(op, 2, words(1, 0, 1<<31, 1<<31, 1<<20, 0, 0, 0), "made", "../etc"))
	}
	dir := filepath.Join(f.TempDir(), "store")
	if err := store.Init(f.Context(), dir, sqlite.Driver()); err != nil {
		f.Fatal(err)
	}
	st, err := store.Open(f.Context(), dir, sqlite.Driver(), store.Options{})
	if err != nil {
		f.Fatal(err)
	}
	ws, err := fs.NewWorkspace(f.Context(), st, "w", "", store.Attribution{})
	if err != nil {
		f.Fatal(err)
	}
	live, err := fs.Open(f.Context(), st, ws, fs.Options{})
	if err != nil {
		f.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		f.Fatal(err)
	}
	o := Options{Poll: -1}.withDefaults()
	raw := newRaw(live, &o)
	c, err := newConn(int(null.Fd()), newEchoFS(raw), &o)
	if err != nil {
		f.Fatal(err)
	}
	raw.transport = c
	f.Cleanup(func() {
		raw.OnUnmount()
		if err := live.Close(); err != nil {
			f.Errorf("close the workspace: %v", err)
		}
		if err := st.Check(context.Background(), func(p store.Problem) { f.Errorf("check: %v", p) }); err != nil {
			f.Errorf("check: %v", err)
		}
		if err := st.Close(); err != nil {
			f.Errorf("close the store: %v", err)
		}
	})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, in := range [][]byte{first, second} {
			if len(in) < inHeaderLen || len(in) > 1<<17 {
				continue
			}
			in = append([]byte(nil), in...)
			h := (*gofuse.InHeader)(unsafe.Pointer(&in[0]))
			if h.Opcode == opSetlkw { // it waits for a lock that nobody gives back
				continue
			}
			h.Pid = 0 // nobody's: a number would be looked up in /proc
			op, unique := h.Opcode, h.Unique
			reply := newWorker(c, 0).answer(in)
			switch {
			case len(reply) == 0 && wantsReply(op):
				t.Fatalf("opcode %d got no reply", op)
			case len(reply) == 0:
			case len(reply) < outHeaderLen:
				t.Fatalf("opcode %d: reply of %d bytes", op, len(reply))
			default:
				out := (*gofuse.OutHeader)(unsafe.Pointer(&reply[0]))
				if int(out.Length) != len(reply) || out.Unique != unique || out.Status > 0 {
					t.Fatalf("opcode %d: reply %+v of %d bytes", op, out, len(reply))
				}
			}
			if n := c.panics.Load(); n != 0 {
				t.Fatalf("opcode %d panicked", op)
			}
		}
	})
}
