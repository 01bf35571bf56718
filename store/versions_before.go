package store

import (
	"context"
	"fmt"
)

// Before is a version on the way back from another one.
type Before struct {
	*Version
	Command CommandID // that made it, 0 if unknown
}

// The way back: what a version replaced, else the inode's version before.
const sqlVersionsBefore = `WITH RECURSIVE l(id, n) AS (SELECT ?, 0
	UNION ALL SELECT CASE v.replaced_version_id WHEN 0 THEN v.parent_version_id ELSE v.replaced_version_id END, l.n + 1
		FROM l CROSS JOIN file_version v WHERE v.version_id = l.id AND v.origin_timeline_id = 0 AND l.n + 1 < ?)
	SELECT ` + versionCols + `, COALESCE(c.command_id, 0), l.n FROM l CROSS JOIN file_version v
	LEFT JOIN change c ON c.timeline_id = v.timeline_id AND c.seq = v.seq
	WHERE v.version_id = l.id AND v.origin_timeline_id = 0`

// VersionsBefore finds a version and at most limit - 1 before it, newest first: what each replaced, else the inode's version before.
// The list ends where one is not kept any more. It wraps ENOENT if there is no version id.
func (s *Store) VersionsBefore(ctx context.Context, id VersionID, limit int) ([]Before, error) {
	list := make([]Before, 0, limit)
	_, err := scanAll(ctx, s.r, versionWidth+2, sqlVersionsBefore, []any{int64(id), int64(limit)}, func(c *cells) error {
		v, err := c.version(0)
		if err == nil && c.int(versionWidth+1) != int64(len(list)) {
			err = fmt.Errorf("the versions before version %d are out of order: %w", id, ErrCorrupt)
		}
		list = append(list, Before{v, CommandID(c.int(versionWidth))})
		return err
	})
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	return list, s.dbError(fmt.Sprintf("find the versions before version %d", id), err)
}
