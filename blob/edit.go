package blob

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// ZeroReader is a source of an Edit that knows where it is zero.
type ZeroReader interface {
	io.ReaderAt
	// ZeroRun returns how many bytes from off on are known to be zero. Edit then does not read them.
	ZeroRun(off int64) int64
}

// cacheEdits is up to how many new bytes an Edit keeps in the cache: files that are appended to again and again are
// read at their end each time, large ones would push out everything else.
const cacheEdits = 1 << 20

// Edit stages the content that is base, cut or extended with zeros to size, and overwritten by src in the dirty extents.
// src is read only there, at the same offsets, and from several goroutines at once. Extents may overlap and reach beyond
// size; what is beyond is ignored.
//
// The Ref depends only on the bytes: every way to the same content gives the same Ref. Only the surroundings of dirty
// extents are read and hashed, at worst the windows of 4 MiB that they touch. Result of at most MaxBlob bytes are
// returned in Staged.Small, as StageSmall does; larger ones are appended to packs, but for what is stored already.
//
// The Staged of a base that is not applied yet must go into an Op no later than that of the result, which does not
// repeat the blobs of base that it shares.
func (s *Store) Edit(ctx context.Context, base Content, size int64, dirty []Extent, src io.ReaderAt) (Staged, EditStats, error) {
	if err := s.writable(); err != nil {
		return Staged{}, EditStats{}, err
	}
	if size < 0 || base.Size < 0 {
		return Staged{}, EditStats{}, fmt.Errorf("blob: edit of %d bytes to %d bytes: %w", base.Size, size, syscall.EINVAL)
	}
	dirty, err := tidy(dirty, size)
	if err != nil {
		return Staged{}, EditStats{}, err
	}
	if size <= MaxBlob {
		return s.editSmall(ctx, base, size, dirty, src)
	}
	if base, err = s.Unpatched(ctx, base); err != nil {
		return Staged{}, EditStats{}, err
	}
	e := s.newEdit(ctx, base, size, dirty, src)
	defer e.batch.leave()
	st, err := e.run()
	return st, e.batch.stats, err
}

// newEdit is an edit of dirty extents that tidy returned.
func (s *Store) newEdit(ctx context.Context, base Content, size int64, dirty []Extent, src io.ReaderAt) *edit {
	e := &edit{
		s: s, ctx: ctx, base: base, size: size, dirty: dirty, src: src, workers: s.o.Workers,
		batch: s.newBatch(s.o.Large, 0), made: map[int64]Ref{},
	}
	e.zero, _ = src.(ZeroReader)
	return e
}

// tidy returns the extents within size, in order, with those that touch joined.
func tidy(in []Extent, size int64) ([]Extent, error) {
	out := make([]Extent, 0, len(in))
	for _, e := range in {
		if e.Off < 0 || e.Len < 0 || e.End() < e.Off {
			return nil, fmt.Errorf("blob: extent of %d bytes at %d: %w", e.Len, e.Off, syscall.EINVAL)
		}
		if e.Off < size && e.Len > 0 {
			out = append(out, Extent{e.Off, min(e.End(), size) - e.Off})
		}
	}
	slices.SortFunc(out, func(a, b Extent) int { return cmpInt(a.Off, b.Off) })
	n := 0
	for _, e := range out {
		if n > 0 && e.Off <= out[n-1].End() {
			out[n-1].Len = max(out[n-1].End(), e.End()) - out[n-1].Off
		} else {
			out[n] = e
			n++
		}
	}
	return out[:n], nil
}

func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (s *Store) editSmall(ctx context.Context, base Content, size int64, dirty []Extent, src io.ReaderAt) (Staged, EditStats, error) {
	stats := EditStats{BytesHashed: size}
	data := make([]byte, size)
	if n := min(size, base.Size); n > 0 && !(len(dirty) == 1 && dirty[0].Off == 0 && dirty[0].Len >= n) {
		if _, err := s.ReadAt(ctx, base, data[:n], 0); err != nil && err != io.EOF {
			return Staged{}, stats, err
		}
		stats.BytesRead += n
	}
	for _, x := range dirty {
		if err := readFull(src, data[x.Off:x.End()], x.Off); err != nil {
			return Staged{}, stats, err
		}
		stats.BytesRead += x.Len
	}
	return s.StageSmall(data), stats, nil
}

