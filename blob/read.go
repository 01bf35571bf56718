package blob

import (
	"context"
	"fmt"
	"io"
	"syscall"
)

// ReadAt fills p with the bytes of c from off on. It returns fewer than len(p) only with an error, which is io.EOF at
// the end of the content. Bytes that do not fit their Ref are never returned: the error wraps ErrCorrupt.
func (s *Store) ReadAt(ctx context.Context, c Content, p []byte, off int64) (int, error) {
	return s.ReadAtWith(ctx, c, p, off, nil)
}

// ReadAtWith is ReadAt that takes leaves from keep where it has them, and leaves those there that it reads whole.
func (s *Store) ReadAtWith(ctx context.Context, c Content, p []byte, off int64, keep *Leaves) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("blob: reading at offset %d: %w", off, syscall.EINVAL)
	}
	if off >= c.Size {
		return 0, io.EOF
	}
	var eof error
	if int64(len(p)) > c.Size-off {
		p, eof = p[:c.Size-off], io.EOF
	}
	if len(p) == 0 {
		return 0, eof
	}
	if c.Size <= MaxBlob {
		if loc, ok := keep.where(c.Ref); ok && int64(len(p)) == c.Size && loc.Size == c.Size && s.inMemory(c.Ref) == nil {
			if err := s.fetch(ctx, loc, p); err != nil {
				return 0, err
			}
			return len(p), eof
		}
		data, err := s.blob(ctx, c.Ref)
		if err == nil && int64(len(data)) != c.Size {
			err = s.wrongSize(c.Ref, len(data), c.Size)
		}
		if err != nil {
			return 0, err
		}
		return copy(p, data[off:]), eof
	}
	if pt := s.patch(c.Ref); pt != nil {
		if err := s.readPatch(ctx, pt, p, off); err != nil {
			return 0, err
		}
		return len(p), eof
	}
	r := leafReader{keep: keep}
	if err := r.collect(ctx, s, c.Ref, levelFor(c.Size), c.Size, p, off); err != nil {
		return 0, err
	}
	if err := r.fetch(ctx, s); err != nil {
		return 0, err
	}
	return len(p), eof
}

// Reader returns a reader of all of c, which also seeks and reads at offsets. ctx bounds every read.
func (s *Store) Reader(ctx context.Context, c Content) *io.SectionReader {
	return io.NewSectionReader(contentReader{s, ctx, c}, 0, c.Size)
}

type contentReader struct {
	s   *Store
	ctx context.Context
	c   Content
}

func (r contentReader) ReadAt(p []byte, off int64) (int, error) {
	return r.s.ReadAt(r.ctx, r.c, p, off)
}

// Cached reports whether ReadAt of these bytes would be answered from memory. Blobs that are staged in a pack are not
// counted as such: reading them may wait for the disk.
func (s *Store) Cached(c Content, off int64, n int) bool {
	end := min(off+int64(n), c.Size)
	if off < 0 || off >= end {
		return true
	}
	if c.Size <= MaxBlob {
		return s.inMemory(c.Ref) != nil || s.runs.has(c.Ref)
	}
	if s.patch(c.Ref) != nil {
		ok := false
		if c, ok = s.Settled(c); !ok {
			return false
		}
	}
	return s.cachedBelow(c.Ref, levelFor(c.Size), c.Size, off, end)
}

func (s *Store) cachedBelow(ref Ref, level int, size, off, end int64) bool {
	n := s.cachedNode(ref, level, size)
	if n == nil {
		return false
	}
	for i := n.find(off); i < n.count() && n.start(i) < end; i++ {
		start, ref := n.start(i), n.ref(i)
		switch {
		case ref.IsZero():
		case level == 1:
			if s.inMemory(ref) == nil {
				return false
			}
		case !s.cachedBelow(ref, level-1, n.end(i)-start, max(off-start, 0), min(end, n.end(i))-start):
			return false
		}
	}
	return true
}

// leafReader gathers the leaves that one read needs and that are not in memory, to look them up in one go.
type leafReader struct {
	leaves []leafRead
	keep   *Leaves // or nil
}

// leafRead is a part of a leaf and where it goes.
type leafRead struct {
	ref  Ref
	size int64
	off  int64
	p    []byte
}

// collect walks the tree below ref for the bytes from off on, counted from the node's start, and fills in of p what is
// holes or in memory.
func (r *leafReader) collect(ctx context.Context, s *Store, ref Ref, level int, size int64, p []byte, off int64) error {
	n, err := s.node(ctx, ref, level, size)
	if err != nil {
		return err
	}
	for i := n.find(off); len(p) > 0; i++ {
		start, end, ref := n.start(i), n.end(i), n.ref(i)
		part := p[:min(int64(len(p)), end-off)]
		switch {
		case ref.IsZero():
			clear(part)
		case level > 1:
			if err := r.collect(ctx, s, ref, level-1, end-start, part, off-start); err != nil {
				return err
			}
		default:
			if err := r.leaf(s, ref, end-start, part, off-start); err != nil {
				return err
			}
		}
		p, off = p[len(part):], off+int64(len(part))
	}
	return nil
}

