package store

import (
	"context"
	"encoding/binary"
	"fmt"

	"wsfs/blob"
)

// The newest version of a file says where its content is, if that is one blob: files of a directory lie together, and their contents
// scattered among those of all times, each behind an index in which neighbours are no neighbours. It is a hint, right when it was
// written. What collecting moves is found by the index, as what has no place is; nothing but time depends on it.

// appendPlace adds a place as it is stored: encoding, pack, and either offset and length or the bytes themselves.
func appendPlace(b []byte, l *blob.Location) []byte {
	b = binary.AppendUvarint(append(b, byte(l.Encoding)), uint64(l.Pack))
	if l.Pack == 0 {
		return append(b, l.Data...)
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(l.Offset)), uint64(l.Length))
}

// decodePlace reads what appendPlace wrote; false if it is none.
func decodePlace(b []byte, ref blob.Ref, size int64) (blob.Location, bool) {
	if len(b) < 3 {
		return blob.Location{}, false
	}
	l := blob.Location{Ref: ref, Size: size, Encoding: blob.Encoding(b[0])}
	pack, n := binary.Uvarint(b[1:])
	if n <= 0 || pack > 1<<32-1 {
		return l, false
	}
	l.Pack, b = uint32(pack), b[1+n:]
	if pack == 0 {
		l.Data, l.Length = append([]byte(nil), b...), int64(len(b))
		return l, len(b) > 0
	}
	offset, n := binary.Uvarint(b)
	if n <= 0 {
		return l, false
	}
	length, m := binary.Uvarint(b[n:])
	l.Offset, l.Length = int64(offset), int64(length)
	return l, m > 0 && l.Offset > 0 && l.Length > 0
}

const sqlPlaces = `WITH k(n, t, i) AS (VALUES %s)
	SELECT k.n, v.content_hash, v.size, v.place FROM k CROSS JOIN file_version v WHERE v.timeline_id = k.t AND v.past = 0 AND v.ino = k.i`

// Places calls found for those of refs whose place the newest version of the inode says. An inode that has another content by now has
// nothing to say.
func (v *View) Places(ctx context.Context, inos []Ino, refs []blob.Ref, found func(blob.Location)) error {
	left := make([]int, len(inos))
	for i := range left {
		left[i] = i
	}
	c := newCells(4)
	for _, seg := range v.path {
		keys := make([]any, 0, 3*len(left))
		for _, i := range left {
			keys = append(keys, int64(i), int64(seg.Timeline), int64(inos[i]))
		}
		there := make(map[int]bool)
		if err := keyed(ctx, v.q, sqlPlaces, 3, keys, func(rows result) error {
			if err := c.scan(rows); err != nil {
				return err
			}
			i := int(c.int(0))
			if there[i] = true; c.null(3) || c.ref(1) != refs[i] {
				return c.bad
			}
			if loc, ok := decodePlace(c.lent(3), refs[i], c.int(2)); ok {
				found(loc)
			}
			return c.bad
		}); err != nil {
			return v.s.dbError(fmt.Sprintf("look where the contents of %d files are", len(inos)), err)
		}
		rest := left[:0]
		for _, i := range left {
			if !there[i] {
				rest = append(rest, i)
			}
		}
		if left = rest; len(left) == 0 {
			break
		}
	}
	return nil
}
