package fs_test

import (
	"math/rand/v2"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// A large file is written from front to back, is changed behind that, punched, cut and extended, and closed: it is cut
// into chunks while that goes on, and must be what was written.
func TestWriteInOrder(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t)
		r := rand.New(rand.NewPCG(seed, 1))
		_, h, err := w.fs.Create(w.c, store.RootIno, "f", 0o644, syscall.O_RDWR)
		w.must(err)
		var data []byte
		put := func(p []byte, off int) {
			if _, err := h.WriteAt(w.c, p, int64(off), true); err != nil {
				t.Fatal(err)
			}
			if need := off + len(p); need > len(data) {
				data = append(data, make([]byte, need-len(data))...)
			}
			copy(data[off:], p)
		}
		for range 14 {
			p := make([]byte, 1<<20)
			for i := 0; i < len(p); i += 5 {
				p[i] = byte(r.Uint32())
			}
			put(p, len(data))
			switch {
			case seed == 0:
			case r.IntN(3) == 0:
				put([]byte("written again"), r.IntN(len(data)))
			case r.IntN(5) == 0:
				off, n := r.IntN(len(data)/2), r.IntN(len(data)/2)
				w.must(h.Fallocate(w.c, uint64(off), uint64(n), 0x03))
				clear(data[off : off+n])
			case r.IntN(5) == 0:
				size := int64(max(0, len(data)-r.IntN(3<<20)))
				_, err := w.fs.SetAttr(w.c, h.ID(), h, fs.SetAttr{Size: &size})
				w.must(err)
				data = data[:size:size]
			}
			if seed == 2 && r.IntN(6) == 0 {
				w.must(h.Fsync(w.c, false))
			}
		}
		w.same("open", data)
		w.must(h.Flush(w.c, 0))
		h.Release(w.c, 0)
		w.same("closed", data)
		w.reopen()
		w.same("from the database", data)
	}
}