// leaf copies part of a leaf from memory or notes it for fetch.
func (r *leafReader) leaf(s *Store, ref Ref, size int64, p []byte, off int64) error {
	if n := r.keep.read(ref, p, off); n == size {
		return nil
	} else if n != 0 {
		return s.wrongSize(ref, int(n), size)
	}
	if data := s.inMemory(ref); data != nil {
		if int64(len(data)) != size {
			return s.wrongSize(ref, len(data), size)
		}
		copy(p, data[off:])
		return nil
	}
	if r.leaves == nil {
		r.leaves = make([]leafRead, 0, 8)
	}
	r.leaves = append(r.leaves, leafRead{ref, size, off, p})
	return nil
}

func (r *leafReader) fetch(ctx context.Context, s *Store) error {
	var locs map[Ref]Location
	if batch, ok := s.index.(BatchIndex); ok && len(r.leaves) > 1 {
		refs := make([]Ref, 0, len(r.leaves))
		locs = make(map[Ref]Location, len(r.leaves))
		for i := range r.leaves {
			if loc, ok := s.pending.place(r.leaves[i].ref); ok {
				locs[loc.Ref] = loc
			} else if loc, ok := r.keep.where(r.leaves[i].ref); ok {
				locs[loc.Ref] = loc
			} else {
				refs = append(refs, r.leaves[i].ref)
			}
		}
		if len(refs) > 0 {
			if err := batch.LocateMany(ctx, refs, func(l Location) { locs[l.Ref] = l }); err != nil {
				return fmt.Errorf("blob: looking up %d blobs: %w", len(refs), err)
			}
		}
	}
	for i := range r.leaves {
		l := &r.leaves[i]
		loc, ok := locs[l.ref]
		if !ok {
			loc, _ = r.keep.where(l.ref)
		}
		if err := s.readLeaf(ctx, l, loc); err != nil {
			return err
		}
		if int64(len(l.p)) == l.size {
			r.keep.put(l.ref, l.p)
		}
	}
	return nil
}

// readLeaf reads what l asks for. loc may be the zero Location.
func (s *Store) readLeaf(ctx context.Context, l *leafRead, loc Location) error {
	if loc.Size == 0 {
		var err error
		if loc, err = s.locate(ctx, l.ref); err != nil {
			return err
		}
	}
	if loc.Size != l.size {
		return s.wrongSize(l.ref, int(loc.Size), l.size)
	}
	if int64(len(l.p)) == l.size { // all of it: no need to keep a copy, the reader moves on
		return s.fetch(ctx, loc, l.p)
	}
	data := make([]byte, l.size)
	if err := s.fetch(ctx, loc, data); err != nil {
		return err
	}
	s.cache.put(l.ref, data)
	copy(l.p, data[l.off:])
	return nil
}

// node returns a tree node that covers size bytes.
func (s *Store) node(ctx context.Context, ref Ref, level int, size int64) (node, error) {
	if n := s.cachedNode(ref, level, size); n != nil {
		return n, nil
	}
	data, err := s.bytesOf(ctx, ref, false) // beside it are leaves, which are read where they are needed
	if err != nil {
		return nil, err
	}
	n, err := parseNode(data, level, size)
	if err != nil {
		return nil, &CorruptError{Ref: ref, Why: err.Error()}
	}
	s.cache.setLevel(ref, level)
	return n, nil
}

// cachedNode returns a node that was checked before and is still in the cache, or nil.
func (s *Store) cachedNode(ref Ref, level int, size int64) node {
	data, known := s.cache.getLevel(ref)
	if known == level && node(data).size() == size {
		return data
	}
	return nil
}

// inMemory returns the bytes of a blob if no disk is needed for it, or nil.
func (s *Store) inMemory(ref Ref) []byte {
	if data := s.cache.get(ref); data != nil {
		return data
	}
	return s.pending.data(ref)
}

// blob returns the bytes of a blob, which belong to the cache.
func (s *Store) blob(ctx context.Context, ref Ref) ([]byte, error) { return s.bytesOf(ctx, ref, true) }

// bytesOf is blob; run: those beside it are worth reading, too.
func (s *Store) bytesOf(ctx context.Context, ref Ref, run bool) ([]byte, error) {
	if data := s.inMemory(ref); data != nil {
		return data, nil
	}
	if data := s.fromRun(ref); data != nil {
		return data, nil
	}
	loc, err := s.locate(ctx, ref)
	if err != nil {
		return nil, err
	}
	if loc.Size <= 0 || loc.Size > maxStored {
		return nil, s.wrongSize(ref, int(loc.Size), maxStored)
	}
	if run && loc.Size <= MaxBlob {
		s.readRun(loc)
	}
	data := make([]byte, loc.Size)
	if err := s.fetch(ctx, loc, data); err != nil {
		return nil, err
	}
	s.cache.put(ref, data)
	return data, nil
}
