package store

import (
	"cmp"
	"context"
	"slices"
)

// The states of inodes at a point. Inodes that were made together lie together, so that those of a directory are a few stretches of the
// table: walking along one costs a quarter of looking its rows up one by one.

const (
	// sqlVersionsIn is the newest version of each inode between two that has names.
	sqlVersionsIn = `SELECT ` + versionCols + ` FROM file_version v WHERE v.timeline_id = ? AND v.past = 0 AND v.ino >= ? AND v.ino <= ?
		ORDER BY v.ino, v.seq`
	// One inode: its newest version, and if there is none with names or that is too new, the one that was the newest at the cut.
	sqlVersionAt   = `SELECT ` + versionCols + ` FROM file_version v WHERE v.timeline_id = ? AND v.past = 0 AND v.ino = ?`
	sqlVersionPast = `SELECT ` + versionCols + ` FROM file_version v WHERE v.timeline_id = ? AND v.past = 1 AND v.ino = ? AND v.seq <= ?
		ORDER BY v.seq DESC LIMIT 1`

	// sqlStateLive and sqlStatePast together are every inode's version on a timeline at a cut. Values: the timeline and the cut; the
	// timeline and twice the cut.
	sqlStateLive = ` FROM file_version v WHERE v.timeline_id = ? AND v.past = 0 AND +v.seq <= ?`
	sqlStatePast = ` FROM file_version v WHERE v.timeline_id = ? AND v.past = 1
		AND v.seq = (SELECT max(w.seq) FROM file_version w WHERE w.timeline_id = v.timeline_id AND w.past = 1 AND w.ino = v.ino AND w.seq <= ?)
		AND NOT EXISTS (SELECT 1 FROM file_version l WHERE l.timeline_id = v.timeline_id AND l.past = 0 AND l.ino = v.ino AND l.seq <= ?)`
)

// stateOf is a query for some columns of every inode's version on a timeline at a cut, with its values.
func stateOf(cols string, seg Segment) (string, []any) {
	t, cut := int64(seg.Timeline), int64(seg.Cut)
	return `SELECT ` + cols + sqlStateLive + ` UNION ALL SELECT ` + cols + sqlStatePast, []any{t, cut, t, cut, cut}
}

// stretchGap is the longest gap in a stretch: a row that is not wanted costs a quarter of another query.
const stretchGap = 4

// inodes finds states of inodes in a read path.
type inodes struct {
	q    querier
	path []Segment
	inos []Ino
	out  []*Version // by the place in inos
	room []Version  // where the next of out come from
	// named: they have names there. Then what a segment that counts to its end has no newest version of, it has none of at all: the
	// names would be gone, too.
	named bool
}

// versionsOn finds the states of inodes in a read path, in one state of the database. The result has nil where there is none.
func versionsOn(ctx context.Context, q querier, path []Segment, inos []Ino) ([]*Version, error) {
	return versionsOf(ctx, q, path, inos, false)
}

// versionsOf is versionsOn of who may know that all inodes have names there.
func versionsOf(ctx context.Context, q querier, path []Segment, inos []Ino, named bool) ([]*Version, error) {
	f := &inodes{named: named, q: q, path: path, inos: inos, out: make([]*Version, len(inos))}
	var err error
	r, pool := q.(*readers)
	switch {
	case len(inos) == 0:
	case len(inos) == 1 && len(path) == 1:
		err = f.one(ctx, 0, path[0])
	case !pool:
		err = f.all(ctx)
	default:
		err = r.snapshot(ctx, func(q querier) error {
			f.q = q
			return f.all(ctx)
		})
	}
	return f.out, err
}

// all goes along the path with what is still missing. A small question asks all segments at once.
func (f *inodes) all(ctx context.Context) error {
	left := make([]int, len(f.inos))
	for i := range left {
		left[i] = i
	}
	if len(f.path) > 1 && len(f.inos)*len(f.path) <= 64 {
		return f.each(ctx, left, f.path)
	}
	slices.SortFunc(left, func(a, b int) int { return cmp.Compare(f.inos[a], f.inos[b]) })
	for j, seg := range f.path {
		ask := left
		if j < len(f.path)-1 && len(left) > fewInos {
			var err error
			if ask, err = inSegment(ctx, f.q, seg.Timeline, f.inos, left); err != nil {
				return err
			}
		}
		if err := f.on(ctx, ask, seg); err != nil {
			return err
		}
		if left = slices.DeleteFunc(left, func(i int) bool { return f.out[i] != nil }); len(left) == 0 {
			break
		}
	}
	return nil
}

