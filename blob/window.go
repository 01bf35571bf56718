package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// window makes one level 1 node anew after an edit. What it makes depends on nothing but the bytes of the new content in
// the window: leaves of the old node are taken over only where cutting the new bytes afresh would give the same ones.
// All offsets in it count from the window's start. One goroutine uses it.
type window struct {
	s     *Store
	ctx   context.Context
	src   io.ReaderAt
	start int64   // of the window in the content
	size  int64   // bytes of new content in the window
	old   []child // leaves of the old content in the window; ends ascend, the last one is oldSize
	// oldSize is how much of the window the old content reaches.
	oldSize int64
	// trust: old is what cutting the old bytes afresh would give. Not so if it is one small blob.
	trust bool
	dirty []Extent // ascending, apart, within size
	// filled: all new bytes are in buf already.
	filled bool

	buf    []byte // windowSize bytes; offset in the window is the index
	lo, hi int64  // new bytes in buf that belong to the current run of data
	runEnd int64  // end of the current run of data, -1 while not known
	// sharpAt and sharp remember the last answer of affected.
	sharpAt, sharp int64

	leaves []child
	fresh  []candidate // new leaves; their bytes are in buf
	stats  EditStats
}

// run cuts the window. After it, leaves is complete.
func (w *window) run() error {
	w.runEnd, w.sharpAt = -1, -1
	o := 0
	for pos := int64(0); pos < w.size; {
		for o < len(w.old) && w.old[o].end <= pos {
			o++
		}
		if w.trust && o < len(w.old) {
			end, ok, err := w.takeOver(o, pos)
			if err != nil {
				return err
			}
			if ok {
				w.leaves = appendLeaf(w.leaves, child{w.old[o].ref, end})
				pos, w.hi, w.runEnd = end, 0, -1
				continue
			}
		}
		if w.hi <= pos && pos%blockSize == 0 { // a run of data or a hole begins here
			w.runEnd = -1
			hole, err := w.block(pos)
			if err != nil {
				return err
			}
			if hole {
				pos = min(pos+blockSize, w.size)
				w.leaves = appendLeaf(w.leaves, child{end: pos})
				continue
			}
		}
		end, err := w.chunk(pos)
		if err != nil {
			return err
		}
		data := w.buf[pos:end]
		ref := Sum(data)
		w.stats.BytesHashed += int64(len(data))
		w.leaves = append(w.leaves, child{ref, end})
		if !w.trust || !slices.ContainsFunc(w.old, func(c child) bool { return c.ref == ref }) {
			w.fresh = append(w.fresh, candidate{ref, data})
		}
		pos = end
		if w.runEnd == pos {
			w.hi, w.runEnd = 0, -1
		}
	}
	return nil
}

// appendLeaf adds a leaf that may be a hole; holes that meet are one.
func appendLeaf(list []child, c child) []child {
	if n := len(list); c.ref.IsZero() && n > 0 && list[n-1].ref.IsZero() {
		list[n-1].end = c.end
		return list
	}
	return append(list, c)
}

// takeOver says how far old leaf o can be used as it is from pos on, where the new content has a boundary. ok is false
// if it cannot.
func (w *window) takeOver(o int, pos int64) (end int64, ok bool, err error) {
	c := w.old[o]
	if c.ref.IsZero() {
		if pos%blockSize != 0 {
			return 0, false, nil // within a run of data that reaches into the former hole
		}
		end = min(ceilBlock(c.end), w.size, floorBlock(w.nextDirty(pos)))
		return end, end > pos, nil
	}
	if (o > 0 && w.old[o-1].end != pos || o == 0 && pos != 0) || c.end > w.size {
		return 0, false, nil
	}
	at, err := w.affected(pos, c.end)
	return c.end, c.end < at, err
}

// nextDirty returns the first dirty byte at or behind pos, or the largest offset there is.
func (w *window) nextDirty(pos int64) int64 {
	if i := w.dirtyAfter(pos); i < len(w.dirty) {
		return max(pos, w.dirty[i].Off)
	}
	return math.MaxInt64
}

// dirtyAfter returns the index of the first dirty extent that ends behind pos.
func (w *window) dirtyAfter(pos int64) int {
	i, _ := slices.BinarySearchFunc(w.dirty, pos, func(e Extent, pos int64) int {
		if e.End() <= pos {
			return -1
		}
		return 1
	})
	return i
}

// affected returns the offset behind which cutting may differ from the old cuts, looking from pos on: a leaf of data
// that begins at pos or later and ends before that offset stays. end is where the leaf in question ends.
func (w *window) affected(pos, end int64) (int64, error) {
	at := int64(math.MaxInt64)
	switch {
	case w.size > w.oldSize: // the last run of data may go on
		at = w.oldSize
	case w.size < w.oldSize && w.size%blockSize != 0: // what is left of the last block may be zero
		at = floorBlock(w.size)
	}
	i := w.dirtyAfter(pos)
	if i == len(w.dirty) {
		return at, nil
	}
	x := max(pos, w.dirty[i].Off)
	block := floorBlock(x)
	if x == block || end < block || end >= x || block >= w.oldSize || w.oldHole(block) {
		return min(at, block), nil
	}
	// The leaf ends before the first dirty byte, but in the same block. It stays if the block stays data, and it does
	// so for sure if what was written is not zero. This is what makes appending cheap.
	if w.sharpAt != x {
		w.sharpAt, w.sharp = x, block
		stop := min(w.dirty[i].End(), block+blockSize)
		if err := w.compose(x, stop); err != nil {
			return 0, err
		}
		if !isZero(w.buf[x:stop]) {
			w.sharp = x
		}
	}
	return min(at, w.sharp), nil
}

