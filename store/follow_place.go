package store

import (
	"context"
	"fmt"
)

// Followed is how far the streams of a workspace are: its changes, the lines of its reflog, its conflicts.
type Followed struct {
	Seq      Seq
	Ref      int64
	Conflict ConflictID
}

// FollowedAt is the last place before which there is nothing of a moment (ns) or later: who goes on from there misses nothing that came then. Its
// cost is that of the workspace's changes.
func (s *Store) FollowedAt(ctx context.Context, ws WorkspaceID, at int64) (Followed, error) {
	id := int64(ws)
	own := `(SELECT DISTINCT timeline_id FROM workspace_ref WHERE workspace_id = ? AND timeline_id IS NOT NULL)`
	place := [3]int64{}
	for i, q := range []struct {
		col, from string
		args      []any
	}{
		{"seq", `change WHERE timeline_id IN ` + own, []any{id}},
		{"n", `workspace_ref WHERE workspace_id = ?`, []any{id}},
		{"id", `conflict WHERE id > 0` + sqlConflictOf, []any{id, id}},
	} {
		// What there is first: what comes meanwhile is later.
		for _, read := range []struct {
			what, more string
			args       []any
			less       int64
		}{{"max", "", q.args, 0}, {"min", " AND at >= ?", append(q.args[:len(q.args):len(q.args)], at), 1}} {
			_, err := scanAll(ctx, s.r, 1, "SELECT "+read.what+"("+q.col+") FROM "+q.from+read.more, read.args, func(c *cells) error {
				if !c.null(0) {
					place[i] = c.int(0) - read.less
				}
				return c.bad
			})
			if err != nil {
				return Followed{}, s.dbError(fmt.Sprintf("find what there was in workspace %d before a moment", ws), err)
			}
		}
	}
	return Followed{Seq(place[0]), place[1], ConflictID(place[2])}, nil
}