// on asks one segment for inodes (places in f.inos, by inode).
func (f *inodes) on(ctx context.Context, ask []int, seg Segment) error {
	var alone, past []int
	for len(ask) > 0 {
		n := 1
		for n < len(ask) && f.inos[ask[n]]-f.inos[ask[n-1]] <= stretchGap {
			n++
		}
		run := ask[:n]
		ask = ask[n:]
		if n == 1 {
			alone = append(alone, run...)
			continue
		}
		rest, err := f.stretch(ctx, run, seg)
		if err != nil {
			return err
		}
		past = append(past, rest...)
	}
	if len(alone) == 1 {
		if err := f.one(ctx, alone[0], seg); err != nil {
			return err
		}
	} else if err := f.each(ctx, alone, []Segment{seg}); err != nil {
		return err
	}
	keys := make([]any, 0, 4*len(past))
	for _, i := range past {
		keys = append(keys, int64(i), int64(seg.Timeline), int64(f.inos[i]), int64(seg.Cut))
	}
	return f.keyed(ctx, sqlVersionsPast, 4, keys, func(c *cells, n int) error { return f.found(c, 1, n) })
}

// gone reports whether what has no newest version with names on a segment has none at all.
func (f *inodes) gone(seg Segment) bool { return f.named && seg.Cut == MaxSeq }

// stretch walks along the newest versions of a run of inodes. It returns those that have to be looked for among the others.
func (f *inodes) stretch(ctx context.Context, run []int, seg Segment) (rest []int, err error) {
	at, newer := 0, make(map[int]bool)
	args := []any{int64(seg.Timeline), int64(f.inos[run[0]]), int64(f.inos[run[len(run)-1]])}
	_, err = scanAll(ctx, f.q, versionWidth, sqlVersionsIn, args, func(c *cells) error {
		ino := Ino(c.int(1))
		for at < len(run) && f.inos[run[at]] < ino {
			at++
		}
		for i := at; i < len(run) && f.inos[run[i]] == ino; i++ {
			if Seq(c.int(2)) > seg.Cut {
				newer[run[i]] = true
			} else if err := f.found(c, 0, run[i]); err != nil {
				return err
			}
		}
		return c.bad
	})
	for _, i := range run {
		if f.out[i] == nil && (newer[i] || !f.gone(seg)) {
			rest = append(rest, i)
		}
	}
	return rest, err
}

// one asks for one inode on one segment.
func (f *inodes) one(ctx context.Context, i int, seg Segment) error {
	past := !f.gone(seg)
	args := []any{int64(seg.Timeline), int64(f.inos[i])}
	_, err := scanAll(ctx, f.q, versionWidth, sqlVersionAt, args, func(c *cells) error {
		if past = Seq(c.int(2)) > seg.Cut; past {
			return c.bad
		}
		return f.found(c, 0, i)
	})
	if err != nil || !past {
		return err
	}
	_, err = scanAll(ctx, f.q, versionWidth, sqlVersionPast, append(args, int64(seg.Cut)), func(c *cells) error { return f.found(c, 0, i) })
	return err
}

// each asks segments for inodes one by one, in few statements: the nearest that has one decides.
func (f *inodes) each(ctx context.Context, ask []int, path []Segment) error {
	keys := make([]any, 0, 3*len(ask)*len(path))
	for k, i := range ask {
		for j, seg := range path {
			keys = append(keys, int64(k*len(path)+j), int64(seg.Timeline), int64(f.inos[i]))
		}
	}
	nearest := make([]int, len(ask)) // the segment that it was found on, and one
	hit := func(c *cells, n int) error {
		k, j := n/len(path), n%len(path)
		if nearest[k] > 0 && nearest[k]-1 < j {
			return c.bad
		}
		nearest[k] = j + 1
		return f.found(c, 1, ask[k])
	}
	past := make([]bool, len(ask)*len(path)) // keys to be looked for among the others
	for n := range past {
		past[n] = !f.gone(path[n%len(path)])
	}
	if err := f.keyed(ctx, sqlVersions, 3, keys, func(c *cells, n int) error {
		if past[n] = Seq(c.int(3)) > path[n%len(path)].Cut; past[n] {
			return c.bad
		}
		return hit(c, n)
	}); err != nil {
		return err
	}
	keys = keys[:0]
	for n, want := range past {
		k, seg := n/len(path), path[n%len(path)]
		if want && (nearest[k] == 0 || nearest[k]-1 > n%len(path)) {
			keys = append(keys, int64(n), int64(seg.Timeline), int64(f.inos[ask[k]]), int64(seg.Cut))
		}
	}
	return f.keyed(ctx, sqlVersionsPast, 4, keys, hit)
}

// keyed calls fn with each row that a query finds for its keys, and the number of the key. The version begins at column 1.
func (f *inodes) keyed(ctx context.Context, query string, cols int, keys []any, fn func(c *cells, n int) error) error {
	c := newCells(1 + versionWidth)
	return keyed(ctx, f.q, query, cols, keys, func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		return fn(c, int(c.int(0)))
	})
}

func (f *inodes) found(c *cells, col, i int) error {
	if f.out[i] == nil {
		if len(f.room) == 0 {
			f.room = make([]Version, min(len(f.inos), 256))
		}
		f.out[i], f.room = &f.room[0], f.room[1:]
	}
	return c.versionTo(f.out[i], col)
}
