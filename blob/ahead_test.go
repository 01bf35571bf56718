package blob_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/blob/blobtest"
)

// source is bytes that are still being written.
type source struct {
	mu sync.Mutex
	b  []byte
}

func (s *source) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.NewReader(s.b).ReadAt(p, off)
}

// What is cut while it is written is what is cut afterwards, whatever is written again in between.
func TestAhead(t *testing.T) {
	const w = blob.WindowSize
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			x := &blobtest.Index{}
			s := openStore(t, t.TempDir(), x, blob.Options{})
			defer s.Close()
			src := &source{b: make([]byte, 4*w+12345)}
			for i := 0; i < len(src.b); i += 3 {
				src.b[i] = byte(r.Uint32())
			}
			clear(src.b[w : w+w/2]) // a hole
			a := s.NewAhead(src)
			change := func(n int) {
				off := r.IntN(len(src.b) - 5000)
				src.mu.Lock()
				for i := range 1 + r.IntN(5000) {
					src.b[off+i]++
				}
				src.mu.Unlock()
				a.Changed(int64(off), int64(n))
			}
			for i := range 4 {
				a.Window(int64(i) * w)
				if seed > 0 && r.IntN(2) == 0 {
					change(5000)
				}
			}
			size := int64(len(src.b))
			if seed == 3 { // it becomes shorter: the last window is none of those any more
				size = 3*w + 777
				a.Changed(size, int64(len(src.b))-size)
			}
			all := []blob.Extent{{Len: size}}
			got, _, err := a.Edit(t.Context(), blob.Content{}, size, all, src)
			if err != nil {
				t.Fatal(err)
			}
			readSmall(t, s, got.Content, src.b[:size])
			locs, err := s.Settle(t.Context(), []blob.Staged{got})
			if err != nil {
				t.Fatal(err)
			}
			x.Insert(locs...)
			s.Applied([]blob.Staged{got})
			want, _, err := s.Edit(t.Context(), blob.Content{}, size, all, src)
			if err != nil || want.Content != got.Content {
				t.Fatalf("cut ahead %v, afterwards %v, %v", got.Content, want.Content, err)
			}
			readSmall(t, s, got.Content, src.b[:size])
		})
	}
}

// What nobody wants gives its room back, and what was written beside it stays.
func TestAheadStopped(t *testing.T) {
	const w = blob.WindowSize
	dir, x := t.TempDir(), &blobtest.Index{}
	s := openStore(t, dir, x, blob.Options{})
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, 2*w)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	a := s.NewAhead(bytes.NewReader(data))
	stored := func(n int64) { // an Edit of nothing more waits for it; Stop alone may be quicker
		for used(t, dir) < n {
			if t.Context().Err() != nil {
				t.Fatal("the windows are never stored")
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	a.Window(0)
	stored(w) // else it would find what PutReader stores and store nothing
	kept, err := s.PutReader(t.Context(), bytes.NewReader(data[:w]))
	if err != nil {
		t.Fatal(err)
	}
	a.Window(w)
	stored(3 * w)
	before := used(t, dir)
	a.Stop()
	readSmall(t, s, kept.Content, data[:w])
	if after := used(t, dir); after > before-2*w*9/10 {
		t.Skipf("the file system of %s punches no holes: %d bytes before, %d after", dir, before, after)
	}
}

// used is what the packs take on the disk.
func used(t *testing.T, dir string) (n int64) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packs {
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		n += st.Sys().(*syscall.Stat_t).Blocks * 512
	}
	return n
}
