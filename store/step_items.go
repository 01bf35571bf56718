package store

import (
	"context"
	"fmt"
	"math"
	"sync"
	"syscall"
)

const (
	sqlStepEnds = `SELECT (SELECT min(a.seq) FROM change a WHERE a.timeline_id = ? AND a.seq > ? AND a.seq <= ?),
		(SELECT max(b.seq) FROM change b WHERE b.timeline_id = ? AND b.seq > ? AND b.seq <= ?)`
	sqlStepHeads = `SELECT c.seq, c.kind, c.command_id FROM change c WHERE c.timeline_id = ? AND c.seq > ? AND c.seq <= ? ORDER BY c.seq`

	// Every column costs: nothing is read that StepItems does not promise.
	stepItems   = `SELECT i.seq, i.op, i.ino, i.parent_ino, i.name, i.from_parent_ino, i.from_name, i.n`
	stepVersion = `, v.version_id, v.parent_version_id, v.mode, v.uid, v.gid, v.nlink, v.rdev, v.size, v.holes, v.mtime, v.ctime, v.atime,
		v.content_hash, v.target, v.xattrs`
	stepItemCols = 8
	stepAllCols  = stepItemCols + 15

	stepFrom        = ` FROM change_item i`
	stepWhere       = ` WHERE i.timeline_id = ? AND (i.seq, i.n) > (?, ?) AND i.seq <= ? ORDER BY i.seq, i.n LIMIT ?`
	sqlStepItems    = stepItems + stepFrom + stepWhere
	sqlStepVersions = stepItems + stepVersion + stepFrom +
		` LEFT JOIN file_version v ON v.timeline_id = i.timeline_id AND v.past IN (0, 1) AND v.ino = i.ino AND v.seq = i.seq` + stepWhere

	// A span is read in windows, two of them while a third is worked on, so that it takes two processors and little memory.
	// No connection is held while a reader waits for its turn: there are only few.
	stepWindow = 2048 // seqs
	stepRowsAt = 2048 // items that are read at once
	stepAhead  = 2
)

// StepItems calls fn with every item of the changes in a span, oldest first and in the order of the items, and with the
// version that the item's inode became there if versions is set (nil if there is none: only a name changed, or a directory's
// version was merged with a later one of the same group). Of the step, At, Session and Bare are not set, of the version
// Replaced and Merge. The arguments but the version are good until fn returns.
func (s *Store) StepItems(ctx context.Context, sp Span, versions bool, fn func(*Step, *Item, *Version) error) error {
	if w := s.warmOf(ctx, sp); w != nil {
		if w.queued && versions {
			return fmt.Errorf("read versions of timeline %d that are still queued: %w", sp.Timeline, syscall.EINVAL)
		}
		low, high := max(w.after, sp.After), min(w.upTo, sp.UpTo)
		err := s.stepItems(ctx, Span{Timeline: sp.Timeline, After: sp.After, UpTo: low}, versions, fn)
		if err == nil {
			err = w.each(low, high, versions, fn)
		}
		if err != nil {
			return err
		}
		sp.After = high
	}
	return s.stepItems(ctx, sp, versions, fn)
}

// stepEnds is the first and the last change in a span, 0 if there is none.
func (s *Store) stepEnds(ctx context.Context, sp Span) (first, last Seq, err error) {
	span := []any{int64(sp.Timeline), int64(sp.After), int64(sp.UpTo)}
	_, err = scanAll(ctx, s.r, 2, sqlStepEnds, append(span, span...), func(c *cells) error {
		first, last = Seq(c.int(0)), Seq(c.int(1))
		return nil
	})
	return first, last, err
}

