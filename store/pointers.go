package store

import (
	"context"
	"fmt"
)

// DroppedWorkspaces lists the workspaces that were dropped and are not collected yet, the last dropped first.
func (s *Store) DroppedWorkspaces(ctx context.Context) ([]*Workspace, error) {
	list, err := workspaceRows(ctx, s.r, `WHERE dropped_at IS NOT NULL ORDER BY dropped_at DESC, id DESC`)
	return list, s.dbError("list dropped workspaces", err)
}

// countOwn is where OnlyHere stops counting.
const countOwn = 10_000

// OnlyHere counts the changes that a workspace made and that no other live workspace has in its past: what would be out
// of reach without it. It counts up to 10,000. It never looks at a tree; its cost is that of a few rows for each timeline
// that the workspace wrote, and of the timelines that began on those if a fork of the newest state cannot be found.
func (s *Store) OnlyHere(ctx context.Context, ws WorkspaceID) (int64, error) {
	what := fmt.Sprintf("find changes that only workspace %d has", ws)
	var own []TimelineID
	if _, err := scanAll(ctx, s.r, 1, `SELECT DISTINCT timeline_id FROM workspace_ref WHERE workspace_id = ? AND timeline_id IS NOT NULL`,
		[]any{int64(ws)}, func(c *cells) error {
			own = append(own, TimelineID(c.int(0)))
			return nil
		}); err != nil {
		return 0, s.dbError(what, err)
	}
	var sum int64
	for _, t := range own {
		n, err := s.onlyOn(ctx, ws, t)
		if err != nil {
			return 0, s.dbError(what, err)
		}
		sum += n
	}
	return sum, nil
}

// What reaches into a timeline: live workspaces that are based on it, and those that stand on a timeline that began there.
// A workspace keeps the base that its timeline began at, so the base tells for both. The making of a workspace is no
// change that anybody would miss.
const (
	sqlBasedOn = `SELECT COALESCE(max(base_seq), 0) FROM workspace
		WHERE base_timeline_id = ? AND dropped_at IS NULL AND id <> ?`
	sqlBasedBelow = `WITH RECURSIVE below(id, cut) AS (
			SELECT id, parent_seq FROM timeline WHERE parent_id = ?
			UNION ALL SELECT t.id, b.cut FROM below b JOIN timeline t ON t.parent_id = b.id)
		SELECT COALESCE(max(b.cut), 0) FROM below b JOIN workspace w ON w.base_timeline_id = b.id
		WHERE w.dropped_at IS NULL AND w.id <> ?`
	sqlOwnAbove = `SELECT count(*) FROM (SELECT 1 FROM change WHERE timeline_id = ? AND seq > ? AND kind <> ? LIMIT ?) n`
)

func (s *Store) onlyOn(ctx context.Context, ws WorkspaceID, t TimelineID) (int64, error) {
	one := func(query string, args ...any) (n int64, err error) {
		_, err = scanAll(ctx, s.r, 1, query, args, func(c *cells) error {
			n = c.int(0)
			return nil
		})
		return n, err
	}
	reach, n := int64(0), int64(0)
	for _, query := range []string{sqlBasedOn, sqlBasedBelow} {
		seq, err := one(query, int64(t), int64(ws))
		if err != nil {
			return 0, err
		}
		reach = max(reach, seq)
		n, err = one(sqlOwnAbove, int64(t), reach, int64(OpWorkspace), int64(countOwn))
		if err != nil || n == 0 {
			return 0, err
		}
	}
	return n, nil
}
