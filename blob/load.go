package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"sync"
)

func (s *Store) locate(ctx context.Context, ref Ref) (Location, error) {
	if loc, ok := s.pending.place(ref); ok {
		return loc, nil
	}
	if loc, ok := s.places.get(ref); ok {
		return loc, nil
	}
	loc, err := s.index.Locate(ctx, ref)
	if err != nil {
		return Location{}, fmt.Errorf("blob: looking up %v: %w", ref, err)
	}
	loc.Ref = ref
	return loc, nil
}

// fetch reads a blob into dst, which has its size, and verifies it. If its pack is gone, the blob may have been moved
// since it was looked up, and if its bytes are wrong, it may have been expected at a place that was none: it is looked up once more.
func (s *Store) fetch(ctx context.Context, loc Location, dst []byte) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("blob: reading %v: %w", loc.Ref, err)
	}
	err := s.load(loc, dst)
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	again, e := s.index.Locate(ctx, loc.Ref)
	if e != nil || again.Size != loc.Size || again.Pack == loc.Pack && again.Offset == loc.Offset {
		return err
	}
	again.Ref = loc.Ref
	return s.load(again, dst)
}

// scratch holds buffers for compressed bytes on their way to the decoder.
var scratch = sync.Pool{New: func() any { return new([maxStored]byte) }}

// load reads a blob from exactly loc and verifies it.
func (s *Store) load(loc Location, dst []byte) error {
	bad := func(why string) error {
		return &CorruptError{Ref: loc.Ref, Pack: loc.Pack, Offset: loc.Offset, Why: why}
	}
	var err error
	switch {
	case loc.Pack == 0:
		err = s.codec.decode(dst, loc.Data, loc.Encoding)
	case loc.Length <= 0 || loc.Length > maxStored || loc.Encoding == Raw && loc.Length != loc.Size:
		return bad(fmt.Sprintf("its row says %d stored bytes (%v) for %d", loc.Length, loc.Encoding, loc.Size))
	case loc.Encoding == Raw:
		if err := s.readPack(dst, loc); err != nil {
			return err
		}
	default:
		buf := scratch.Get().(*[maxStored]byte)
		defer scratch.Put(buf)
		if err := s.readPack(buf[:loc.Length], loc); err != nil {
			return err
		}
		err = s.codec.decode(dst, buf[:loc.Length], loc.Encoding)
	}
	if err != nil {
		return bad(err.Error())
	}
	if got := Sum(dst); got != loc.Ref {
		return bad("its bytes have the ref " + got.String())
	}
	return nil
}

// readPack fills b with stored bytes.
func (s *Store) readPack(b []byte, loc Location) error {
	err := s.packs.readAt(b, loc.Pack, loc.Offset)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, iofs.ErrNotExist), errors.Is(err, io.EOF):
		// Not wrapped: to the reader of a file a missing pack is damage, not a missing file.
		return &CorruptError{Ref: loc.Ref, Pack: loc.Pack, Offset: loc.Offset, Why: err.Error()}
	}
	return fmt.Errorf("blob: reading %v from %s at %d: %w", loc.Ref, s.packs.path(loc.Pack), loc.Offset, err)
}

func (s *Store) wrongSize(ref Ref, got int, want int64) error {
	return &CorruptError{Ref: ref, Why: fmt.Sprintf("it has %d bytes where %d belong", got, want)}
}

// CorruptError is the ErrCorrupt of one blob.
type CorruptError struct {
	Ref    Ref
	Pack   uint32 // 0: inline, or not known
	Offset int64
	Why    string
}

func (e *CorruptError) Error() string {
	where := ""
	if e.Pack != 0 {
		where = fmt.Sprintf(" at offset %d of pack %08d", e.Offset, e.Pack)
	}
	return fmt.Sprintf("blob: %v%s is damaged: %s; other files are not affected: put the pack back from a copy, or write the file anew",
		e.Ref, where, e.Why)
}

// Unwrap makes errors.Is find ErrCorrupt and through it syscall.EIO.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }
