package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

const sqlVersionByID = `SELECT ` + versionCols + ` FROM file_version v WHERE v.version_id = ? AND v.origin_timeline_id = 0`

// VersionByID finds a version by its id, whichever timeline it is on.
func (s *Store) VersionByID(ctx context.Context, id VersionID) (*Version, error) {
	var v *Version
	what := fmt.Sprintf("find version %d", id)
	found, err := scanAll(ctx, s.r, versionWidth, sqlVersionByID, []any{int64(id)}, func(c *cells) (err error) {
		v, err = c.version(0)
		return err
	})
	if err == nil && !found {
		err = ErrNotFound
	}
	return v, s.dbError(what, err)
}

const timelineCols = `id, parent_id, parent_seq, head_seq, gc_seq, epoch, chain, hidden`

func (c *cells) timeline() (*Timeline, error) {
	t := &Timeline{
		ID: TimelineID(c.int(0)), Parent: TimelineID(c.int(1)), ParentSeq: Seq(c.int(2)), Head: Seq(c.int(3)),
		GCSeq: Seq(c.int(4)), Epoch: c.int(5), Hidden: c.int(7) != 0, state: c.int(7),
	}
	var err error
	t.Chain, err = decodeChain(c.string(6))
	if err != nil {
		return nil, fmt.Errorf("timeline %d: %w", t.ID, err)
	}
	return t, c.bad
}

func timelineRow(ctx context.Context, q querier, id TimelineID) (*Timeline, error) {
	var t *Timeline
	found, err := scanAll(ctx, q, 8, `SELECT `+timelineCols+` FROM timeline WHERE id = ?`, []any{int64(id)},
		func(c *cells) (err error) {
			t, err = c.timeline()
			return err
		})
	if err == nil && !found {
		err = fmt.Errorf("timeline %d: %w", id, ErrNotFound)
	}
	return t, err
}

// Timeline finds a timeline.
func (s *Store) Timeline(ctx context.Context, id TimelineID) (*Timeline, error) {
	t, err := timelineRow(ctx, s.r, id)
	return t, s.dbError("find timeline", err)
}

// Timelines lists all timelines by id, hidden segments too.
func (s *Store) Timelines(ctx context.Context) ([]*Timeline, error) {
	list, err := timelineRows(ctx, s.r)
	return list, s.dbError("list timelines", err)
}

func timelineRows(ctx context.Context, q querier) ([]*Timeline, error) {
	var list []*Timeline
	_, err := scanAll(ctx, q, 8, `SELECT `+timelineCols+` FROM timeline ORDER BY id`, nil, func(c *cells) error {
		t, err := c.timeline()
		list = append(list, t)
		return err
	})
	return list, err
}

// Heads is the highest seq of every timeline.
func (s *Store) Heads(ctx context.Context) (map[TimelineID]Seq, error) {
	heads := make(map[TimelineID]Seq)
	_, err := scanAll(ctx, s.r, 2, `SELECT id, head_seq FROM timeline WHERE hidden = 0`, nil, func(c *cells) error {
		heads[TimelineID(c.int(0))] = Seq(c.int(1))
		return nil
	})
	return heads, s.dbError("list the heads of timelines", err)
}

// A chain is JSON, [[timeline,cut],...]. It is read with every view and written by hand, which is ten times as fast.
func encodeChain(chain []Segment) string {
	b := []byte{'['}
	for i, s := range chain {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '['), int64(s.Timeline), 10)
		b = strconv.AppendInt(append(b, ','), int64(s.Cut), 10)
		b = append(b, ']')
	}
	return string(append(b, ']'))
}

func decodeChain(s string) ([]Segment, error) {
	bad := func() ([]Segment, error) { return nil, fmt.Errorf("chain %.100q: %w", s, ErrCorrupt) }
	rest, ok := strings.CutPrefix(s, "[")
	if !ok {
		return bad()
	}
	if rest, ok = strings.CutSuffix(rest, "]"); !ok {
		return bad()
	}
	chain := make([]Segment, 0, strings.Count(rest, "["))
	for rest != "" {
		if len(chain) > 0 {
			if rest, ok = strings.CutPrefix(rest, ","); !ok {
				return bad()
			}
		}
		pair, after, ok := strings.Cut(rest, "]")
		if !ok || !strings.HasPrefix(pair, "[") {
			return bad()
		}
		first, second, ok := strings.Cut(pair[1:], ",")
		t, err := strconv.ParseInt(first, 10, 64)
		cut, err2 := strconv.ParseInt(second, 10, 64)
		if !ok || err != nil || err2 != nil {
			return bad()
		}
		chain = append(chain, Segment{TimelineID(t), Seq(cut)})
		rest = after
	}
	return chain, nil
}

// SessionByID finds a session.
func (s *Store) SessionByID(ctx context.Context, id SessionID) (*Session, error) {
	r, err := newWho(s.r).session(ctx, id)
	if err == nil && r == nil {
		err = ErrNotFound
	}
	return r, s.dbError(fmt.Sprintf("find session %d", id), err)
}

// CommandByID finds a command.
func (s *Store) CommandByID(ctx context.Context, id CommandID) (*CommandRow, error) {
	r, err := newWho(s.r).command(ctx, id)
	if err == nil && r == nil {
		err = ErrNotFound
	}
	return r, s.dbError(fmt.Sprintf("find command %d", id), err)
}

// ProcessByID finds a process with its parents.
func (s *Store) ProcessByID(ctx context.Context, id ProcessID) (*Process, error) {
	r, err := newWho(s.r).process(ctx, id)
	if err == nil && r == nil {
		err = ErrNotFound
	}
	return r, s.dbError(fmt.Sprintf("find process %d", id), err)
}
