package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// patch is a patch that is staged.
type patch struct {
	n    int      // guarded by pending.mu; how many Staged have it
	root Location // of the list

	// mu is held while the list is read and while the content is worked out, so that nobody does it twice. It comes before
	// all other locks of the package.
	mu      sync.Mutex
	list    atomic.Pointer[patchList] // nil until it is needed; what it points to never changes
	settled atomic.Pointer[Staged]    // what the content is, once that was worked out; the patch itself if it could not be
}

// patch returns the staged patch that ref names, or nil.
func (s *Store) patch(ref Ref) *patch { return s.pending.patch(ref) }

// Settled returns what c is in truth if it is a patch that was worked out already.
func (s *Store) Settled(c Content) (Content, bool) {
	if p := s.patch(c.Ref); p != nil {
		if st := p.settled.Load(); st != nil {
			return st.Content, true
		}
	}
	return c, false
}

// Unpatched returns what c is in truth: c, unless it is a patch. That is worked out if need be, which takes as long as Edit
// would have taken. What comes of it is part of the patch's Staged: it is there as long as that, and after it was applied.
func (s *Store) Unpatched(ctx context.Context, c Content) (Content, error) {
	p := s.patch(c.Ref)
	if p == nil {
		return c, nil
	}
	st, err := s.settlePatch(ctx, p)
	if err != nil {
		return Content{}, err
	}
	return st.Content, nil
}

// settlePatch makes the tree of the content. It leaves a processor to others.
func (s *Store) settlePatch(ctx context.Context, p *patch) (*Staged, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if st := p.settled.Load(); st != nil {
		return st, nil
	}
	l, err := s.patchList(p)
	if err != nil {
		return nil, err
	}
	e := s.newEdit(ctx, l.base, l.size, l.dirty, patchBytes{s, l})
	e.bulk, e.workers = true, max(1, s.o.Workers-1)
	defer e.batch.leave()
	st, err := e.run()
	if errors.Is(err, syscall.EIO) {
		// What it lies over is damaged, or its own bytes are. It was acknowledged, so its version has to come; reading that
		// says what is wrong, and the bytes that were written are kept.
		s.o.Log.Error("a large file cannot be put together any more: reading this state of it fails", "ref", p.root.Ref.String(),
			"bytes", l.size, "err", err)
		st, err = Staged{Content: Content{Ref: p.root.Ref, Size: l.size}, Packed: append([]Location{p.root}, l.pieces...)}, nil
		s.stage(st)
	}
	if err != nil {
		return nil, fmt.Errorf("blob: working out the patch %v: %w", p.root.Ref, err)
	}
	p.settled.Store(&st)
	return &st, nil
}

// patchList returns the list, which nobody changes. Called with p.mu held.
func (s *Store) patchList(p *patch) (*patchList, error) {
	if l := p.list.Load(); l != nil {
		return l, nil
	}
	if p.root.Size <= 0 || p.root.Size > maxStored {
		return nil, s.wrongSize(p.root.Ref, int(p.root.Size), maxStored)
	}
	data := make([]byte, p.root.Size)
	if err := s.load(p.root, data); err != nil {
		return nil, err
	}
	l, err := parsePatch(data)
	if err != nil {
		return nil, &CorruptError{Ref: p.root.Ref, Pack: p.root.Pack, Offset: p.root.Offset, Why: err.Error()}
	}
	p.list.Store(l)
	return l, nil
}

// patchListOf is patchList without p.mu.
func (s *Store) patchListOf(p *patch) (*patchList, error) {
	if l := p.list.Load(); l != nil {
		return l, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.patchList(p)
}

// readPatch is ReadAt of a patch, within its size.
func (s *Store) readPatch(ctx context.Context, pt *patch, p []byte, off int64) error {
	settled := pt.settled.Load()
	if settled != nil && settled.Content.Ref == pt.root.Ref {
		return &CorruptError{Ref: pt.root.Ref, Why: "what it was written over cannot be read"}
	}
	if settled != nil {
		n, err := s.ReadAt(ctx, settled.Content, p, off)
		if n == len(p) {
			err = nil
		}
		return err
	}
	l, err := s.patchListOf(pt)
	if err != nil {
		return err
	}
	i, _ := slices.BinarySearchFunc(l.dirty, off, func(x Extent, off int64) int {
		if x.End() <= off {
			return -1
		}
		return 1
	})
	for len(p) > 0 {
		part := p
		if i < len(l.dirty) && l.dirty[i].Off <= off {
			x := l.dirty[i]
			part = p[:min(int64(len(p)), x.End()-off)]
			if err := s.readPieces(l, part, l.at[i]+off-x.Off); err != nil {
				return err
			}
			i++
		} else {
			if i < len(l.dirty) {
				part = p[:min(int64(len(p)), l.dirty[i].Off-off)]
			}
			have := min(int64(len(part)), max(0, l.base.Size-off))
			clear(part[have:])
			if have > 0 {
				if n, err := s.ReadAt(ctx, l.base, part[:have], off); err != nil && (err != io.EOF || int64(n) < have) {
					return err
				}
			}
		}
		p, off = p[len(part):], off+int64(len(part))
	}
	return nil
}

// readPieces fills p with what lies at the offset at of all pieces together.
func (s *Store) readPieces(l *patchList, p []byte, at int64) error {
	for len(p) > 0 {
		loc := l.pieces[at/pieceSize]
		data := s.cache.get(loc.Ref)
		if data == nil {
			data = make([]byte, loc.Size)
			if err := s.load(loc, data); err != nil {
				return err
			}
			s.cache.put(loc.Ref, data)
		}
		n := copy(p, data[at%pieceSize:])
		p, at = p[n:], at+int64(n)
	}
	return nil
}

// patchBytes is the source of the Edit that settles a patch: it is asked within the extents only.
type patchBytes struct {
	s *Store
	l *patchList
}

func (b patchBytes) ReadAt(p []byte, off int64) (int, error) {
	i, _ := slices.BinarySearchFunc(b.l.dirty, off, func(x Extent, off int64) int {
		if x.End() <= off {
			return -1
		}
		return 1
	})
	if i == len(b.l.dirty) || b.l.dirty[i].Off > off || b.l.dirty[i].End() < off+int64(len(p)) {
		return 0, io.ErrUnexpectedEOF
	}
	if err := b.s.readPieces(b.l, p, b.l.at[i]+off-b.l.dirty[i].Off); err != nil {
		return 0, err
	}
	return len(p), nil
}
