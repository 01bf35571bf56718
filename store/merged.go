package store

import (
	"context"
	"fmt"
)

// Merged is the state of another workspace that an OpMerge took in: all that led to it counts as known from then on.
type Merged struct {
	Timeline TimelineID
	Seq      Seq
}

func appendMerged(b []byte, m *Merged) []byte {
	b = putUint(b, uint64(m.Timeline))
	return putInt(b, int64(m.Seq))
}

func decodeMerged(d *decoder) *Merged {
	return &Merged{TimelineID(d.uint("merged timeline")), Seq(d.int("merged seq"))}
}

// ids is what a change row says of a merge.
func (m *Merged) ids() (timeline, seq int64) {
	if m == nil {
		return 0, 0
	}
	return int64(m.Timeline), int64(m.Seq)
}

// MergeRow is a merge on a timeline: the change that did it, and what it took in.
type MergeRow struct {
	Seq     Seq
	Command CommandID
	Merged
}

const (
	sqlMerges = `SELECT c.seq, c.command_id, c.merged_timeline_id, c.merged_seq FROM change c
		WHERE c.timeline_id = ? AND c.merged_timeline_id <> 0 AND c.seq <= ? ORDER BY c.seq`
	sqlMergedBy = `SELECT c.merged_timeline_id, c.merged_seq FROM change c WHERE c.timeline_id = ? AND c.seq = ?`
)

// Merges lists the merges among the changes of one timeline up to a seq, the oldest first. Its cost is that of the merges.
func (s *Store) Merges(ctx context.Context, t TimelineID, upTo Seq) ([]MergeRow, error) {
	var list []MergeRow
	_, err := scanAll(ctx, s.r, 4, sqlMerges, []any{int64(t), int64(upTo)}, func(c *cells) error {
		list = append(list, MergeRow{Seq(c.int(0)), CommandID(c.int(1)), Merged{TimelineID(c.int(2)), Seq(c.int(3))}})
		return c.bad
	})
	return list, s.dbError(fmt.Sprintf("list what was merged into timeline %d", t), err)
}

// mergedBy is what the change (t, seq) took in, nil if nothing.
func mergedBy(ctx context.Context, q querier, t TimelineID, seq Seq) (m *Merged, err error) {
	_, err = scanAll(ctx, q, 2, sqlMergedBy, []any{int64(t), int64(seq)}, func(c *cells) error {
		if c.int(0) != 0 {
			m = &Merged{TimelineID(c.int(0)), Seq(c.int(1))}
		}
		return c.bad
	})
	return m, err
}

// WorkspaceOn is the name of a workspace that has or had a timeline, "" if none is known any more.
func (s *Store) WorkspaceOn(ctx context.Context, t TimelineID) (name string, err error) {
	_, err = scanAll(ctx, s.r, 1, `SELECT w.name FROM workspace_ref r JOIN workspace w ON w.id = r.workspace_id
		WHERE r.timeline_id = ? ORDER BY w.dropped_at IS NOT NULL, w.id LIMIT 1`, []any{int64(t)}, func(c *cells) error {
		name = c.string(0)
		return nil
	})
	return name, s.dbError(fmt.Sprintf("find the workspace of timeline %d", t), err)
}

// schemaMerges: the merges of a timeline are found without its other changes.
func schemaMerges() []string {
	return []string{`CREATE INDEX change_merged ON change(timeline_id, seq, command_id, merged_timeline_id, merged_seq) WHERE merged_timeline_id <> 0`}
}
