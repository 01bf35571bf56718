package store

import (
	"context"

	"wsfs/blob"
)

// VersionsWith calls fn with every version whose content is made of one of refs, or is a tree that cannot be walked:
// what damage of those blobs means for files. The order is that of the versions' contents. It reads all trees.
func (s *Store) VersionsWith(ctx context.Context, refs map[blob.Ref]bool, fn func(*Version) error) error {
	hit := map[blob.Ref]bool{}
	var large []blob.Content
	_, err := scanAll(ctx, s.r, 2, `SELECT DISTINCT content_hash, size FROM file_version WHERE content_hash IS NOT NULL`, nil,
		func(c *cells) error {
			content := blob.Content{Ref: c.ref(0), Size: c.int(1)}
			switch {
			case refs[content.Ref]:
				hit[content.Ref] = true
			case content.Size > blob.MaxBlob:
				large = append(large, content)
			}
			return c.bad
		})
	if err != nil {
		return s.dbError("find versions by content", err)
	}
	for _, content := range large {
		err := s.blobs.Walk(ctx, content, func(ref blob.Ref) error {
			if refs[ref] {
				hit[content.Ref] = true
			}
			return nil
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			hit[content.Ref] = true
		}
	}
	if len(hit) == 0 {
		return nil
	}
	// One walk over all versions, however many contents are hit.
	found := make(map[blob.Ref][]*Version)
	_, err = scanAll(ctx, s.r, versionWidth, `SELECT `+versionCols+` FROM file_version v WHERE v.content_hash IS NOT NULL
		AND v.origin_timeline_id = 0 ORDER BY v.version_id`, nil, func(c *cells) error {
		v, err := c.version(0)
		if err == nil && hit[v.Content] {
			found[v.Content] = append(found[v.Content], v)
		}
		return err
	})
	if err != nil {
		return s.dbError("find versions by content", err)
	}
	for _, versions := range found {
		for _, v := range versions {
			if err := fn(v); err != nil {
				return err
			}
		}
	}
	return nil
}