// oldHole reports whether the old content has a hole at off, which is less than oldSize.
func (w *window) oldHole(off int64) bool {
	i, _ := slices.BinarySearchFunc(w.old, off, func(c child, off int64) int {
		if c.end <= off {
			return -1
		}
		return 1
	})
	return w.old[i].ref.IsZero()
}

// block says whether the block at off is a hole. If it had to be read for that, and is data, it is in buf from lo to hi.
func (w *window) block(off int64) (hole bool, err error) {
	end := min(off+blockSize, w.size)
	clean := w.nextDirty(off) >= end
	switch {
	case clean && off >= w.oldSize:
		return true, nil
	case clean && w.trust && end >= min(off+blockSize, w.oldSize):
		return w.oldHole(off), nil
	}
	if err := w.compose(off, end); err != nil {
		return false, err
	}
	if isZero(w.buf[off:end]) {
		return true, nil
	}
	if w.hi != off {
		w.lo = off
	}
	w.hi = end
	return false, nil
}

// chunk finds the end of the chunk that begins at pos within a run of data, and has its bytes in buf.
func (w *window) chunk(pos int64) (end int64, err error) {
	if pos < w.lo || pos > w.hi || w.hi == 0 {
		w.lo, w.hi = pos, pos
	}
	for {
		// Where everything is dirty anyway, read as much as a chunk can need before looking for its end.
		for w.runEnd < 0 && w.hi < pos+int64(chunkLimit(pos)) && (w.hi == pos || w.allDirty(w.hi)) {
			if err := w.more(); err != nil {
				return 0, err
			}
		}
		n, found := cut(w.buf[pos:w.hi], pos)
		if found || w.runEnd >= 0 {
			return pos + int64(n), nil
		}
		if err := w.more(); err != nil {
			return 0, err
		}
	}
}

// more reads the rest of the block at hi, or finds that the run of data ends there.
func (w *window) more() error {
	at := w.hi
	if at == w.size {
		w.runEnd = at
		return nil
	}
	if at%blockSize == 0 {
		hole, err := w.block(at)
		if err != nil {
			return err
		}
		if hole {
			w.runEnd = at
			return nil
		}
		if w.hi > at {
			return nil
		}
	}
	end := min(floorBlock(at)+blockSize, w.size)
	if err := w.compose(at, end); err != nil {
		return err
	}
	w.hi = end
	return nil
}

// allDirty reports whether the whole block at off is overwritten.
func (w *window) allDirty(off int64) bool {
	end := min(floorBlock(off)+blockSize, w.size)
	i := w.dirtyAfter(off)
	return i < len(w.dirty) && w.dirty[i].Off <= off && w.dirty[i].End() >= end
}

// compose puts the new bytes from off to end into buf.
func (w *window) compose(off, end int64) error {
	if w.filled {
		return nil
	}
	for i := w.dirtyAfter(off); off < end; {
		stop, fromSrc := end, false
		if i < len(w.dirty) && w.dirty[i].Off < end {
			if w.dirty[i].Off <= off {
				stop, fromSrc = min(end, w.dirty[i].End()), true
				i++
			} else {
				stop = w.dirty[i].Off
			}
		}
		p := w.buf[off:stop]
		if fromSrc {
			if err := readFull(w.src, p, w.start+off); err != nil {
				return err
			}
			w.stats.BytesRead += int64(len(p))
		} else if err := w.readOld(p, off); err != nil {
			return err
		}
		off = stop
	}
	return nil
}

// readFull fills p from the source of an edit.
func readFull(src io.ReaderAt, p []byte, off int64) error {
	n, err := src.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("blob: reading %d new bytes at offset %d of the content, got %d: %w", len(p), off, n, err)
}

// readOld fills p with old content; behind its end are zeros.
func (w *window) readOld(p []byte, off int64) error {
	if off+int64(len(p)) > w.oldSize {
		have := max(0, w.oldSize-off)
		clear(p[have:])
		p = p[:have]
	}
	var r leafReader
	start := int64(0)
	for i := range w.old {
		c := w.old[i]
		if c.end > off && len(p) > 0 {
			part := p[:min(int64(len(p)), c.end-off)]
			if c.ref.IsZero() {
				clear(part)
			} else {
				w.stats.BytesRead += int64(len(part))
				if err := r.leaf(w.s, c.ref, c.end-start, part, off-start); err != nil {
					return err
				}
			}
			p, off = p[len(part):], off+int64(len(part))
		}
		start = c.end
	}
	return r.fetch(w.ctx, w.s)
}