func (s *Store) stepItems(ctx context.Context, sp Span, versions bool, fn func(*Step, *Item, *Version) error) error {
	if sp.UpTo <= sp.After {
		return nil
	}
	what := func(err error) error {
		return s.dbError(fmt.Sprintf("read what changed on timeline %d after %d", sp.Timeline, sp.After), err)
	}
	first, last, err := s.stepEnds(ctx, sp)
	if err != nil || last == 0 {
		return what(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	windows := make(chan chan stepRows, stepAhead)
	reading.Go(func() {
		defer close(windows)
		for at := first - 1; at < last && ctx.Err() == nil; at += stepWindow {
			w := &stepReader{s: s, span: Span{Timeline: sp.Timeline, After: at, UpTo: min(last, at+stepWindow)}, out: make(chan stepRows, 1)}
			select {
			case windows <- w.out:
				reading.Go(func() { w.read(ctx, versions) })
			case <-ctx.Done():
			}
		}
	})
	for w := range windows {
		for b := range w {
			if b.err != nil {
				return what(b.err)
			}
			for i := range b.rows {
				if err := fn(&b.rows[i].step, &b.rows[i].item, b.rows[i].v); err != nil {
					return what(err)
				}
			}
		}
	}
	return what(ctx.Err())
}

// stepRows is a batch, or the error that ended a window.
type stepRows struct {
	rows []stepRow
	err  error
}

type stepRow struct {
	step Step
	item Item
	v    *Version
}

// stepReader reads one window.
type stepReader struct {
	s     *Store
	span  Span
	out   chan stepRows
	heads []Step // changes whose items are still to come
	rows  []stepRow
	slab  []Version // of the rows: one allocation for all
}

func (r *stepReader) read(ctx context.Context, versions bool) {
	defer close(r.out)
	sp := &r.span
	_, err := scanAll(ctx, r.s.r, 3, sqlStepHeads, []any{int64(sp.Timeline), int64(sp.After), int64(sp.UpTo)}, func(c *cells) error {
		r.heads = append(r.heads, Step{Timeline: sp.Timeline, Seq: Seq(c.int(0)), Kind: OpKind(c.int(1)), Command: CommandID(c.int(2))})
		return nil
	})
	query, width := sqlStepItems, stepItemCols
	if versions {
		query, width = sqlStepVersions, stepAllCols
	}
	after, n := sp.After, int64(math.MaxInt64)
	for more := true; more && err == nil; {
		r.rows, r.slab = make([]stepRow, 0, min(stepRowsAt, 2*len(r.heads)+1)), nil
		read := 0
		_, err = scanAll(ctx, r.s.r, width, query, []any{int64(sp.Timeline), int64(after), n, int64(sp.UpTo), int64(stepRowsAt)}, func(c *cells) error {
			read++
			after, n = Seq(c.int(0)), c.int(7)
			return r.row(c, versions)
		})
		more = read == stepRowsAt
		if len(r.rows) > 0 && err == nil && !r.send(ctx, stepRows{rows: r.rows}) {
			return
		}
	}
	if err != nil {
		r.send(ctx, stepRows{err: err})
	}
}

func (r *stepReader) row(c *cells, versions bool) error {
	seq := Seq(c.int(0))
	for len(r.heads) > 0 && r.heads[0].Seq < seq {
		r.heads = r.heads[1:]
	}
	if len(r.heads) == 0 || r.heads[0].Seq != seq {
		return c.bad
	}
	r.rows = append(r.rows, stepRow{step: r.heads[0], item: Item{
		Op: OpKind(c.int(1)), Ino: Ino(c.int(2)), Parent: Ino(c.int(3)), Name: c.string(4), FromParent: Ino(c.int(5)), FromName: c.string(6),
	}})
	row := &r.rows[len(r.rows)-1]
	if !versions || c.null(stepItemCols) {
		return c.bad
	}
	if len(r.slab) == cap(r.slab) {
		r.slab = make([]Version, 0, 512)
	}
	r.slab = r.slab[:len(r.slab)+1]
	row.v = &r.slab[len(r.slab)-1]
	return c.stepVersion(row.v, &row.step, &row.item)
}

// send reports whether somebody still wants it.
func (r *stepReader) send(ctx context.Context, rows stepRows) bool {
	select {
	case r.out <- rows:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *cells) stepVersion(v *Version, st *Step, it *Item) error {
	const i = stepItemCols
	*v = Version{
		Ino: it.Ino, Seq: st.Seq, Origin: st.Timeline, ID: VersionID(c.int(i)), Parent: VersionID(c.int(i + 1)),
		Mode: uint32(c.int(i + 2)), UID: uint32(c.int(i + 3)), GID: uint32(c.int(i + 4)), Nlink: uint32(c.int(i + 5)),
		Rdev: uint32(c.int(i + 6)), Size: c.int(i + 7), Holes: c.int(i + 8), Mtime: c.int(i + 9), Ctime: c.int(i + 10),
		Content: c.ref(i + 12), Target: c.string(i + 13),
	}
	v.Atime = v.Mtime
	if !c.null(i + 11) {
		v.Atime = c.int(i + 11)
	}
	if b := c.bytes(i + 14); b != nil {
		x, err := decodeXattrs(b)
		if err != nil {
			return fmt.Errorf("version %d of inode %d: %w: %w", v.ID, v.Ino, err, ErrCorrupt)
		}
		v.Xattrs = x
	}
	return c.bad
}
