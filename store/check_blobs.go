package store

import (
	"context"
	"errors"
	"fmt"

	"wsfs/blob"
)

// contents checks that trees are complete and, if asked, that every blob can be read and is what it is stored for.
func (c *checker) contents(ctx context.Context) error {
	type content struct {
		blob.Content
		version VersionID
	}
	var large []content
	_, err := scanAll(ctx, c.q, 3, `SELECT content_hash, size, max(version_id) FROM file_version v
		WHERE content_hash IS NOT NULL AND size > ? AND NOT (`+sqlRemoved+`) GROUP BY content_hash, size`, []any{int64(blob.MaxBlob)},
		func(cl *cells) error {
			large = append(large, content{blob.Content{Ref: cl.ref(0), Size: cl.int(1)}, VersionID(cl.int(2))})
			return nil
		})
	if err != nil {
		return err
	}
	gone := map[blob.Ref]bool{}
	if _, err := scanAll(ctx, c.q, 1, `SELECT n.hash FROM content_gone n WHERE NOT EXISTS (SELECT 1 FROM blob b WHERE b.hash = n.hash)`, nil, func(cl *cells) error {
		gone[cl.ref(0)] = true
		return cl.bad
	}); err != nil {
		return err
	}
	for _, l := range large {
		if gone[l.Ref] {
			continue // a class let it go
		}
		if err := c.contentTree(ctx, l.Content, l.version); err != nil {
			return err
		}
	}
	if !c.bytes {
		return nil
	}
	var locs []blob.Location
	flush := func() error {
		for _, loc := range locs {
			err := c.verify(ctx, loc)
			if ctx.Err() != nil { // that, and nothing of the blob, may be what failed
				return ctx.Err()
			}
			if err != nil {
				c.report(Problem{Rule: ruleBytes, Text: err.Error(), Blob: loc.Ref})
			}
		}
		locs = locs[:0]
		return nil
	}
	_, err = scanAll(ctx, c.q, 7, `SELECT `+blobCols+` FROM blob b ORDER BY b.pack, b.pack_offset`, nil, func(cl *cells) error {
		if locs = append(locs, cl.location()); len(locs) < 1024 {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// verify reads a blob. What this state of the database says may be older than a collection that moved or removed it: where it is
// now counts.
func (c *checker) verify(ctx context.Context, loc blob.Location) error {
	err := c.s.blobs.Verify(ctx, loc)
	if err == nil || loc.Pack == 0 {
		return err
	}
	now, lerr := c.s.Locate(ctx, loc.Ref)
	switch {
	case errors.Is(lerr, blob.ErrNotFound):
		return nil
	case lerr != nil || now.Pack == loc.Pack && now.Offset == loc.Offset:
		return err
	}
	return c.s.blobs.Verify(ctx, now)
}

// contentTree asks for a row for every blob of a tree.
func (c *checker) contentTree(ctx context.Context, l blob.Content, version VersionID) error {
	var refs []blob.Ref
	err := c.s.blobs.Walk(ctx, l, func(ref blob.Ref) error {
		refs = append(refs, ref)
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, blob.ErrNotFound) && !errors.Is(err, blob.ErrCorrupt) {
		return err
	}
	if err != nil {
		c.report(Problem{
			Rule: ruleTree, Text: fmt.Sprintf("content %s (%d bytes) of version %d: %v", l.Ref, l.Size, version, err), Blob: l.Ref,
		})
		return nil
	}
	found := make(map[blob.Ref]bool, len(refs))
	if err := c.s.LocateMany(ctx, refs, func(loc blob.Location) { found[loc.Ref] = true }); err != nil {
		return err
	}
	for _, ref := range refs {
		if !ref.IsZero() && !found[ref] {
			c.report(Problem{
				Rule: ruleTree, Text: fmt.Sprintf("content %s of version %d names blob %s, which has no row", l.Ref, version, ref), Blob: ref,
			})
		}
	}
	return nil
}
