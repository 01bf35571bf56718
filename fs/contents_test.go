package fs_test

import (
	"bytes"
	"context"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
)

// Collecting runs beside writers: a content that a file had is not taken for one of the size that it will have. A small one as a large
// one would be no tree, and end the collection; a large one as a small one would lose what is below its root.
func TestContentsOfDirty(t *testing.T) {
	for _, sizes := range [][2]int{{20, 3 * blob.MaxBlob}, {3 * blob.MaxBlob, 20}} {
		w := newWorld(t)
		w.write("f", string(bytes.Repeat([]byte("x"), sizes[0])))
		h, err := w.fs.Open(w.c, w.walk("f").ID, syscall.O_RDWR)
		w.must(err)
		size := int64(sizes[1])
		_, err = w.fs.SetAttr(w.c, h.ID(), h, fs.SetAttr{Size: &size})
		w.must(err)
		w.remove("f") // nothing but the handle has it
		w.write("g", "something else to stand on\n")
		w.must(w.st.Apply(context.Background(), w.st.Last()))
		time.Sleep(2 * time.Millisecond)
		keep := store.Retention{Tiers: []store.Tier{{For: time.Millisecond}}}
		_, err = w.st.Collect(context.Background(), store.GCOptions{Keep: &keep, Roots: w.fs.Contents})
		w.must(err)
		if _, err = h.WriteAt(w.c, []byte("y"), size-1, false); err != nil {
			t.Error(err)
		}
		buf := make([]byte, sizes[1])
		if n, err := h.ReadAt(w.c, buf, 0); err != nil || n != sizes[1] || buf[0] != 'x' || buf[n-1] != 'y' {
			t.Errorf("%d -> %d bytes: read %d, %v", sizes[0], sizes[1], n, err)
		}
		w.must(h.Flush(w.c, 1))
		h.Release(w.c, 1)
	}
}
