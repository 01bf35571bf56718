package store

import (
	"context"
	"fmt"
	"slices"
)

// mergeChunk is about how many rows one transaction of merging reads.
const mergeChunk = 2000

// merged finds the hidden segment that stands for a run of neighbours, or builds it; below is what lies under the run. made
// says that it was there. A new one is not to be seen until its row says hiddenDone. All of it counts: its cut is MaxSeq, which
// also tells readers that there is no past to look at.
func (m *merger) merged(ctx context.Context, run, below []piece) (seg Segment, made bool, err error) {
	var stretch []Segment
	for _, p := range run {
		stretch = append(stretch, p.stretch...)
	}
	top := stretch[0]
	_, err = scanAll(ctx, m.s.r, 2, `SELECT id, chain FROM timeline WHERE parent_id = ? AND parent_seq = ? AND hidden = ?`,
		[]any{int64(top.Timeline), int64(top.Cut), int64(hiddenDone)}, func(c *cells) error {
			chain, err := decodeChain(c.string(1))
			if err == nil && slices.Equal(chain, stretch) {
				seg, made = Segment{TimelineID(c.int(0)), MaxSeq}, true
			}
			return err
		})
	if err != nil || made {
		return seg, made, err
	}
	seg = Segment{m.s.NewTimelineID(), MaxSeq}
	if seg.Timeline == 0 {
		return seg, false, fmt.Errorf("take a number for a hidden segment: %w", ErrReadOnly)
	}
	b := &mergeBuild{m: m, id: seg.Timeline, below: make([]Segment, len(below))}
	for i, p := range below {
		b.below[i] = p.Segment
	}
	if err := b.build(ctx, run, stretch); err != nil {
		_ = m.discard(ctx, b.id) // or the next start does it
		return seg, false, err
	}
	return seg, false, nil
}

// mergeBuild fills one hidden segment.
type mergeBuild struct {
	m     *merger
	id    TimelineID
	below []Segment
	rows  int64
}

// mergeStep copies from one table of one segment. bound finds where a piece of it ends that is not too long, copy takes
// what is in (after, bound] and has no nearer row in the hidden segment.
type mergeStep struct {
	seg         Segment
	bound, copy string
}

const (
	sqlBoundVersions = `SELECT max(x.k), count(*) FROM (SELECT ino AS k FROM file_version WHERE timeline_id = ? AND past = 0 AND ino > ?
		ORDER BY ino LIMIT ?) x`
	sqlBoundVersionsPast = `SELECT max(x.k), count(*) FROM (SELECT ino AS k FROM file_version WHERE timeline_id = ? AND past = 1 AND ino > ?
		ORDER BY ino LIMIT ?) x`
	sqlBoundLive = `SELECT max(x.k), count(*) FROM (SELECT parent_ino AS k FROM file_node WHERE timeline_id = ? AND parent_ino > ?
		ORDER BY parent_ino, name LIMIT ?) x`
	sqlBoundPast = `SELECT max(x.k), count(*) FROM (SELECT parent_ino AS k FROM file_node_history WHERE timeline_id = ?
		AND parent_ino > ? ORDER BY parent_ino, name, seq LIMIT ?) x`
	mergeVersions = `INSERT INTO file_version (timeline_id, past, ino, seq, version_id, parent_version_id, replaced_version_id,
		merge_version_id, origin_timeline_id, mode, uid, gid, nlink, rdev, size, holes, mtime, ctime, atime, content_hash, target, xattrs)
		SELECT ?, CASE v.nlink WHEN 0 THEN 1 ELSE 0 END, v.ino, v.seq, v.version_id, v.parent_version_id, v.replaced_version_id, v.merge_version_id,
		CASE v.origin_timeline_id WHEN 0 THEN v.timeline_id ELSE v.origin_timeline_id END, v.mode, v.uid, v.gid, v.nlink, v.rdev,
		v.size, v.holes, v.mtime, v.ctime, v.atime, v.content_hash, v.target, v.xattrs`
	mergeVersionsIn = ` AND v.ino > ? AND v.ino <= ?
		AND NOT EXISTS (SELECT 1 FROM file_version h WHERE h.timeline_id = ? AND h.past IN (0, 1) AND h.ino = v.ino)`
	// Values: the hidden segment, the timeline, once or twice the cut, after, bound, the hidden segment.
	sqlMergeVersions     = mergeVersions + sqlStateLive + mergeVersionsIn
	sqlMergeVersionsPast = mergeVersions + sqlStatePast + mergeVersionsIn
	// Values: the hidden segment, the timeline, after, bound, the cut, the hidden segment.
	sqlMergeLive = `INSERT INTO file_node (timeline_id, parent_ino, name, seq, ino, kind)
		SELECT ?, f.parent_ino, f.name, f.seq, f.ino, f.kind FROM file_node f
		WHERE f.timeline_id = ? AND f.parent_ino > ? AND f.parent_ino <= ? AND +f.seq <= ?
		AND NOT EXISTS (SELECT 1 FROM file_node h WHERE h.timeline_id = ? AND h.parent_ino = f.parent_ino AND h.name = f.name)`
	// and the cut once more
	sqlMergePast = `INSERT INTO file_node (timeline_id, parent_ino, name, seq, ino, kind)
		SELECT ?, f.parent_ino, f.name, f.seq, f.ino, f.kind FROM file_node_history f
		WHERE f.timeline_id = ? AND f.parent_ino > ? AND f.parent_ino <= ? AND +f.seq <= ?
		AND NOT EXISTS (SELECT 1 FROM file_node h WHERE h.timeline_id = ? AND h.parent_ino = f.parent_ino AND h.name = f.name)
		AND f.end_seq > ?`
)

