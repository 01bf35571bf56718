package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"wsfs/blob"
)

// OpenFunc opens the store in dir with the index. The suite closes it.
type OpenFunc func(t *testing.T, dir string, index blob.Index) *blob.Store

// Run is the suite: what every Store promises, however it was opened.
func Run(t *testing.T, open OpenFunc) {
	for _, c := range []struct {
		name string
		run  func(*env)
	}{
		{"Small", small},
		{"Empty", empty},
		{"PutPacked", putPacked},
		{"PutMany", putMany},
		{"Boundaries", boundaries},
		{"EOF", eof},
		{"Dedup", dedup},
		{"DedupPending", dedupPending},
		{"Counted", counted},
		{"SettleTwice", settleTwice},
		{"Restage", restage},
		{"Reopen", reopen},
		{"Cached", cached},
		{"Canceled", canceled},
		{"Invalid", invalid},
		{"IndexFails", indexFails},
		{"SourceFails", sourceFails},
		{"Sparse", sparse},
		{"Punch", punch},
		{"Grow", grow},
		{"AppendLine", appendLine},
		{"Overwrite", overwrite},
		{"OverwriteZeros", overwriteZeros},
		{"OverwriteConstant", overwriteConstant},
		{"Segments", segments},
		{"Walk", walk},
		{"FlippedByte", flippedByte},
		{"TornTail", tornTail},
		{"PackGone", packGone},
		{"Moved", moved},
		{"Verify", verify},
		{"Concurrent", concurrent},
		{"Closed", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &env{T: t, ctx: context.Background(), dir: t.TempDir(), open: open, x: &Index{}}
			e.s = open(t, e.dir, e.x)
			defer func() {
				if err := e.s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}()
			c.run(e)
		})
	}
}

// env is one store under test.
type env struct {
	*testing.T
	ctx  context.Context
	dir  string
	open OpenFunc
	x    *Index
	s    *blob.Store
}

// reopen closes the store and opens it again: nothing is pending or cached then.
func (e *env) reopen() {
	e.Helper()
	if err := e.s.Close(); err != nil {
		e.Fatalf("Close: %v", err)
	}
	e.s = e.open(e.T, e.dir, e.x)
}

// apply does what the applier does with a group.
func (e *env) apply(items ...blob.Staged) {
	e.Helper()
	locs, err := e.s.Settle(e.ctx, items)
	if err != nil {
		e.Fatalf("Settle: %v", err)
	}
	if err := e.s.Sync(); err != nil {
		e.Fatalf("Sync: %v", err)
	}
	e.x.Insert(locs...)
	e.s.Applied(items)
}

// stage edits base so that it has data at off.
func (e *env) stage(base blob.Content, off int64, data []byte) (blob.Staged, blob.EditStats) {
	e.Helper()
	x := blob.Extent{Off: off, Len: int64(len(data))}
	st, stats, err := e.s.Edit(e.ctx, base, max(base.Size, x.End()), []blob.Extent{x}, at(off, data))
	if err != nil {
		e.Fatalf("Edit: %v", err)
	}
	return st, stats
}

// stored stages and applies content.
func (e *env) stored(data []byte) blob.Content {
	e.Helper()
	st, _ := e.stage(blob.Content{}, 0, data)
	e.apply(st)
	return st.Content
}

// want fails unless c is data.
func (e *env) want(c blob.Content, data []byte) {
	e.Helper()
	if c.Size != int64(len(data)) {
		e.Fatalf("content has %d bytes, want %d", c.Size, len(data))
	}
	got := make([]byte, len(data))
	n, err := e.s.ReadAt(e.ctx, c, got, 0)
	if n != len(data) || err != nil && err != io.EOF {
		e.Fatalf("ReadAt gave %d of %d bytes: %v", n, len(data), err)
	}
	if !bytes.Equal(got, data) {
		e.Fatalf("content of %d bytes reads back differently", len(data))
	}
}

// packed returns the bytes of all packs.
func (e *env) packed() (n int64) {
	e.Helper()
	for _, path := range e.packPaths() {
		st, err := os.Stat(path)
		if err != nil {
			e.Fatal(err)
		}
		n += st.Size()
	}
	return n
}

func (e *env) packPaths() []string {
	e.Helper()
	paths, err := filepath.Glob(filepath.Join(e.dir, "packs", "*.pack"))
	if err != nil {
		e.Fatal(err)
	}
	return paths
}

// at is a source that has data at off and fails elsewhere.
func at(off int64, data []byte) io.ReaderAt { return &piece{off, data} }

