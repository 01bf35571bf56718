package store

import (
	"cmp"
	"context"
	"slices"
)

// The states of inodes at a point. Inodes that were made together lie together, so that those of a directory are a few stretches of the
// table: walking along one costs a quarter of looking its rows up one by one.

const (
	// sqlVersionsIn is the newest version of each inode between two.
	sqlVersionsIn = `SELECT ` + versionCols + ` FROM file_version v WHERE v.timeline_id = ? AND v.past = 0 AND v.ino >= ? AND v.ino <= ?
		ORDER BY v.ino, v.seq`
	// One inode: its newest version, and if that is too new, the one that was the newest at the cut.
	sqlVersionAt   = `SELECT ` + versionCols + ` FROM file_version v WHERE v.timeline_id = ? AND v.past = 0 AND v.ino = ?`
	sqlVersionPast = `SELECT ` + versionCols + ` FROM file_version v WHERE v.timeline_id = ? AND v.past = 1 AND v.ino = ? AND v.seq <= ?
		ORDER BY v.seq DESC LIMIT 1`

	// sqlStateOf is every inode's version v on a timeline at a cut. Values: the timeline, and three times the cut. l is the newest.
	sqlStateOf = ` FROM file_version l CROSS JOIN file_version v WHERE l.timeline_id = ? AND l.past = 0
		AND v.timeline_id = l.timeline_id AND v.past = CASE WHEN l.seq <= ? THEN 0 ELSE 1 END AND v.ino = l.ino
		AND v.seq = CASE WHEN l.seq <= ? THEN l.seq ELSE (SELECT max(w.seq) FROM file_version w
			WHERE w.timeline_id = l.timeline_id AND w.past = 1 AND w.ino = l.ino AND w.seq <= ?) END`
)

// stretchGap is the longest gap in a stretch: a row that is not wanted costs a quarter of another query.
const stretchGap = 4

// inodes finds states of inodes in a read path.
type inodes struct {
	q    querier
	path []Segment
	inos []Ino
	out  []*Version // by the place in inos
	room []Version  // where the next of out come from
}

// versionsOn finds the states of inodes in a read path, in one state of the database. The result has nil where there is none.
func versionsOn(ctx context.Context, q querier, path []Segment, inos []Ino) ([]*Version, error) {
	f := &inodes{q: q, path: path, inos: inos, out: make([]*Version, len(inos))}
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
		newer, err := f.stretch(ctx, run, seg)
		if err != nil {
			return err
		}
		past = append(past, newer...)
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

// stretch walks along the newest versions of a run of inodes. It returns those of which that is too new. What has no newest version has
// no others.
func (f *inodes) stretch(ctx context.Context, run []int, seg Segment) (newer []int, err error) {
	at := 0
	args := []any{int64(seg.Timeline), int64(f.inos[run[0]]), int64(f.inos[run[len(run)-1]])}
	_, err = scanAll(ctx, f.q, versionWidth, sqlVersionsIn, args, func(c *cells) error {
		ino := Ino(c.int(1))
		for at < len(run) && f.inos[run[at]] < ino {
			at++
		}
		for i := at; i < len(run) && f.inos[run[i]] == ino; i++ {
			if Seq(c.int(2)) > seg.Cut {
				newer = append(newer, run[i])
			} else if err := f.found(c, 0, run[i]); err != nil {
				return err
			}
		}
		return c.bad
	})
	return newer, err
}

// one asks for one inode on one segment.
func (f *inodes) one(ctx context.Context, i int, seg Segment) error {
	newer := false
	args := []any{int64(seg.Timeline), int64(f.inos[i])}
	_, err := scanAll(ctx, f.q, versionWidth, sqlVersionAt, args, func(c *cells) error {
		if newer = Seq(c.int(2)) > seg.Cut; newer {
			return c.bad
		}
		return f.found(c, 0, i)
	})
	if err != nil || !newer {
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
	var newer []int
	if err := f.keyed(ctx, sqlVersions, 3, keys, func(c *cells, n int) error {
		if Seq(c.int(3)) > path[n%len(path)].Cut {
			newer = append(newer, n)
			return c.bad
		}
		return hit(c, n)
	}); err != nil {
		return err
	}
	keys = keys[:0]
	for _, n := range newer {
		k, seg := n/len(path), path[n%len(path)]
		if nearest[k] == 0 || nearest[k]-1 > n%len(path) {
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
