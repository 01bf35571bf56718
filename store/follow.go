package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Turn is a channel that is closed when the database has more than it has now, or cannot go on. It is nil where this process
// writes nothing.
func (s *Store) Turn() <-chan struct{} {
	if s.pipe == nil {
		return nil
	}
	s.pipe.mu.Lock()
	defer s.pipe.mu.Unlock()
	return s.pipe.turn
}

const (
	sqlOwnTimelines = `SELECT t.id, t.head_seq FROM (SELECT DISTINCT timeline_id AS id FROM workspace_ref
		WHERE workspace_id = ? AND timeline_id IS NOT NULL) r CROSS JOIN timeline t WHERE t.id = r.id AND t.head_seq > ?`
	sqlChangesAfter = `SELECT ` + changeCols + ` FROM change c WHERE c.timeline_id = ? AND c.seq > ? AND c.seq <= ? ORDER BY c.seq LIMIT ?`
	sqlRefsAfter    = `SELECT workspace_id, n, generation, timeline_id, base_timeline_id, base_seq, why, session_id, command_id, op_id, at
		FROM workspace_ref WHERE workspace_id = ? AND n > ? ORDER BY n LIMIT ?`
)

// ChangesAfter lists what was changed in a workspace after a seq and up to another, oldest first, at most limit changes. A
// workspace never uses a seq twice, wherever its pointer was moved, so that one seq is a place among all of its changes.
func (s *Store) ChangesAfter(ctx context.Context, ws WorkspaceID, after, upTo Seq, limit int) ([]*ChangeRow, error) {
	var own []TimelineID
	_, err := scanAll(ctx, s.r, 2, sqlOwnTimelines, []any{int64(ws), int64(after)}, func(c *cells) error {
		own = append(own, TimelineID(c.int(0)))
		return nil
	})
	type found struct {
		row *ChangeRow
		ids [3]int64
	}
	var all []found
	for _, t := range own {
		if err != nil {
			break
		}
		_, err = scanAll(ctx, s.r, 8, sqlChangesAfter, []any{int64(t), int64(after), int64(upTo), int64(limit)}, func(c *cells) error {
			all = append(all, found{&ChangeRow{
				Timeline: TimelineID(c.int(0)), Seq: Seq(c.int(1)), OpID: c.int(2), Kind: OpKind(c.int(3)), At: c.int(4),
			}, [3]int64{c.int(5), c.int(6), c.int(7)}})
			return c.bad
		})
	}
	if err != nil {
		return nil, s.dbError(fmt.Sprintf("read what was changed after %d", after), err)
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.row.Seq, b.row.Seq) })
	all = all[:min(len(all), limit)]
	page, w := make([]*ChangeRow, len(all)), newWho(s.r)
	for i := range all {
		page[i] = all[i].row
		if err := w.fill(ctx, page[i], all[i].ids); err != nil {
			return nil, s.dbError("read changes", err)
		}
	}
	return page, s.dbError("read changes", s.changeItems(ctx, page))
}

// LastChange is the highest seq of a workspace's own changes, 0 if it has none.
func (s *Store) LastChange(ctx context.Context, ws WorkspaceID) (last Seq, err error) {
	_, err = scanAll(ctx, s.r, 2, sqlOwnTimelines, []any{int64(ws), int64(0)}, func(c *cells) error {
		last = max(last, Seq(c.int(1)))
		return nil
	})
	return last, s.dbError("find the last change", err)
}

// RefsAfter lists the reflog of a workspace after line n, oldest first, at most limit lines.
func (s *Store) RefsAfter(ctx context.Context, ws WorkspaceID, n int64, limit int) ([]Ref, error) {
	var list []Ref
	_, err := scanAll(ctx, s.r, 11, sqlRefsAfter, []any{int64(ws), n, int64(limit)}, func(c *cells) error {
		list = append(list, c.reflog())
		return c.bad
	})
	return list, s.dbError(fmt.Sprintf("read the reflog of workspace %d", ws), err)
}
