package blob

import (
	"context"
	"fmt"
	"io"

	"github.com/zeebo/blake3"
)

// PackName is the name of the file of pack n in the directory packs.
func PackName(n uint32) string { return fmt.Sprintf("%08d.pack", n) }

// SumReader is the BLAKE3-256 of what r has, whatever its length, and that length.
func SumReader(r io.Reader) (Ref, int64, error) {
	h := blake3.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{r}, make([]byte, 256<<10))
	var ref Ref
	h.Sum(ref[:0])
	return ref, n, err
}

// CheckRecord compares loc with the header of the record that it names in a pack, and the pack's own. It does not read
// the stored bytes: it tells that this is the right place, and Verify that what lies there is whole. The error wraps
// ErrCorrupt.
func (s *Store) CheckRecord(ctx context.Context, loc Location) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("blob: verifying %v: %w", loc.Ref, err)
	}
	if loc.Pack == 0 {
		return nil
	}
	bad := func(why string) error {
		return &CorruptError{Ref: loc.Ref, Pack: loc.Pack, Offset: loc.Offset, Why: why}
	}
	if loc.Offset < packHeader+recordHeader {
		return bad("its row names bytes before the first record")
	}
	if loc.Offset == packHeader+recordHeader {
		var h [packHeader]byte
		first := loc
		first.Offset = 0
		if err := s.readPack(h[:], first); err != nil {
			return err
		}
		if err := checkPackHeader(h[:], loc.Pack); err != nil {
			return bad(err.Error())
		}
	}
	var h [recordHeader]byte
	head := loc
	head.Offset -= recordHeader
	if err := s.readPack(h[:], head); err != nil {
		return err
	}
	r, err := parseRecord(h[:])
	if err != nil {
		return bad(err.Error())
	}
	if r.ref != loc.Ref || r.size != loc.Size || r.stored != loc.Length || r.encoding != loc.Encoding {
		return bad("the record's header is that of another blob")
	}
	return nil
}

// CheckPack says what is wrong with the header of the pack file name in the directory packs.
func (s *Store) CheckPack(name string) error {
	n, ok := parsePackName(name)
	if !ok {
		return fmt.Errorf("blob: %s in %s is not the name of a pack", name, s.packs.dir)
	}
	var h [packHeader]byte
	if err := s.packs.readAt(h[:], n, 0); err != nil {
		return fmt.Errorf("blob: reading the header of %s: %w", s.packs.path(n), err)
	}
	if err := checkPackHeader(h[:], n); err != nil {
		return fmt.Errorf("blob: %s: %w", s.packs.path(n), err)
	}
	return nil
}
