package store

import (
	"context"
	"slices"
)

// The two questions that everything else is made of, for many keys at once: who has this name on this timeline at this
// cut, and what was this inode there. A chain is several keys: one for each segment, nearest first.
//
// CROSS JOIN: SQLite takes it as an order, keys first. It knows nothing of the size of k, and with JOIN it walked the
// whole table once for each statement.

const (
	// names of now, if they are old enough for the cut
	sqlNamesLive = `WITH k(n, t, p, name, c) AS (VALUES %s)
		SELECT k.n, f.seq, f.ino, f.kind FROM k CROSS JOIN file_node f
		WHERE f.timeline_id = k.t AND f.parent_ino = k.p AND f.name = k.name AND f.seq <= k.c`
	// superseded names that were true at the cut: the newest row at or before it, if it did not end by then
	sqlNamesPast = `WITH k(n, t, p, name, c) AS (VALUES %s)
		SELECT k.n, h.seq, h.ino, h.kind FROM k CROSS JOIN file_node_history h
		WHERE h.timeline_id = k.t AND h.parent_ino = k.p AND h.name = k.name
		AND h.seq = (SELECT max(g.seq) FROM file_node_history g WHERE g.timeline_id = k.t AND g.parent_ino = k.p
			AND g.name = k.name AND g.seq <= k.c)
		AND h.end_seq > k.c`
	// an inode's newest state, if it has names, and what it was at a cut otherwise
	sqlVersions = `WITH k(n, t, i) AS (VALUES %s)
		SELECT k.n, ` + versionCols + ` FROM k CROSS JOIN file_version v WHERE v.timeline_id = k.t AND v.past = 0 AND v.ino = k.i`
	sqlVersionsPast = `WITH k(n, t, i, c) AS (VALUES %s)
		SELECT k.n, ` + versionCols + ` FROM k CROSS JOIN file_version v WHERE v.timeline_id = k.t AND v.past = 1 AND v.ino = k.i
		AND v.seq = (SELECT max(w.seq) FROM file_version w WHERE w.timeline_id = k.t AND w.past = 1 AND w.ino = k.i AND w.seq <= k.c)`
)

// nameHit is a row of a name; ino 0 is a tombstone, found false is no row.
type nameHit struct {
	found bool
	seq   Seq
	ino   Ino
	kind  uint32
}

// namesAt answers name keys (number, timeline, parent, name, cut). hits is indexed by the keys' numbers.
func namesAt(ctx context.Context, q querier, keys []any, hits []nameHit) error {
	c := newCells(4)
	scan := func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		if n := c.int(0); !hits[n].found {
			hits[n] = nameHit{found: true, seq: Seq(c.int(1)), ino: Ino(c.int(2)), kind: uint32(c.int(3))}
		}
		return c.bad
	}
	// Live rows first: a row that moves to the history meanwhile is then found there.
	if err := keyed(ctx, q, sqlNamesLive, 5, keys, scan); err != nil {
		return err
	}
	past := keys[:0:0]
	for k := 0; k < len(keys); k += 5 {
		if keys[k+4].(int64) != int64(MaxSeq) && !hits[keys[k].(int64)].found {
			past = append(past, keys[k:k+5]...)
		}
	}
	return keyed(ctx, q, sqlNamesPast, 5, past, scan)
}

// namesOn finds names in a read path: the nearest hit decides. names are (parent, name) pairs; the result has ino 0
// where there is nothing.
func namesOn(ctx context.Context, q querier, path []Segment, names []dirName) ([]nameHit, error) {
	if len(path) > 1 && len(names)*len(path) > maxKeys {
		return namesNearest(ctx, q, path, names)
	}
	hits := make([]nameHit, len(names)*len(path))
	keys := make([]any, 0, 5*len(hits))
	for i := range names {
		for j, seg := range path {
			keys = append(keys, int64(i*len(path)+j), int64(seg.Timeline), int64(names[i].parent), []byte(names[i].name),
				int64(seg.Cut))
		}
	}
	if err := namesAt(ctx, q, keys, hits); err != nil {
		return nil, err
	}
	out := make([]nameHit, len(names))
	for i := range names {
		for _, h := range hits[i*len(path) : (i+1)*len(path)] {
			if h.found {
				out[i] = h
				break
			}
		}
	}
	return out, nil
}

// namesNearest is namesOn of many names: each segment is asked only for those that no nearer one knows.
func namesNearest(ctx context.Context, q querier, path []Segment, names []dirName) ([]nameHit, error) {
	hits := make([]nameHit, len(names))
	left := make([]int, len(names))
	for i := range left {
		left[i] = i
	}
	var keys []any
	for _, seg := range path {
		keys = keys[:0]
		for _, i := range left {
			keys = append(keys, int64(i), int64(seg.Timeline), int64(names[i].parent), []byte(names[i].name), int64(seg.Cut))
		}
		if err := namesAt(ctx, q, keys, hits); err != nil {
			return nil, err
		}
		if left = slices.DeleteFunc(left, func(i int) bool { return hits[i].found }); len(left) == 0 {
			break
		}
	}
	return hits, nil
}

type dirName struct {
	parent Ino
	name   string
}

// fewInos are cheaper to ask for than to look for.
const fewInos = 32

const sqlInosIn = `SELECT v.ino FROM file_version v WHERE v.timeline_id = ? AND v.past IN (0, 1) AND v.ino >= ? AND v.ino <= ? LIMIT ?`

// inSegment leaves out those of the inodes left (indexes into inos) that a timeline has no version of at all, where that is cheap to
// know: a segment near the end of a read path is small, and one walk along it costs less than asking for each inode.
func inSegment(ctx context.Context, q querier, t TimelineID, inos []Ino, left []int) ([]int, error) {
	low, high := inos[left[0]], inos[left[0]]
	for _, i := range left {
		low, high = min(low, inos[i]), max(high, inos[i])
	}
	limit, n := 2*len(left), 0
	there := make(map[Ino]bool)
	_, err := scanAll(ctx, q, 1, sqlInosIn, []any{int64(t), int64(low), int64(high), int64(limit)}, func(c *cells) error {
		there[Ino(c.int(0))] = true
		n++
		return nil
	})
	if err != nil || n == limit {
		return left, err // too long to know all of it
	}
	var ask []int
	for _, i := range left {
		if there[inos[i]] {
			ask = append(ask, i)
		}
	}
	return ask, nil
}
