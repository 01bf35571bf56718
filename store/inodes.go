package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// The states of inodes at a point. Inodes that were made together lie together, so that those of a directory are a few stretches of the
// table: walking along one costs a quarter of looking its rows up one by one.

const (
	// sqlVersionsIn is every version of the inodes between two, oldest first: of each inode the last one counts.
	sqlVersionsIn = `SELECT ` + versionCols + ` FROM file_version v WHERE v.timeline_id = ? AND v.ino >= ? AND v.ino <= ? AND v.seq <= ?
		ORDER BY v.ino, v.seq`
	sqlVersionAt = `SELECT ` + versionCols + ` FROM file_version v WHERE v.timeline_id = ? AND v.ino = ? AND v.seq <= ?
		ORDER BY v.seq DESC LIMIT 1`
)

const (
	// stretchGap is the longest gap in a stretch: a row that is not wanted costs a quarter of another query.
	stretchGap = 4
	// stretchSpare rows of a stretch may be neither wanted nor the last of their inode, beyond as many as are wanted. A file with
	// a long history is asked for by itself.
	stretchSpare = 64
)

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
	var alone []int
	for len(ask) > 0 {
		n := 1
		for n < len(ask) && f.inos[ask[n]]-f.inos[ask[n-1]] <= stretchGap {
			n++
		}
		run := ask[:n]
		ask = ask[n:]
		if n > 1 {
			var err error
			if run, err = f.stretch(ctx, run, seg); err != nil {
				return err
			}
		}
		alone = append(alone, run...)
	}
	if len(alone) == 1 {
		return f.one(ctx, alone[0], seg)
	}
	return f.each(ctx, alone, []Segment{seg})
}

var errLong = errors.New("a stretch has more rows than it is worth")

// stretch walks along the versions of a run of inodes. It gives up where that is long, and returns the rest.
func (f *inodes) stretch(ctx context.Context, run []int, seg Segment) (rest []int, err error) {
	spare := len(run) + stretchSpare
	at := 0
	args := []any{int64(seg.Timeline), int64(f.inos[run[0]]), int64(f.inos[run[len(run)-1]]), int64(seg.Cut)}
	_, err = scanAll(ctx, f.q, versionWidth, sqlVersionsIn, args, func(c *cells) error {
		ino := Ino(c.int(1))
		for at < len(run) && f.inos[run[at]] < ino {
			at++
		}
		if at == len(run) || f.inos[run[at]] != ino || f.out[run[at]] != nil {
			if spare--; spare < 0 {
				return errLong
			}
		}
		for i := at; i < len(run) && f.inos[run[i]] == ino; i++ {
			if err := f.found(c, 0, run[i]); err != nil {
				return err
			}
		}
		return c.bad
	})
	if errors.Is(err, errLong) {
		for _, i := range run[at:] {
			f.out[i] = nil // perhaps not its last
		}
		return run[at:], nil
	}
	return nil, err
}

// one asks for one inode on one segment.
func (f *inodes) one(ctx context.Context, i int, seg Segment) error {
	_, err := scanAll(ctx, f.q, versionWidth, sqlVersionAt, []any{int64(seg.Timeline), int64(f.inos[i]), int64(seg.Cut)}, func(c *cells) error {
		return f.found(c, 0, i)
	})
	return err
}

// each asks segments for inodes one by one, in few statements: the nearest that has one decides.
func (f *inodes) each(ctx context.Context, ask []int, path []Segment) error {
	keys := make([]any, 0, 4*len(ask)*len(path))
	for k, i := range ask {
		for j, seg := range path {
			keys = append(keys, int64(k*len(path)+j), int64(seg.Timeline), int64(f.inos[i]), int64(seg.Cut))
		}
	}
	nearest := make([]int, len(ask)) // the segment that it was found on, and one
	c := newCells(1 + versionWidth)
	return keyed(ctx, f.q, sqlVersions, 4, keys, func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		n := int(c.int(0))
		k, j := n/len(path), n%len(path)
		if nearest[k] > 0 && nearest[k]-1 < j {
			return c.bad
		}
		nearest[k] = j + 1
		return f.found(c, 1, ask[k])
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
