package store

import (
	"context"
	"fmt"

	"wsfs/blob"
)

const (
	blobCols    = `b.hash, b.size, b.encoding, b.data, b.pack, b.pack_offset, b.pack_length`
	sqlLocate   = `SELECT ` + blobCols + ` FROM blob b WHERE b.hash = ?`
	sqlLocateIn = `WITH k(n, hash) AS (VALUES %s) SELECT ` + blobCols + ` FROM k CROSS JOIN blob b WHERE b.hash = k.hash`
)

func (c *cells) location() blob.Location {
	return blob.Location{
		Ref: c.ref(0), Size: c.int(1), Encoding: blob.Encoding(c.int(2)), Data: c.bytes(3), Pack: uint32(c.int(4)),
		Offset: c.int(5), Length: c.int(6),
	}
}

// Locate says where a blob's bytes are; it implements blob.Index. The error wraps blob.ErrNotFound if there is none.
func (s *Store) Locate(ctx context.Context, ref blob.Ref) (blob.Location, error) {
	var loc blob.Location
	found, err := scanAll(ctx, s.r, 7, sqlLocate, []any{ref[:]}, func(c *cells) error {
		loc = c.location()
		return nil
	})
	if err == nil && !found {
		err = s.goneError(ctx, ref)
	}
	if err != nil {
		return blob.Location{}, s.dbError("locate blob "+ref.String(), err)
	}
	return loc, nil
}

const sqlHasBlobs = `WITH k(n, hash) AS (VALUES %s) SELECT k.n FROM k CROSS JOIN blob b WHERE b.hash = k.hash`

// MissingBlobs are those of refs that have no row, by their place in the list.
func (s *Store) MissingBlobs(ctx context.Context, refs []blob.Ref) ([]int, error) {
	keys := make([]any, 0, 2*len(refs))
	for i := range refs {
		keys = append(keys, int64(i), refs[i][:])
	}
	have := make([]bool, len(refs))
	c := newCells(1)
	err := keyed(ctx, s.r, sqlHasBlobs, 2, keys, func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		have[c.int(0)] = true
		return c.bad
	})
	var missing []int
	for i, ok := range have {
		if !ok || s.LetsGo(refs[i]) != "" {
			missing = append(missing, i)
		}
	}
	return missing, s.dbError(fmt.Sprintf("look for %d blobs", len(refs)), err)
}

// LocateMany calls found for each of refs that has a row, in any order; it implements blob.BatchIndex.
func (s *Store) LocateMany(ctx context.Context, refs []blob.Ref, found func(blob.Location)) error {
	keys := make([]any, 0, 2*len(refs))
	for i := range refs {
		keys = append(keys, int64(i), refs[i][:])
	}
	c := newCells(7)
	err := keyed(ctx, s.r, sqlLocateIn, 2, keys, func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		loc := c.location()
		if c.bad == nil {
			found(loc)
		}
		return c.bad
	})
	return s.dbError(fmt.Sprintf("locate %d blobs", len(refs)), err)
}
