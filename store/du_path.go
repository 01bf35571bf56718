package store

import (
	"context"
	"fmt"
	"strings"
)

// LastPath is where an inode was last on a timeline, as far as changes there and on its ancestors tell; a part that they do not
// tell of is its number.
func (s *Store) LastPath(ctx context.Context, t TimelineID, ino Ino) (string, error) {
	var line []Segment
	if _, err := scanAll(ctx, s.r, 2, sqlLineage, []any{int64(MaxSeq), int64(t)}, func(c *cells) error {
		line = append(line, Segment{TimelineID(c.int(0)), Seq(c.int(1))})
		return nil
	}); err != nil {
		return "", s.dbError("find where an inode was", err)
	}
	var parts []string
	for ino != RootIno && len(parts) < 512 {
		parent, name := Ino(0), ""
		for _, seg := range line {
			found, err := scanAll(ctx, s.r, 2, `SELECT parent_ino, name FROM change_item WHERE timeline_id = ? AND ino = ? AND seq <= ?
				AND parent_ino <> 0 AND name <> ? ORDER BY seq DESC LIMIT 1`, []any{int64(seg.Timeline), int64(ino), int64(seg.Cut), []byte{}},
				func(c *cells) error {
					parent, name = Ino(c.int(0)), c.string(1)
					return nil
				})
			if err != nil {
				return "", s.dbError("find where an inode was", err)
			}
			if found {
				break
			}
		}
		if parent == 0 {
			parts = append(parts, fmt.Sprintf("inode %d", ino))
			break
		}
		parts = append(parts, name)
		ino = parent
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteString("/" + parts[i])
	}
	return strings.TrimPrefix(b.String(), "/"), nil
}
