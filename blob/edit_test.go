package blob_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"wsfs/blob"
	"wsfs/blob/blobtest"
)

func openStore(t testing.TB, dir string, x blob.Index, o blob.Options) *blob.Store {
	t.Helper()
	s, err := blob.Open(dir, x, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// apply does what the store's applier does.
func apply(t testing.TB, s *blob.Store, x *blobtest.Index, items ...blob.Staged) {
	t.Helper()
	locs, err := s.Settle(context.Background(), items)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	x.Insert(locs...)
	s.Applied(items)
}

func random(seed uint64, n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	b := make([]byte, n)
	r.Read(b)
	return b
}

func fresh(t testing.TB, s *blob.Store, data []byte) blob.Staged {
	t.Helper()
	st, _, err := s.Edit(context.Background(), blob.Content{}, int64(len(data)), []blob.Extent{{Len: int64(len(data))}}, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func readAll(t testing.TB, s *blob.Store, c blob.Content) []byte {
	t.Helper()
	b := make([]byte, c.Size)
	if n, err := s.ReadAt(context.Background(), c, b, 0); n != len(b) {
		t.Fatalf("read %d of %d bytes: %v", n, len(b), err)
	}
	return b
}

// pieceGen draws bytes of the kinds that cutting treats differently.
func pieceGen(t *rapid.T, n int) []byte {
	switch rapid.SampledFrom([]string{"random", "random", "zero", "zero", "constant", "period", "sprinkle"}).Draw(t, "kind") {
	case "zero":
		return make([]byte, n)
	case "constant":
		return bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, n)
	case "period":
		unit := random(uint64(rapid.IntRange(0, 3).Draw(t, "unit")), rapid.IntRange(1, 30000).Draw(t, "period"))
		return bytes.Repeat(unit, n/len(unit)+1)[:n]
	case "sprinkle":
		b := make([]byte, n)
		for i := rapid.IntRange(0, 5).Draw(t, "bytes"); i > 0 && n > 0; i-- {
			b[rapid.IntRange(0, n-1).Draw(t, "at")] = 1
		}
		return b
	}
	return random(uint64(rapid.IntRange(0, 5).Draw(t, "seed")), n)
}

// offGen draws offsets, often at or near the places where something changes.
func offGen(t *rapid.T, limit int, name string) int {
	grid := rapid.SampledFrom([]int{1, 1, 4096, 16 << 10, 64 << 10, 128 << 10, 4 << 20}).Draw(t, name+" grid")
	off := rapid.IntRange(0, limit/grid).Draw(t, name) * grid
	off += rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(t, name+" nudge")
	return max(0, min(off, limit))
}

func TestEditModel(t *testing.T) {
	const limit = 9 << 20
	ctx := context.Background()
	x := &blobtest.Index{}
	s := openStore(t, t.TempDir(), x, blob.Options{PackSize: 8 << 20, CacheBytes: 16 << 20})
	rapid.Check(t, func(t *rapid.T) {
		var model []byte
		var cur blob.Content
		var open []blob.Staged
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			size := len(model)
			if rapid.Bool().Draw(t, "resize") || size == 0 {
				size = offGen(t, limit, "size")
			}
			next := make([]byte, size)
			copy(next, model)
			src := bytes.Repeat([]byte{0xEE}, size) // what must not be read
			var dirty []blob.Extent
			for range rapid.IntRange(0, 4).Draw(t, "extents") {
				off := offGen(t, size, "off")
				n := min(offGen(t, 3<<20, "len"), size-off)
				piece := pieceGen(t, n)
				copy(next[off:], piece)
				dirty = append(dirty, blob.Extent{Off: int64(off), Len: int64(n)})
			}
			for _, d := range dirty {
				copy(src[d.Off:d.End()], next[d.Off:d.End()])
			}
			st, _, err := s.Edit(ctx, cur, int64(size), dirty, bytes.NewReader(src))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, st)
			if got := make([]byte, size); size > 0 {
				if n, err := s.ReadAt(ctx, st.Content, got, 0); n != size || !bytes.Equal(got, next) {
					t.Fatalf("read %d of %d bytes (%v), differing first at %d", n, size, err, firstDiff(got, next))
				}
			}
			again, _, err := s.Edit(ctx, blob.Content{}, int64(size), []blob.Extent{{Len: int64(size)}}, bytes.NewReader(next))
			if err != nil {
				t.Fatal(err)
			}
			put, err := s.PutReader(ctx, bytes.NewReader(next))
			if err != nil {
				t.Fatal(err)
			}
			if st.Content != again.Content || st.Content != put.Content {
				t.Fatalf("edited %v, at once %v, from a stream %v", st.Content, again.Content, put.Content)
			}
			s.Applied([]blob.Staged{again, put})
			if rapid.Bool().Draw(t, "apply") {
				locs, err := s.Settle(ctx, open)
				if err != nil {
					t.Fatal(err)
				}
				x.Insert(locs...)
				s.Applied(open)
				open = nil
			}
			model, cur = next, st.Content
		}
		s.Applied(open)
	})
}

func firstDiff(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// TestAppendToLarge appends lines to 256 MiB of real data: what it costs does not depend on what is there.
func TestAppendToLarge(t *testing.T) {
	ctx := context.Background()
	x := &blobtest.Index{}
	s := openStore(t, t.TempDir(), x, blob.Options{})
	size := int64(256<<20 + 123_456)
	st, err := s.PutReader(ctx, io.LimitReader(rand.NewChaCha8([32]byte{1}), size))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, x, st)
	c := st.Content
	var total blob.EditStats
	for range 50 {
		line := []byte("2026-01-02 03:04:05 one more line\n")
		src := io.NewSectionReader(bytes.NewReader(line), 0, int64(len(line)))
		st, stats, err := s.Edit(ctx, c, c.Size+src.Size(), []blob.Extent{{Off: c.Size, Len: src.Size()}}, shifted{src, c.Size})
		if err != nil {
			t.Fatal(err)
		}
		if stats.BytesHashed > 300<<10 || stats.BytesRead > 300<<10 || stats.ChunksNew > 8 {
			t.Fatalf("a line behind %d bytes cost %+v", c.Size, stats)
		}
		total.BytesHashed += stats.BytesHashed
		apply(t, s, x, st)
		c = st.Content
	}
	t.Logf("%d bytes hashed per line", total.BytesHashed/50)
}

// shifted moves a source to another offset.
type shifted struct {
	io.ReaderAt
	by int64
}

func (s shifted) ReadAt(p []byte, off int64) (int, error) { return s.ReaderAt.ReadAt(p, off-s.by) }
