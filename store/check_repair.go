package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Repair mends what can be mended without losing anything: what is derived from other rows (indexes, counters, counts, read paths,
// hidden segments) is made anew, and what nothing names is removed. It returns what it did; Check tells what is left. Nobody
// else may use the store meanwhile: views that are open may lead through what is replaced.
func (s *Store) Repair(ctx context.Context) (did []string, err error) {
	if s.w == nil {
		return nil, errReadOnly("repair")
	}
	if err := s.Apply(ctx, s.Last()); err != nil {
		return nil, err
	}
	r := &repair{s: s}
	for _, step := range []func(context.Context) error{r.indexes, r.newest, r.counters, r.timelines, r.chains, r.marks, r.leftovers} {
		if err := step(ctx); err != nil {
			return r.did, s.dbError("repair", err)
		}
	}
	return r.did, s.commitDurably(ctx)
}

type repair struct {
	s   *Store
	did []string
}

func (r *repair) note(format string, args ...any) {
	r.did = append(r.did, fmt.Sprintf(format, args...))
}

// exec runs a statement in a transaction and notes how many rows it changed, if any.
func (r *repair) exec(ctx context.Context, what, query string, args ...any) error {
	return r.s.w.tx(ctx, func(ctx context.Context) error {
		res, err := r.s.w.exec(ctx, query, args...)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if n, _ := res.RowsAffected(); n > 0 { // the driver knows it
			r.note("%s: %d", what, n)
		}
		return nil
	})
}

// indexes makes those that are missing, and all of them anew if the database finds fault with one.
func (r *repair) indexes(ctx context.Context) error {
	have := map[string]bool{}
	if _, err := scanAll(ctx, r.s.r, 1, `SELECT name FROM sqlite_schema WHERE type = 'index'`, nil, func(c *cells) error {
		have[c.string(0)] = true
		return nil
	}); err != nil {
		return err
	}
	for _, create := range slices.Concat(allIndexes(), schema2(), schemaMerges(), schemaReviews()) {
		f := strings.Fields(create)
		i := slices.Index(f, "INDEX")
		if f[0] != "CREATE" || have[f[i+1]] {
			continue
		}
		if err := r.s.w.tx(ctx, func(ctx context.Context) error {
			_, err := r.s.w.conn.ExecContext(ctx, create)
			return err
		}); err != nil {
			return fmt.Errorf("make index %s: %w", f[i+1], err)
		}
		r.note("made the missing index %s", f[i+1])
	}
	bad := false
	if err := r.s.r.snapshot(ctx, func(q querier) error {
		c := &checker{s: r.s, q: q, report: func(p Problem) { bad = bad || strings.Contains(p.Text, "index") }}
		return c.integrity(ctx)
	}); err != nil || !bad {
		return err
	}
	r.s.w.mu.Lock()
	defer r.s.w.mu.Unlock()
	if _, err := r.s.w.conn.ExecContext(ctx, `REINDEX`); err != nil {
		return fmt.Errorf("make all indexes anew: %w", err)
	}
	r.note("made all indexes anew")
	return nil
}

// allIndexes are the statements that make the indexes of schema 1 which later ones left as they were.
func allIndexes() []string {
	var out []string
	for _, ix := range schemaIndexes() {
		if !strings.Contains(ix, "INDEX file_version_id ") {
			out = append(out, "CREATE "+ix)
		}
	}
	return out
}

// counters raises those that are behind the numbers in use. The numbers that this process holds are above them: it took
// them before it knew; it must end before new ones are taken.
func (r *repair) counters(ctx context.Context) error {
	for _, u := range counterUses() {
		var used int64
		if _, err := scanAll(ctx, r.s.r, 1, u.query, nil, func(c *cells) error {
			used = c.int(0)
			return nil
		}); err != nil {
			return err
		}
		if used == 0 {
			continue
		}
		if err := r.exec(ctx, "raised the counter of "+u.counter, `INSERT INTO counter (name, next) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET next = excluded.next WHERE counter.next < excluded.next`, u.counter, used+1); err != nil {
			return err
		}
	}
	return nil
}

// newest marks the newest version of each inode on each timeline anew.
func (r *repair) newest(ctx context.Context) error {
	const newer = `EXISTS (SELECT 1 FROM file_version w WHERE w.timeline_id = file_version.timeline_id AND w.past IN (0, 1)
		AND w.ino = file_version.ino AND w.seq > file_version.seq)`
	if err := r.exec(ctx, "moved versions to those of before", `UPDATE file_version SET past = 1 WHERE past = 0 AND (nlink = 0 OR `+newer+`)`); err != nil {
		return err
	}
	return r.exec(ctx, "marked versions as the newest", `UPDATE file_version SET past = 0 WHERE past <> 0 AND nlink <> 0 AND NOT `+newer)
}

func (r *repair) timelines(ctx context.Context) error {
	if err := r.exec(ctx, "counted the changes of timelines", `UPDATE timeline SET change_count =
		(SELECT count(*) FROM change c WHERE c.timeline_id = timeline.id) WHERE hidden = 0 AND change_count <>
		(SELECT count(*) FROM change c WHERE c.timeline_id = timeline.id)`); err != nil {
		return err
	}
	return r.exec(ctx, "raised the heads of timelines", `UPDATE timeline SET head_seq =
		(SELECT max(c.seq) FROM change c WHERE c.timeline_id = timeline.id) WHERE hidden = 0 AND head_seq <
		(SELECT max(c.seq) FROM change c WHERE c.timeline_id = timeline.id)`)
}

// chains writes read paths anew from parent links where one is wrong, or goes through a hidden segment that is; such segments
// are removed with the leftovers, and merging makes them again.
func (r *repair) chains(ctx context.Context) error {
	list, err := timelineRows(ctx, r.s.r)
	if err != nil {
		return err
	}
	wrong := make(map[TimelineID]bool) // hidden segments
	if err := r.s.r.snapshot(ctx, func(q querier) error {
		for _, t := range list {
			if t.state != hiddenDone {
				continue
			}
			c := &checker{s: r.s, q: q, report: func(Problem) { wrong[t.ID] = true }}
			var rows int64
			if _, err := scanAll(ctx, q, 1, `SELECT change_count FROM timeline WHERE id = ?`, []any{int64(t.ID)}, func(cl *cells) error {
				rows = cl.int(0)
				return nil
			}); err != nil {
				return err
			}
			if err := c.segment(ctx, t, rows); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	byID := make(map[TimelineID]*Timeline, len(list))
	for _, t := range list {
		byID[t.ID] = t
	}
	for _, t := range list {
		if t.Hidden {
			continue
		}
		want := ancestors(byID, t)
		var full []Segment
		bad := false
		for _, seg := range t.Chain {
			h := byID[seg.Timeline]
			bad = bad || wrong[seg.Timeline] || h == nil || h.state > hiddenDone
			if h != nil && h.Hidden {
				full = append(full, h.Chain...)
			} else {
				full = append(full, seg)
			}
		}
		if !bad && slices.Equal(want, full) {
			continue
		}
		if err := r.exec(ctx, fmt.Sprintf("wrote the read path of timeline %d anew", t.ID), `UPDATE timeline SET chain = ? WHERE id = ?`,
			encodeChain(want), int64(t.ID)); err != nil {
			return err
		}
	}
	for id := range wrong {
		if err := r.exec(ctx, fmt.Sprintf("gave up the hidden segment %d", id), `UPDATE timeline SET hidden = ? WHERE id = ?`, int64(hiddenDead), int64(id)); err != nil {
			return err
		}
	}
	return nil
}

// marks removes those of workspaces that are not there.
func (r *repair) marks(ctx context.Context) error {
	if err := r.exec(ctx, "removed tags of workspaces that are not there", `DELETE FROM tag WHERE NOT EXISTS
		(SELECT 1 FROM workspace w WHERE w.id = tag.workspace_id)`); err != nil {
		return err
	}
	if err := r.exec(ctx, "removed pins of timelines that are not there", `DELETE FROM pin WHERE NOT EXISTS
		(SELECT 1 FROM timeline t WHERE t.id = pin.timeline_id)`); err != nil {
		return err
	}
	return r.exec(ctx, "removed origins of sessions that are not there", `DELETE FROM session_origin WHERE NOT EXISTS
		(SELECT 1 FROM session s WHERE s.id = session_origin.session_id)`)
}

// leftovers removes what interrupted work has left, and packs that nothing names. It collects nothing that the policy
// does not keep.
func (r *repair) leftovers(ctx context.Context) error {
	if err := r.exec(ctx, "forgot what was condemned", `DELETE FROM blob_condemned`); err != nil {
		return err
	}
	if err := r.s.merge.recover(ctx); err != nil {
		return err
	}
	res, err := r.s.Collect(ctx, GCOptions{Keep: &Retention{Dropped: -1}})
	if err != nil {
		r.note("could not remove what nothing names: %v", err)
		return nil
	}
	if res.Timelines > 0 {
		r.note("removed timelines and segments that nothing names: %d", res.Timelines)
	}
	if res.Blobs+res.Packs > 0 {
		r.note("removed %d contents that nothing names, and %d packs", res.Blobs, res.Packs)
	}
	return nil
}