func (b *mergeBuild) build(ctx context.Context, run []piece, stretch []Segment) error {
	w := b.m.s.w
	err := b.m.tx(ctx, func(ctx context.Context) error {
		_, err := w.exec(ctx, `INSERT INTO timeline (id, parent_id, parent_seq, head_seq, gc_seq, epoch, change_count, chain, hidden)
			VALUES (?, ?, ?, ?, 0, 0, 0, ?, ?)`, int64(b.id), int64(stretch[0].Timeline), int64(stretch[0].Cut), int64(stretch[0].Cut),
			encodeChain(stretch), int64(hiddenBuilding))
		return err
	})
	if err != nil {
		return err
	}
	var steps []mergeStep
	for _, p := range run { // the nearest row decides, so it comes first
		steps = append(steps, mergeStep{p.Segment, sqlBoundVersions, sqlMergeVersions},
			mergeStep{p.Segment, sqlBoundVersionsPast, sqlMergeVersionsPast}, mergeStep{p.Segment, sqlBoundLive, sqlMergeLive})
		if len(p.stretch) == 1 { // a hidden segment has no past
			steps = append(steps, mergeStep{p.Segment, sqlBoundPast, sqlMergePast})
		}
	}
	after := int64(0)
	for len(steps) > 0 && !b.m.ending() {
		err := b.m.tx(ctx, func(ctx context.Context) error {
			for left := int64(mergeChunk); left > 0 && len(steps) > 0; {
				read, bound, err := b.step(ctx, &steps[0], after)
				if err != nil {
					return err
				}
				left -= read + 10 // a statement costs as much as a few rows
				if after = bound; read < mergeChunk {
					after, steps = 0, steps[1:]
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for after := int64(0); after >= 0 && !b.m.ending(); {
		if err := b.m.tx(ctx, func(ctx context.Context) (err error) {
			after, err = b.prune(ctx, after)
			return err
		}); err != nil {
			return err
		}
	}
	return b.m.tx(ctx, func(ctx context.Context) error {
		_, err := w.exec(ctx, `UPDATE timeline SET change_count = ? WHERE id = ?`, b.rows, int64(b.id))
		return err
	})
}

// step copies one piece. read below mergeChunk says that it was the last of its table.
func (b *mergeBuild) step(ctx context.Context, s *mergeStep, after int64) (read, bound int64, err error) {
	w := b.m.s.w
	_, err = scanAll(ctx, w, 2, s.bound, []any{int64(s.seg.Timeline), after, int64(mergeChunk)}, func(c *cells) error {
		bound, read = c.int(0), c.int(1)
		return nil
	})
	if err != nil || read == 0 {
		return 0, after, err
	}
	args := []any{int64(b.id), int64(s.seg.Timeline), after, bound, int64(s.seg.Cut), int64(b.id)}
	switch cut := int64(s.seg.Cut); s.copy {
	case sqlMergeVersions:
		args = []any{int64(b.id), int64(s.seg.Timeline), cut, after, bound, int64(b.id)}
	case sqlMergeVersionsPast:
		args = []any{int64(b.id), int64(s.seg.Timeline), cut, cut, after, bound, int64(b.id)}
	case sqlMergePast:
		args = append(args, cut)
	}
	res, err := w.exec(ctx, s.copy, args...)
	if err != nil {
		return 0, 0, err
	}
	n, err := res.RowsAffected()
	b.rows += n
	return read, bound, err
}

// prune removes the tombstones of names that nothing below has, from directory after on. It returns where to go on, -1 at
// the end.
func (b *mergeBuild) prune(ctx context.Context, after int64) (int64, error) {
	w := b.m.s.w
	var bound, read int64
	_, err := scanAll(ctx, w, 2, sqlBoundLive, []any{int64(b.id), after, int64(mergeChunk)}, func(c *cells) error {
		bound, read = c.int(0), c.int(1)
		return nil
	})
	if err != nil || read == 0 {
		return -1, err
	}
	var names []dirName
	_, err = scanAll(ctx, w, 2, `SELECT parent_ino, name FROM file_node WHERE timeline_id = ? AND parent_ino > ? AND parent_ino <= ? AND +ino = 0`,
		[]any{int64(b.id), after, bound}, func(c *cells) error {
			names = append(names, dirName{Ino(c.int(0)), c.string(1)})
			return nil
		})
	if err != nil {
		return -1, err
	}
	hits := make([]nameHit, len(names))
	if len(b.below) > 0 && len(names) > 0 {
		if hits, err = namesOn(ctx, w, b.below, names); err != nil {
			return -1, err
		}
	}
	for i, h := range hits {
		if h.ino != 0 {
			continue
		}
		if _, err := w.exec(ctx, `DELETE FROM file_node WHERE timeline_id = ? AND parent_ino = ? AND name = ?`, int64(b.id),
			int64(names[i].parent), []byte(names[i].name)); err != nil {
			return -1, err
		}
		b.rows--
	}
	if read < mergeChunk {
		return -1, nil
	}
	return bound, nil
}

// discard removes a hidden segment that nobody lists.
func (m *merger) discard(ctx context.Context, id TimelineID) error {
	w := m.s.w
	for _, t := range []struct{ table, key, bound string }{
		{"file_version", "past = 0 AND ino", sqlBoundVersions}, {"file_version", "past = 1 AND ino", sqlBoundVersionsPast}, {"file_node", "parent_ino", sqlBoundLive},
	} {
		for read := int64(mergeChunk); read == mergeChunk; {
			if m.ending() {
				return nil
			}
			err := m.tx(ctx, func(ctx context.Context) error {
				var bound int64
				_, err := scanAll(ctx, w, 2, t.bound, []any{int64(id), int64(0), int64(mergeChunk)}, func(c *cells) error {
					bound, read = c.int(0), c.int(1)
					return nil
				})
				if err == nil {
					_, err = w.exec(ctx, `DELETE FROM `+t.table+` WHERE timeline_id = ? AND `+t.key+` <= ?`, int64(id), bound)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return m.tx(ctx, func(ctx context.Context) error {
		_, err := w.exec(ctx, `DELETE FROM timeline WHERE id = ? AND hidden = ?`, int64(id), int64(hiddenBuilding))
		return err
	})
}