// edit is one call of Edit or PutReader with a large result.
type edit struct {
	s     *Store
	ctx   context.Context
	base  Content
	size  int64
	dirty []Extent
	src   io.ReaderAt
	zero  ZeroReader // src, if it is one
	batch *batch
	bulk  bool // keep the cache for others
	// workers is how many goroutines make windows.
	workers int

	mu   sync.Mutex
	made map[int64]Ref // guarded by mu; the new level 1 nodes by offset, zero: a hole
}

func (e *edit) run() (Staged, error) {
	top := levelFor(e.size)
	root, err := e.rootPart(top)
	if err != nil {
		return Staged{}, err
	}
	var todo []part
	if err := e.changed(root, &todo); err != nil {
		return Staged{}, err
	}
	if len(e.made) > 0 { // by an Ahead
		todo = slices.DeleteFunc(todo, func(p part) bool {
			_, ok := e.made[p.start]
			return ok && p.size(e) == windowSize
		})
	}
	if err := e.windows(todo); err != nil {
		return Staged{}, err
	}
	return e.finish(root)
}

// finish makes the nodes above the windows, and stages the result.
func (e *edit) finish(root part) (Staged, error) {
	t := treeBuilder{e: e}
	ref, err := t.build(root)
	if err != nil {
		return Staged{}, err
	}
	if ref.IsZero() {
		ref = t.node(root.level, []child{{end: e.size}})
	}
	if err := e.batch.place(e.ctx, t.fresh); err != nil {
		return Staged{}, err
	}
	e.batch.stats.BytesHashed += t.hashed
	st := Staged{Content: Content{Ref: ref, Size: e.size}, Packed: e.batch.packed, turn: e.batch.turn}
	e.s.stage(st)
	return st, nil
}

// windows makes the level 1 nodes of todo.
func (e *edit) windows(todo []part) error {
	workers := min(e.workers, len(todo))
	if workers <= 1 {
		for _, p := range todo {
			if err := e.window(p); err != nil {
				return err
			}
		}
		return nil
	}
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		errs = make([]error, workers)
		stop atomic.Bool
	)
	for i := range workers {
		wg.Go(func() {
			for !stop.Load() {
				n := int(next.Add(1)) - 1
				if n >= len(todo) {
					return
				}
				if errs[i] = e.window(todo[n]); errs[i] != nil {
					stop.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// window makes one level 1 node.
func (e *edit) window(p part) error {
	if err := e.ctx.Err(); err != nil {
		return fmt.Errorf("blob: edit of %v: %w", e.base.Ref, err)
	}
	w := &window{
		s: e.s, ctx: e.ctx, src: e.src, start: p.start, size: p.size(e),
		oldSize: p.oldSize, trust: p.oldLevel >= 0, buf: e.s.bufs.getWindow(),
	}
	defer e.s.bufs.putWindow(w.buf)
	for i := e.dirtyAfter(p.start); i < len(e.dirty) && e.dirty[i].Off < p.start+w.size; i++ {
		off := max(0, e.dirty[i].Off-p.start)
		w.dirty = append(w.dirty, Extent{off, min(w.size, e.dirty[i].End()-p.start) - off})
	}
	var err error
	if w.old, err = e.oldLeaves(p); err != nil {
		return err
	}
	if err := w.run(); err != nil {
		return err
	}
	return e.windowDone(w)
}

// windowDone stores the leaves and the node of a window that was cut.
func (e *edit) windowDone(w *window) error {
	var ref Ref
	if len(w.leaves) > 1 || !w.leaves[0].ref.IsZero() {
		n := appendNode(make([]byte, 0, nodeHeader+len(w.leaves)*nodeEntry), 1, w.leaves)
		ref = Sum(n)
		w.stats.BytesHashed += int64(len(n))
		w.fresh = append(w.fresh, candidate{ref, n})
		e.s.cache.put(ref, n)
		e.s.cache.setLevel(ref, 1)
	}
	if err := e.batch.place(e.ctx, w.fresh); err != nil {
		return err
	}
	if !e.bulk && (e.size <= cacheEdits || w.stats.BytesHashed <= cacheEdits/2) {
		for _, c := range w.fresh {
			if e.s.cache.get(c.ref) == nil {
				e.s.cache.put(c.ref, append([]byte(nil), c.data...))
			}
		}
	}
	e.mu.Lock()
	e.made[w.start] = ref
	e.mu.Unlock()
	e.batch.addStats(w.stats)
	return nil
}