type piece struct {
	off  int64
	data []byte
}

var errOutside = errors.New("blobtest: the source was read outside of the dirty extents")

func (p *piece) ReadAt(b []byte, off int64) (int, error) {
	if off < p.off || off+int64(len(b)) > p.off+int64(len(p.data)) {
		return 0, errOutside
	}
	return copy(b, p.data[off-p.off:]), nil
}

// noise returns n bytes that do not compress, the same for the same seed.
func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b) //nolint:errcheck // never fails
	return b
}

// prose returns n bytes that compress.
func prose(seed byte, n int) []byte {
	b := noise(seed, n)
	for i := range b {
		b[i] = "etaoin shrdlu\n\tx"[b[i]&15]
	}
	return b
}

func small(e *env) {
	for _, data := range [][]byte{{0}, []byte("x"), prose(1, 200), noise(2, 300), prose(3, 4096), noise(4, blob.MaxBlob), make([]byte, blob.MaxBlob)} {
		st := e.s.StageSmall(bytes.Clone(data))
		if st.Content.Ref != blob.Sum(data) || !bytes.Equal(st.Small, data) || st.Packed != nil {
			e.Fatalf("StageSmall of %d bytes gave ref %v, %d small bytes, %d packed", len(data), st.Content.Ref, len(st.Small), len(st.Packed))
		}
		e.want(st.Content, data) // before
		e.apply(st)
		e.want(st.Content, data) // after
		e.reopen()
		e.want(st.Content, data) // and from the disk
		edited, _ := e.stage(blob.Content{}, 0, data)
		if edited.Content != st.Content {
			e.Fatalf("Edit gave %v, StageSmall %v", edited.Content, st.Content)
		}
		e.s.Applied([]blob.Staged{edited})
	}
}

func empty(e *env) {
	st := e.s.StageSmall(nil)
	ed, _ := e.stage(blob.Content{}, 0, nil)
	put, err := e.s.PutReader(e.ctx, bytes.NewReader(nil))
	if err != nil {
		e.Fatal(err)
	}
	pp, err := e.s.PutPacked(nil)
	if err != nil {
		e.Fatal(err)
	}
	for _, st := range []blob.Staged{st, ed, put, pp} {
		if st.Content != (blob.Content{}) || len(st.Packed) > 0 || len(st.Small) > 0 {
			e.Fatalf("empty content is staged as %+v", st)
		}
	}
	e.apply(st, ed, put, pp)
	if n, err := e.s.ReadAt(e.ctx, blob.Content{}, make([]byte, 1), 0); n != 0 || err != io.EOF {
		e.Fatalf("ReadAt of empty content: %d, %v", n, err)
	}
	if len(e.x.All()) != 0 {
		e.Fatal("empty content has rows")
	}
}

func putPacked(e *env) {
	for i, data := range [][]byte{[]byte("x"), prose(1, 255), prose(1, 257), noise(2, 5000), prose(3, blob.MaxBlob)} {
		st, err := e.s.PutPacked(data)
		if err != nil {
			e.Fatal(err)
		}
		if st.Small != nil || len(st.Packed) != 1 || st.Content.Ref != blob.Sum(data) {
			e.Fatalf("PutPacked %d gave %d small bytes, %d locations", i, len(st.Small), len(st.Packed))
		}
		e.want(st.Content, data)
		e.apply(st)
		again, err := e.s.PutPacked(data)
		if err != nil || len(again.Packed) != 0 {
			e.Fatalf("PutPacked of what is stored gave %d locations, %v", len(again.Packed), err)
		}
		e.apply(again)
		e.reopen()
		e.want(st.Content, data)
	}
	if _, err := e.s.PutPacked(make([]byte, blob.MaxBlob+1)); !errors.Is(err, syscall.EINVAL) {
		e.Fatalf("PutPacked of too much: %v", err)
	}
}

