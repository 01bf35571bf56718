package blob

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
)

// corner has a store and compares edits with what making the result at once gives.
type corner struct {
	*testing.T
	s *Store
}

func newCorner(t *testing.T) corner {
	s, err := Open(t.TempDir(), memIndex{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return corner{t, s}
}

func (c corner) whole(data []byte) Content {
	c.Helper()
	return c.edit(Content{}, data, Extent{0, int64(len(data))})
}

func (c corner) edit(base Content, next []byte, dirty ...Extent) Content {
	c.Helper()
	st, _, err := c.s.Edit(context.Background(), base, int64(len(next)), dirty, bytes.NewReader(next))
	if err != nil {
		c.Fatal(err)
	}
	return st.Content
}

// same fails unless the edit gives what making next at once gives.
func (c corner) same(base, next []byte, dirty ...Extent) {
	c.Helper()
	if got, want := c.edit(c.whole(base), next, dirty...), c.whole(next); got != want {
		c.Errorf("edited %v, at once %v", got, want)
	}
}

// cutInZeros returns n bytes that do not compress and behind which, if zeros follow, a chunk ends within those.
func cutInZeros(t *testing.T, n int) (data []byte, end int) {
	t.Helper()
	buf := make([]byte, n+1000)
	for seed := range 1 << 16 {
		copy(buf, unlike(byte(seed), 64))
		copy(buf[64:n], unlike(byte(seed>>8), n-64))
		copy(buf[n-70:n], unlike(byte(seed+seed>>8), 70))
		for off := 0; off < n; {
			size, _ := cut(buf[off:], int64(off))
			if off += size; off > n && off < n+64 {
				return bytes.Clone(buf[:n]), off
			}
		}
	}
	t.Fatal("no such bytes found")
	return nil, 0
}

// TestLeafEndsInZeros: a leaf whose last bytes are the first zeros of a block has to be cut again when the rest of the
// block becomes zero, for the block is a hole then.
func TestLeafEndsInZeros(t *testing.T) {
	c := newCorner(t)
	const block = 2 * blockSize
	data, end := cutInZeros(t, block)
	base := append(data, make([]byte, 3*blockSize)...)
	base[block+40000] = 1
	copy(base[block+blockSize:], unlike(1, 2*blockSize))
	next := bytes.Clone(base)
	next[block+40000] = 0
	c.same(base, next, Extent{block + 40000, 1})
	next[block+40000] = 2
	c.same(base, next, Extent{block + 40000, 1})
	c.same(base, base[:block+30000])
	c.same(base, base[:end])
	c.same(base, base[:end-1])
	c.same(base[:block+30000], base, Extent{block + 30000, int64(len(base))})
}

// TestLeafEndsInFormerHole: a boundary in what was a hole, behind the last byte that was written.
func TestLeafEndsInFormerHole(t *testing.T) {
	c := newCorner(t)
	const n = blockSize + 5000
	data, _ := cutInZeros(t, n)
	base := make([]byte, 1<<20)
	next := bytes.Clone(base)
	copy(next, data)
	c.same(base, next, Extent{0, n})
}

// TestRunGrowsIntoHole: the last leaf before a hole goes on when the hole's first block gets data.
func TestRunGrowsIntoHole(t *testing.T) {
	c := newCorner(t)
	for _, blocks := range []int{1, 2, 3, 5} {
		base := make([]byte, 1<<20)
		copy(base, unlike(3, blocks*blockSize))
		for _, off := range []int{0, 1, 1000, blockSize - 1, blockSize} {
			next := bytes.Clone(base)
			at := blocks*blockSize + off
			next[at] = 7
			c.same(base, next, Extent{int64(at), 1})
			c.same(next, base, Extent{int64(at), 1})
		}
	}
}

// TestHoleGrows: a tree that is one hole becomes part of a larger one, at all sizes where a level begins.
func TestHoleGrows(t *testing.T) {
	c := newCorner(t)
	resize := func(base Content, size int64) Content {
		t.Helper()
		st, _, err := c.s.Edit(context.Background(), base, size, nil, bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		return st.Content
	}
	sizes := []int64{1, MaxBlob, MaxBlob + 1}
	for level := 1; level < maxLevel; level++ {
		sizes = append(sizes, windowAt(level)-1, windowAt(level), windowAt(level)+1)
	}
	for _, from := range sizes {
		for _, to := range sizes {
			if got, want := resize(resize(Content{}, from), to), resize(Content{}, to); got != want {
				t.Errorf("a hole of %d bytes made one of %d gives %v, want %v", from, to, got, want)
			}
		}
	}
	// The same with one byte of data, at the start and where the smaller one ends.
	one := readerAt(func(p []byte, _ int64) (int, error) { p[0] = 1; return 1, nil })
	edit := func(base Content, size, at int64) Content {
		t.Helper()
		st, _, err := c.s.Edit(context.Background(), base, size, []Extent{{at, 1}}, one)
		if err != nil {
			t.Fatal(err)
		}
		return st.Content
	}
	for _, from := range sizes[1:] {
		for _, to := range sizes[1:] {
			for _, at := range []int64{0, min(from, to) - 1} {
				if got, want := resize(edit(Content{}, from, at), to), edit(Content{}, to, at); got != want {
					t.Errorf("%d bytes with data at %d made %d give %v, want %v", from, at, to, got, want)
				}
			}
		}
	}
}

// TestFailedAppendKeepsOthers: the room of a failed write is used again only if nothing came behind it.
func TestFailedAppendKeepsOthers(t *testing.T) {
	x := memIndex{}
	s, _ := openFaulty(t, t.TempDir(), x, Options{})
	first := putOne(t, s, x, unlike(1, 1000))
	file := s.packs.files[s.packs.cur]
	var other Content
	s.packs.files[s.packs.cur] = &overtaken{packFile: file, fn: func() {
		s.packs.files[s.packs.cur] = file
		other = putOne(t, s, x, unlike(2, 3000))
	}}
	if _, err := s.PutPacked(unlike(3, 2000)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("PutPacked: %v", err)
	}
	want(t, s, putOne(t, s, x, unlike(4, 9000)), unlike(4, 9000))
	want(t, s, other, unlike(2, 3000))
	want(t, s, first, unlike(1, 1000))
}

// overtaken is a file whose write fails after another one.
type overtaken struct {
	packFile
	fn func()
}

func (o *overtaken) WriteAt([]byte, int64) (int, error) {
	o.fn()
	return 0, syscall.ENOSPC
}

// TestGivenUpStaged: blobs that only a Staged that was given up wrote are named by the one that shares them.
func TestGivenUpStaged(t *testing.T) {
	x := memIndex{}
	s, _ := openFaulty(t, t.TempDir(), x, Options{})
	a, err := s.PutPacked(unlike(1, 5000))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.PutPacked(unlike(1, 5000))
	if err != nil || len(b.Packed) != 1 {
		t.Fatalf("%d locations, %v", len(b.Packed), err)
	}
	s.Applied([]Staged{a})
	locs, err := s.Settle(context.Background(), []Staged{b})
	if err != nil {
		t.Fatal(err)
	}
	x.add(locs)
	s.Applied([]Staged{b})
	want(t, s, b.Content, unlike(1, 5000))
}
