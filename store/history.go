package store

import (
	"context"
	"fmt"
)

const (
	// No condition on seq, which namesOn checks anyway: the index alone answers this, and with more columns SQLite reads
	// the whole timeline instead.
	sqlInoLive = `WITH k(n, t, i, c) AS (VALUES %s)
		SELECT f.parent_ino, f.name FROM k CROSS JOIN file_node f WHERE f.timeline_id = k.t AND f.ino = k.i`
	sqlInoPast = `WITH k(n, t, i, c) AS (VALUES %s)
		SELECT h.parent_ino, h.name FROM k CROSS JOIN file_node_history h
		WHERE h.timeline_id = k.t AND h.ino = k.i AND h.seq <= k.c AND h.end_seq > k.c`
	sqlSeqAt = `SELECT c.seq FROM change c WHERE c.timeline_id = ? AND c.seq <= ? AND c.at <= ? ORDER BY c.seq DESC LIMIT 1`
)

// NamesOf lists the names that ino has in this view, in no particular order; none if it has no name or does not exist.
// The root has none.
func (v *View) NamesOf(ctx context.Context, ino Ino) ([]Name, error) {
	names, err := v.namesOf(ctx, ino)
	if err != nil {
		return nil, v.s.dbError(fmt.Sprintf("find the names of inode %d", ino), err)
	}
	return names, nil
}

func (v *View) namesOf(ctx context.Context, ino Ino) ([]Name, error) {
	var keys []any
	for j, seg := range v.path {
		keys = append(keys, int64(j), int64(seg.Timeline), int64(ino), int64(seg.Cut))
	}
	// Every name it has in some segment; a nearer one may say otherwise.
	seen := make(map[dirName]bool)
	var cand []dirName
	c := newCells(2)
	for _, query := range []string{sqlInoLive, sqlInoPast} {
		err := keyed(ctx, v.q, query, 4, keys, func(rows result) error {
			if err := c.scan(rows); err != nil {
				return err
			}
			if n := (dirName{Ino(c.int(0)), c.string(1)}); !seen[n] {
				seen[n] = true
				cand = append(cand, n)
			}
			return c.bad
		})
		if err != nil {
			return nil, err
		}
	}
	hits, err := namesOn(ctx, v.q, v.path, cand)
	if err != nil {
		return nil, err
	}
	var names []Name
	for i, h := range hits {
		if h.ino == ino {
			names = append(names, Name{Parent: cand[i].parent, Name: cand[i].name, Ino: ino, Type: h.kind})
		}
	}
	return names, nil
}

// SeqAt is the newest seq on v's read path whose change was made at or before at (ns since the epoch), and the
// timeline it is on. It wraps ENOENT if every change on the path is younger.
func (v *View) SeqAt(ctx context.Context, at int64) (TimelineID, Seq, error) {
	path, err := v.lineage(ctx)
	if err != nil {
		return 0, 0, v.s.dbError("find the change at a time", err)
	}
	for _, seg := range path {
		var seq Seq
		found, err := scanAll(ctx, v.q, 1, sqlSeqAt, []any{int64(seg.Timeline), int64(seg.Cut), at}, func(c *cells) error {
			seq = Seq(c.int(0))
			return nil
		})
		if err != nil {
			return 0, 0, v.s.dbError("find the change at a time", err)
		}
		if found {
			return seg.Timeline, seq, nil
		}
	}
	return 0, 0, fmt.Errorf("find a change at or before a time: %w", ErrNotFound)
}
