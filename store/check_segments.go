package store

import (
	"context"
	"fmt"
)

// segments compares every hidden segment with what the timelines that it stands for say, row by row, and not by way of other
// hidden segments.
func (c *checker) segments(ctx context.Context) error {
	var list []*Timeline
	counts := make(map[TimelineID]int64)
	_, err := scanAll(ctx, c.q, 9, `SELECT `+timelineCols+`, change_count FROM timeline WHERE hidden = ? ORDER BY id`,
		[]any{int64(hiddenDone)}, func(cl *cells) error {
			t, err := cl.timeline()
			if err == nil {
				list = append(list, t)
				counts[t.ID] = cl.int(8)
			}
			return err
		})
	for i := 0; i < len(list) && err == nil; i++ {
		err = c.segment(ctx, list[i], counts[list[i].ID])
	}
	return err
}

// segmentRow is a row of a hidden segment: of a name (inode and type) or, with an empty name, of an inode (version, and
// where it is from).
type segmentRow struct {
	seq  Seq
	a, b int64
}

type segmentRows map[dirName]segmentRow

const (
	sqlSegmentNames = `SELECT parent_ino, name, seq, ino, kind FROM file_node WHERE timeline_id = ? AND seq <= ?`
	sqlSegmentPast  = `SELECT parent_ino, name, seq, ino, kind FROM file_node_history WHERE timeline_id = ? AND seq <= ? AND end_seq > ?`
	segmentInos     = `v.ino, v.seq, v.version_id, CASE v.origin_timeline_id WHEN 0 THEN v.timeline_id ELSE v.origin_timeline_id END`
	// A copied version is like the one it was copied from in every column.
	sqlSegmentSame = `SELECT count(*) FROM file_version h JOIN file_version v ON v.version_id = h.version_id AND v.origin_timeline_id = 0
		WHERE h.timeline_id = ? AND v.timeline_id = h.origin_timeline_id AND v.ino = h.ino AND v.seq = h.seq
		AND v.parent_version_id = h.parent_version_id AND v.replaced_version_id = h.replaced_version_id
		AND v.merge_version_id = h.merge_version_id AND v.mode = h.mode AND v.uid = h.uid AND v.gid = h.gid AND v.nlink = h.nlink
		AND v.rdev = h.rdev AND v.size = h.size AND v.holes = h.holes AND v.mtime = h.mtime AND v.ctime = h.ctime
		AND COALESCE(v.atime, v.mtime) = COALESCE(h.atime, h.mtime) AND COALESCE(v.content_hash, x'') = COALESCE(h.content_hash, x'')
		AND COALESCE(v.target, x'') = COALESCE(h.target, x'') AND COALESCE(v.xattrs, x'') = COALESCE(h.xattrs, x'')`
)

// add takes the rows of a timeline at a cut for what is not there yet.
func (r segmentRows) add(ctx context.Context, q querier, seg Segment) error {
	put := func(n dirName, row segmentRow) {
		if _, ok := r[n]; !ok {
			r[n] = row
		}
	}
	name := func(cl *cells) error {
		put(dirName{Ino(cl.int(0)), cl.string(1)}, segmentRow{Seq(cl.int(2)), cl.int(3), cl.int(4)})
		return nil
	}
	t, cut := int64(seg.Timeline), int64(seg.Cut)
	if _, err := scanAll(ctx, q, 5, sqlSegmentNames, []any{t, cut}, name); err != nil {
		return err
	}
	if _, err := scanAll(ctx, q, 5, sqlSegmentPast, []any{t, cut, cut}, name); err != nil {
		return err
	}
	query, args := stateOf(segmentInos, seg)
	_, err := scanAll(ctx, q, 4, query, args, func(cl *cells) error {
		put(dirName{Ino(cl.int(0)), ""}, segmentRow{Seq(cl.int(1)), cl.int(2), cl.int(3)})
		return nil
	})
	return err
}

func (c *checker) segment(ctx context.Context, t *Timeline, count int64) error {
	if len(t.Chain) == 0 {
		return nil // rule 34 tells
	}
	want, got := make(segmentRows), make(segmentRows)
	for _, seg := range t.Chain {
		if err := want.add(ctx, c.q, seg); err != nil {
			return err
		}
	}
	if err := got.add(ctx, c.q, Segment{t.ID, MaxSeq}); err != nil {
		return err
	}
	if err := c.withoutTombstones(ctx, t, want); err != nil {
		return err
	}
	inodes := int64(0)
	for n, w := range want {
		if n.name == "" {
			inodes++
		}
		if g, ok := got[n]; !ok || g != w {
			c.problem(ruleSegment, "the hidden segment %d has %s for %s, the timelines it stands for have %v", t.ID, segmentText(g, ok), n.text(), w)
		}
	}
	for n, g := range got {
		if _, ok := want[n]; !ok {
			c.problem(ruleSegment, "the hidden segment %d has %v for %s, the timelines it stands for have nothing", t.ID, g, n.text())
		}
	}
	if count != int64(len(got)) {
		c.problem(ruleSegment, "the hidden segment %d says that it has %d rows, it has %d", t.ID, count, len(got))
	}
	_, err := scanAll(ctx, c.q, 1, sqlSegmentSame, []any{int64(t.ID)}, func(cl *cells) error {
		if n := cl.int(0); n != inodes {
			c.problem(ruleSegment, "the hidden segment %d has %d versions as they were made, it should have %d", t.ID, n, inodes)
		}
		return nil
	})
	return err
}

// withoutTombstones takes those out that hide nothing below the stretch.
func (c *checker) withoutTombstones(ctx context.Context, t *Timeline, rows segmentRows) error {
	var names []dirName
	for n, row := range rows {
		if n.name != "" && row.a == 0 {
			names = append(names, n)
		}
	}
	last, err := timelineRow(ctx, c.q, t.Chain[len(t.Chain)-1].Timeline)
	if err != nil {
		return nil //nolint:nilerr // rule 34 tells
	}
	hits := make([]nameHit, len(names))
	if len(last.Chain) > 0 && len(names) > 0 {
		if hits, err = namesOn(ctx, c.q, last.Chain, names); err != nil {
			return err
		}
	}
	for i, h := range hits {
		if h.ino == 0 {
			delete(rows, names[i])
		}
	}
	return nil
}

func (n dirName) text() string {
	if n.name == "" {
		return fmt.Sprintf("inode %d", n.parent)
	}
	return fmt.Sprintf("name %q in directory %d", n.name, n.parent)
}

func segmentText(r segmentRow, ok bool) string {
	if !ok {
		return "nothing"
	}
	return fmt.Sprint(r)
}