// boundaries: sizes at which the form of content changes, in every way it can be made, read in every way.
func boundaries(e *env) {
	for _, size := range []int{blob.MaxBlob, blob.MaxBlob + 1, 128 << 10, 256<<10 - 1, 4 << 20, 4<<20 + 1, 8<<20 + 70000} {
		data := append(prose(byte(size), size/2), noise(byte(size), size-size/2)...)
		st, _ := e.stage(blob.Content{}, 0, data)
		put, err := e.s.PutReader(e.ctx, io.MultiReader(bytes.NewReader(data[:size/3]), bytes.NewReader(data[size/3:])))
		if err != nil {
			e.Fatal(err)
		}
		if put.Content != st.Content || put.Small != nil {
			e.Fatalf("%d bytes: PutReader gave %v, Edit %v", size, put.Content, st.Content)
		}
		e.want(st.Content, data)
		e.apply(st, put)
		e.reopen()
		e.want(st.Content, data)
		got, err := io.ReadAll(e.s.Reader(e.ctx, st.Content))
		if err != nil || !bytes.Equal(got, data) {
			e.Fatalf("%d bytes: Reader gave %d, %v", size, len(got), err)
		}
		keep := blob.NewLeaves(1 << 20)
		if size%2 == 0 {
			keep.Expect(e.ctx, e.s, []blob.Content{st.Content, {Ref: blob.Sum([]byte("nothing")), Size: 7}})
		}
		whole := make([]byte, size)
		for range 2 {
			clear(whole)
			if n, err := e.s.ReadAtWith(e.ctx, st.Content, whole, 0, keep); n != size || err != nil && err != io.EOF || !bytes.Equal(whole, data) {
				e.Fatalf("%d bytes: ReadAtWith: %d, %v", size, n, err)
			}
		}
		r := rand.New(rand.NewPCG(uint64(size), 1))
		for range 50 {
			off := r.IntN(size)
			p := make([]byte, 1+r.IntN(min(size-off, 300<<10)))
			if n, err := e.s.ReadAt(e.ctx, st.Content, p, int64(off)); n != len(p) || err != nil && err != io.EOF || !bytes.Equal(p, data[off:off+len(p)]) {
				e.Fatalf("%d bytes: ReadAt of %d at %d: %d, %v", size, len(p), off, n, err)
			}
			if n, err := e.s.ReadAtWith(e.ctx, st.Content, p, int64(off), keep); n != len(p) || err != nil && err != io.EOF || !bytes.Equal(p, data[off:off+len(p)]) {
				e.Fatalf("%d bytes: ReadAtWith of %d at %d: %d, %v", size, len(p), off, n, err)
			}
		}
	}
}

func eof(e *env) {
	for _, size := range []int{100, 1 << 20} {
		data := noise(7, size)
		c := e.stored(data)
		p := make([]byte, 200)
		for _, x := range []struct {
			off  int64
			n    int
			want error
		}{{0, 0, nil}, {int64(size) - 50, 50, io.EOF}, {int64(size), 0, io.EOF}, {int64(size) + 5, 0, io.EOF}} {
			q := p
			if x.want == nil {
				q = nil
			}
			if n, err := e.s.ReadAt(e.ctx, c, q, x.off); n != x.n || err != x.want {
				e.Errorf("ReadAt of %d at %d of %d: %d, %v; want %d, %v", len(q), x.off, size, n, err, x.n, x.want)
			}
		}
		if _, err := e.s.ReadAt(e.ctx, c, p, -1); !errors.Is(err, syscall.EINVAL) {
			e.Errorf("ReadAt at -1: %v", err)
		}
	}
}

func concurrent(e *env) {
	shared := noise(1, 300<<10)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			cur := blob.Content{}
			model := []byte(nil)
			for i := range 8 {
				piece := shared
				if i%2 == 0 {
					piece = noise(byte(10*g+i), 100<<10)
				}
				x := blob.Extent{Off: int64(len(model)), Len: int64(len(piece))}
				st, _, err := e.s.Edit(e.ctx, cur, x.End(), []blob.Extent{x}, at(x.Off, piece))
				if err != nil {
					e.Error(err)
					return
				}
				model, cur = append(model, piece...), st.Content
				sm := e.s.StageSmall(noise(byte(i), 500)) // the same in all goroutines
				e.Run("", func(t *testing.T) {
					f := *e
					f.T = t
					f.apply(st, sm)
					f.want(sm.Content, noise(byte(i), 500))
					f.want(cur, model)
				})
			}
		})
	}
	wg.Wait()
}

func closed(e *env) {
	c := e.stored(noise(1, 100<<10))
	s := e.s
	e.reopen()
	if _, err := s.PutPacked(noise(2, 1000)); !errors.Is(err, blob.ErrClosed) {
		e.Errorf("PutPacked after Close: %v", err)
	}
	if _, _, err := s.Edit(e.ctx, blob.Content{}, 1<<20, nil, nil); !errors.Is(err, blob.ErrClosed) {
		e.Errorf("Edit after Close: %v", err)
	}
	if err := s.Sync(); !errors.Is(err, blob.ErrClosed) {
		e.Errorf("Sync after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		e.Errorf("second Close: %v", err)
	}
	e.want(c, noise(1, 100<<10))
}
