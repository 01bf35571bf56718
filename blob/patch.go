package blob

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
)

// A patch is large content written down as pieces of bytes over other content. Many small writes all over a file would
// have most of its chunks read, cut and stored while fsync waits; a patch stores what was written and nothing else. It is
// provisional: its Ref names this list and not the bytes, no row of the database ever has it, and Settle puts the tree of
// the content in its place. A patch never lies over another one.
//
// The list, as stored (a raw record in a pack; little-endian, u: unsigned varint):
//
//	offset  size
//	 0      4     "wsp1"
//	 4      8     bytes of the content
//	12      8     bytes of the base
//	20      32    Ref of the base, which is content that is no patch
//	52      u     number of pieces, then of each: Ref (32), pack (4), offset in the pack (8), bytes (4)
//	        u     number of extents, then of each: u bytes between the end of the one before and its start, u its length
//
// The pieces, one after the other, are the bytes of the extents, one after the other. They are raw, each but the last has
// pieceSize bytes.
const (
	patchMagic  = "wsp1"
	patchHeader = 4 + 8 + 8 + RefSize
	patchPiece  = RefSize + 4 + 8 + 4
	pieceSize   = 128 << 10
)

// patchList is a parsed list.
type patchList struct {
	base   Content
	size   int64
	dirty  []Extent // ascending, apart, within size
	at     []int64  // where the bytes of each are in the pieces
	pieces []Location
}

// StagePatch stages the content that Edit with the same arguments would stage, without working out what it is. ok is false, and
// nothing staged, if there is too much for one patch. Unlike Edit it needs size to be no less than that of base, and base
// no patch.
func (s *Store) StagePatch(ctx context.Context, base Content, size int64, dirty []Extent, src io.ReaderAt) (st Staged, ok bool, err error) {
	if err := s.writable(); err != nil {
		return Staged{}, false, err
	}
	if size <= MaxBlob || size < base.Size || s.patch(base.Ref) != nil {
		return Staged{}, false, fmt.Errorf("blob: patch of %d bytes to %d bytes: %w", base.Size, size, syscall.EINVAL)
	}
	l := &patchList{base: base, size: size}
	if l.dirty, err = tidy(dirty, size); err != nil {
		return Staged{}, false, err
	}
	total := l.place()
	if int64(len(l.appendTo(nil)))+(total+pieceSize-1)/pieceSize*patchPiece > maxStored {
		return Staged{}, false, nil
	}
	w := s.newRecordWriter(Raw, 0)
	w.room = s.o.Room
	defer w.release()
	buf := make([]byte, 0, pieceSize)
	put := func() error {
		if len(buf) == 0 {
			return nil
		}
		err := w.add(Sum(buf), buf)
		buf = buf[:0]
		return err
	}
	for _, x := range l.dirty {
		if err := ctx.Err(); err != nil {
			return Staged{}, false, fmt.Errorf("blob: patch of %v: %w", base.Ref, err)
		}
		for x.Len > 0 {
			n := int(min(x.Len, int64(pieceSize-len(buf))))
			buf = buf[:len(buf)+n]
			if err := readFull(src, buf[len(buf)-n:], x.Off); err != nil {
				return Staged{}, false, err
			}
			x.Off, x.Len = x.Off+int64(n), x.Len-int64(n)
			if len(buf) == pieceSize {
				if err := put(); err != nil {
					return Staged{}, false, err
				}
			}
		}
	}
	if err := errors.Join(put(), w.flush()); err != nil {
		return Staged{}, false, err
	}
	l.pieces = slices.Clone(w.locs)
	list := l.appendTo(nil)
	ref := Sum(list)
	if err := errors.Join(w.add(ref, list), w.flush()); err != nil {
		return Staged{}, false, err
	}
	st = Staged{Content: Content{Ref: ref, Size: size}, Patch: true, Packed: append(w.locs[len(l.pieces):], l.pieces...)}
	s.stage(st)
	s.patch(ref).list.Store(l)
	return st, true, nil
}

// place works out where the bytes of each extent are, and returns how many there are.
func (l *patchList) place() (total int64) {
	l.at = make([]int64, len(l.dirty))
	for i, x := range l.dirty {
		l.at[i] = total
		total += x.Len
	}
	return total
}

func (l *patchList) appendTo(b []byte) []byte {
	b = append(b, patchMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(l.size))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.base.Size))
	b = append(b, l.base.Ref[:]...)
	b = binary.AppendUvarint(b, uint64(len(l.pieces)))
	for _, p := range l.pieces {
		b = append(b, p.Ref[:]...)
		b = binary.LittleEndian.AppendUint32(b, p.Pack)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Offset))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Size))
	}
	b = binary.AppendUvarint(b, uint64(len(l.dirty)))
	end := int64(0)
	for _, x := range l.dirty {
		b = binary.AppendUvarint(b, uint64(x.Off-end))
		b = binary.AppendUvarint(b, uint64(x.Len))
		end = x.End()
	}
	return b
}

// parsePatch reads what appendTo wrote, so that reading through it needs no more checks.
func parsePatch(b []byte) (*patchList, error) {
	if len(b) < patchHeader || string(b[:4]) != patchMagic {
		return nil, errors.New("not a patch")
	}
	l := &patchList{
		size: int64(binary.LittleEndian.Uint64(b[4:])),
		base: Content{Size: int64(binary.LittleEndian.Uint64(b[12:])), Ref: Ref(b[20:patchHeader])},
	}
	if l.size <= MaxBlob || l.base.Size < 0 || l.base.Size > l.size {
		return nil, fmt.Errorf("a patch of %d bytes over %d", l.size, l.base.Size)
	}
	b = b[patchHeader:]
	number := func(least int) (int64, error) {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > uint64(l.size) || least > 0 && v > uint64((len(b)-n)/least) {
			return 0, errors.New("a number in a patch makes no sense")
		}
		b = b[n:]
		return int64(v), nil
	}
	count, err := number(patchPiece)
	if err != nil {
		return nil, err
	}
	for i := range count {
		p := Location{
			Ref: Ref(b[:RefSize]), Pack: binary.LittleEndian.Uint32(b[32:]), Offset: int64(binary.LittleEndian.Uint64(b[36:])),
			Size: int64(binary.LittleEndian.Uint32(b[44:])),
		}
		if p.Length = p.Size; p.Pack == 0 || p.Offset < 0 || p.Size <= 0 || p.Size > pieceSize || i+1 < count && p.Size != pieceSize {
			return nil, fmt.Errorf("piece %d of a patch makes no sense", i)
		}
		l.pieces = append(l.pieces, p)
		b = b[patchPiece:]
	}
	if count, err = number(2); err != nil {
		return nil, err
	}
	end := int64(0)
	for range count {
		gap, err := number(0)
		if err != nil {
			return nil, err
		}
		n, err := number(0)
		if err != nil || n == 0 || gap > l.size-end || n > l.size-end-gap {
			return nil, errors.New("an extent of a patch makes no sense")
		}
		l.dirty = append(l.dirty, Extent{end + gap, n})
		end += gap + n
	}
	have := int64(0)
	for _, p := range l.pieces {
		have += p.Size
	}
	if total := l.place(); have != total || len(b) != 0 {
		return nil, fmt.Errorf("a patch with %d bytes for %d, %d left over", have, total, len(b))
	}
	return l, nil
}
