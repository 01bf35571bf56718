package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"syscall"
)

// Walk calls fn with the Ref of every blob that c names: the root first, each node before what is below it. A blob that
// occurs more than once is passed each time. If fn returns io/fs.SkipDir, what is below that node is left out; any other
// error ends the walk and is returned.
func (s *Store) Walk(ctx context.Context, c Content, fn func(Ref) error) error {
	switch {
	case c.Size == 0:
		return nil
	case c.Size <= MaxBlob:
		return skip(fn(c.Ref))
	}
	return s.walk(ctx, c.Ref, levelFor(c.Size), c.Size, fn)
}

func skip(err error) error {
	if errors.Is(err, iofs.SkipDir) {
		return nil
	}
	return err
}

func (s *Store) walk(ctx context.Context, ref Ref, level int, size int64, fn func(Ref) error) error {
	if err := fn(ref); err != nil {
		return skip(err)
	}
	n, err := s.node(ctx, ref, level, size)
	if err != nil {
		return err
	}
	for i := range n.count() {
		ref := n.ref(i)
		switch {
		case ref.IsZero():
		case level == 1:
			if err := skip(fn(ref)); err != nil {
				return err
			}
		default:
			if err := s.walk(ctx, ref, level-1, n.end(i)-n.start(i), fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// Segments calls fn with the data and the holes of c from off on, in order, until it returns false. Data and holes
// alternate and leave no gap. A hole is zeros that are stored nowhere: whole blocks of 64 KiB, or the last one. Zeros
// that do not fill such a block are data, and so is content of at most MaxBlob bytes.
func (s *Store) Segments(ctx context.Context, c Content, off int64, fn func(Segment) bool) error {
	if off < 0 {
		return fmt.Errorf("blob: segments from offset %d: %w", off, syscall.EINVAL)
	}
	if off >= c.Size {
		return nil
	}
	if c.Size <= MaxBlob {
		fn(Segment{Off: off, Len: c.Size - off})
		return nil
	}
	c, err := s.Unpatched(ctx, c)
	if err != nil {
		return err
	}
	g := segments{s: s, ctx: ctx, fn: fn, off: off, last: Segment{Off: off}}
	if err := g.below(c.Ref, levelFor(c.Size), 0, c.Size); err != nil {
		return err
	}
	if !g.done && g.last.Len > 0 {
		fn(g.last)
	}
	return nil
}

// Data writes the data of c to w, each byte at its offset. Where c has holes, nothing is written, so that what is sparse
// stays it; the size of w is the caller's to set.
func (s *Store) Data(ctx context.Context, c Content, w io.WriterAt) error {
	r := s.Reader(ctx, c)
	buf := make([]byte, min(c.Size, 256<<10))
	var failed error
	err := s.Segments(ctx, c, 0, func(g Segment) bool {
		for g.Len > 0 && !g.Hole {
			p := buf[:min(g.Len, int64(len(buf)))]
			if _, failed = r.ReadAt(p, g.Off); failed == nil || errors.Is(failed, io.EOF) { // the end, and all of p is there
				_, failed = w.WriteAt(p, g.Off)
			}
			if failed == nil {
				failed = ctx.Err()
			}
			if failed != nil {
				return false
			}
			g.Off, g.Len = g.Off+int64(len(p)), g.Len-int64(len(p))
		}
		return true
	})
	return errors.Join(err, failed)
}

type segments struct {
	s    *Store
	ctx  context.Context
	fn   func(Segment) bool
	off  int64   // where to begin
	last Segment // not passed on yet: it may become longer
	done bool
}

// below adds what is below a node that begins at the offset start of the content.
func (g *segments) below(ref Ref, level int, start, size int64) error {
	n, err := g.s.node(g.ctx, ref, level, size)
	if err != nil {
		return err
	}
	for i := n.find(max(g.off-start, 0)); i < n.count() && !g.done; i++ {
		ref, end := n.ref(i), start+n.end(i)
		if level == 1 || ref.IsZero() {
			g.add(end, ref.IsZero())
		} else if err := g.below(ref, level-1, start+n.start(i), n.end(i)-n.start(i)); err != nil {
			return err
		}
	}
	return nil
}

func (g *segments) add(end int64, hole bool) {
	if g.last.Len > 0 && g.last.Hole != hole {
		g.done = !g.fn(g.last)
		g.last = Segment{Off: g.last.Off + g.last.Len}
	}
	g.last.Hole = hole
	g.last.Len = end - g.last.Off
}

// Verify reads the stored bytes at loc and compares them with its Ref, and with the record's own header if they are in
// a pack. It uses no cache. The error wraps ErrCorrupt if they are wrong or gone.
func (s *Store) Verify(ctx context.Context, loc Location) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("blob: verifying %v: %w", loc.Ref, err)
	}
	bad := func(why string) error {
		return &CorruptError{Ref: loc.Ref, Pack: loc.Pack, Offset: loc.Offset, Why: why}
	}
	if loc.Size <= 0 || loc.Size > maxStored {
		return bad(fmt.Sprintf("its row says that it has %d bytes", loc.Size))
	}
	if err := s.load(loc, make([]byte, loc.Size)); err != nil {
		return err
	}
	return s.CheckRecord(ctx, loc)
}
