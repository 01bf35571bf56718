package store

import (
	"context"
	"fmt"
	"slices"
)

// DroppedWorkspaces lists the workspaces that were dropped and are not collected yet, the last dropped first.
func (s *Store) DroppedWorkspaces(ctx context.Context) ([]*Workspace, error) {
	list, err := workspaceRows(ctx, s.r, `WHERE dropped_at IS NOT NULL ORDER BY dropped_at DESC, id DESC`)
	return list, s.dbError("list dropped workspaces", err)
}

// countOnly is where OnlyHere stops counting on each timeline.
const countOnly = 10_000

// OnlyHere counts the changes in the past of a workspace, and on the timelines it has left, that no other live workspace
// has: what would be out of reach without it. It never looks at a tree. Nearly always it ends after a few rows, because
// the workspace that was forked, or a fork of it, is still there; the worst case are the timelines between it and such a
// one, and those that began there.
func (s *Store) OnlyHere(ctx context.Context, ws *Workspace) (int64, error) {
	n, err := s.onlyHere(ctx, ws)
	return n, s.dbError(fmt.Sprintf("find changes that only workspace %q has", ws.Name), err)
}

func (s *Store) onlyHere(ctx context.Context, ws *Workspace) (int64, error) {
	var own []TimelineID
	if _, err := scanAll(ctx, s.r, 1, `SELECT DISTINCT timeline_id FROM workspace_ref WHERE workspace_id = ? AND timeline_id IS NOT NULL`,
		[]any{int64(ws.ID)}, func(c *cells) error {
			own = append(own, TimelineID(c.int(0)))
			return nil
		}); err != nil {
		return 0, err
	}
	var sum int64
	for _, t := range own {
		n, _, err := s.onlyOn(ctx, ws.ID, Segment{t, MaxSeq})
		if err != nil {
			return 0, err
		}
		sum += n
	}
	view, err := s.viewOf(ctx, s.r, ws)
	if err != nil {
		return 0, err
	}
	path, err := view.lineage(ctx)
	if err != nil {
		return 0, err
	}
	for _, seg := range path {
		if slices.Contains(own, seg.Timeline) {
			continue
		}
		n, all, err := s.onlyOn(ctx, ws.ID, seg)
		if err != nil {
			return 0, err
		}
		if sum += n; all {
			break // whoever has all of this has all that is below
		}
	}
	return sum, nil
}

// Who reaches into a timeline: the live workspace that stands on it, those that are based on it, and those that are based
// on a timeline which began there. A workspace keeps the base that its timeline began at, so the base tells for all. The
// making of a workspace is no change that anybody would miss.
const (
	sqlStandsOn = `SELECT count(*) FROM workspace w WHERE w.timeline_id = ? AND w.dropped_at IS NULL AND w.id <> ?`
	// The highest base is the first that the index gives: there may be any number of forks.
	sqlBasedOn = `SELECT base_seq FROM workspace WHERE base_timeline_id = ? AND dropped_at IS NULL AND id <> ?
		ORDER BY base_seq DESC LIMIT 1`
	sqlBasedBelow = `WITH RECURSIVE below(id, cut) AS (
			SELECT id, parent_seq FROM timeline WHERE parent_id = ? AND hidden = 0
			UNION ALL SELECT t.id, b.cut FROM below b CROSS JOIN timeline t WHERE t.parent_id = b.id AND t.hidden = 0)
		SELECT COALESCE(max(b.cut), 0) FROM below b CROSS JOIN workspace w WHERE w.base_timeline_id = b.id
		AND w.dropped_at IS NULL AND w.id <> ?`
	sqlChangesIn = `SELECT count(*) FROM (
		SELECT 1 FROM change WHERE timeline_id = ? AND seq > ? AND seq <= ? AND kind <> ? LIMIT ?) n`
)

// onlyOn counts the changes of seg that no other live workspace than ws reaches. all says that one of them reaches all of
// seg, and with it everything below.
func (s *Store) onlyOn(ctx context.Context, ws WorkspaceID, seg Segment) (n int64, all bool, err error) {
	one := func(query string, args ...any) (n int64, err error) {
		_, err = scanAll(ctx, s.r, 1, query, args, func(c *cells) error {
			n = c.int(0)
			return nil
		})
		return n, err
	}
	if n, err = one(sqlStandsOn, int64(seg.Timeline), int64(ws)); err != nil || n > 0 {
		return 0, true, err
	}
	var reach Seq
	for _, query := range []string{sqlBasedOn, sqlBasedBelow} {
		seq, err := one(query, int64(seg.Timeline), int64(ws))
		if err != nil {
			return 0, false, err
		}
		if reach = max(reach, Seq(seq)); reach >= seg.Cut {
			return 0, true, nil
		}
		n, err = one(sqlChangesIn, int64(seg.Timeline), int64(reach), int64(seg.Cut), int64(OpWorkspace), int64(countOnly))
		if err != nil || n == 0 {
			return 0, false, err
		}
	}
	return n, false, nil
}
