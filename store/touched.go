package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Span is a stretch of one timeline: the changes after After, up to and including UpTo.
type Span struct {
	Timeline    TimelineID
	After, UpTo Seq
	// Command keeps only what this command did, Except leaves out what that one did; 0 means any.
	Command, Except CommandID
	Session         SessionID // of StepsBack: only what this session did
}

const (
	touchedCols = `SELECT i.op, i.ino, i.parent_ino, i.name, i.from_parent_ino, i.from_name`
	sqlTouched  = touchedCols + ` FROM change_item i WHERE i.timeline_id = ? AND i.seq > ? AND i.seq <= ?`
	// The command's changes by their index, then their items.
	sqlTouchedBy = touchedCols + ` FROM change c CROSS JOIN change_item i WHERE c.command_id = ? AND c.timeline_id = ?
		AND c.seq > ? AND c.seq <= ? AND i.timeline_id = c.timeline_id AND i.seq = c.seq`
	sqlTouchedExcept = touchedCols + ` FROM change c CROSS JOIN change_item i WHERE c.timeline_id = ? AND c.seq > ?
		AND c.seq <= ? AND c.command_id <> ? AND i.timeline_id = c.timeline_id AND i.seq = c.seq`
	sqlLineage = `WITH RECURSIVE l(id, cut, parent, parent_seq) AS (
		SELECT id, ?, parent_id, parent_seq FROM timeline WHERE id = ?
		UNION ALL SELECT t.id, l.parent_seq, t.parent_id, t.parent_seq FROM l CROSS JOIN timeline t WHERE t.id = l.parent)
		SELECT id, cut FROM l`
)

// Touched calls fn with every item of the changes in a span, in no promised order and without taking repeats out. Its
// cost is that of the items, however large the tree is.
func (s *Store) Touched(ctx context.Context, sp Span, fn func(*Item) error) error {
	if sp.UpTo <= sp.After {
		return nil
	}
	query, args := sqlTouched, []any{int64(sp.Timeline), int64(sp.After), int64(sp.UpTo)}
	switch {
	case sp.Command != 0:
		query, args = sqlTouchedBy, append([]any{int64(sp.Command)}, args...)
	case sp.Except != 0:
		query, args = sqlTouchedExcept, append(args, int64(sp.Except))
	}
	var it Item
	_, err := scanAll(ctx, s.r, 6, query, args, func(c *cells) error {
		it = Item{
			Op: OpKind(c.int(0)), Ino: Ino(c.int(1)), Parent: Ino(c.int(2)), Name: c.string(3), FromParent: Ino(c.int(4)),
			FromName: c.string(5),
		}
		if c.bad != nil {
			return c.bad
		}
		return fn(&it)
	})
	return s.dbError(fmt.Sprintf("read what changed on timeline %d after %d", sp.Timeline, sp.After), err)
}

// Pin is v with its head held where it is now: a view that follows a head becomes one that does not.
func (s *Store) Pin(ctx context.Context, v *View) (*View, error) {
	t, seq := v.Head()
	if seq != MaxSeq {
		return v, nil
	}
	tl, err := s.Timeline(ctx, t)
	if errors.Is(err, ErrNotFound) && len(v.path) > 1 {
		return &View{s: v.s, q: v.q, path: v.path[1:]}, nil // a child that has not written yet
	}
	if err != nil {
		return nil, err
	}
	return s.ViewAt(ctx, t, tl.Head)
}

// Lineage is the timelines that a state came from by their parents, nearest first, each with the last seq that counts.
// It is the read path of the view but for timelines that were merged into others for faster reading. Two lineages with
// a timeline in common agree below it, up to the lower of the two seqs. The caller must not change it.
func (s *Store) Lineage(ctx context.Context, v *View) ([]Segment, error) {
	list, err := v.lineage(ctx)
	if err != nil {
		return nil, s.dbError(fmt.Sprintf("find what timeline %d came from", v.path[0].Timeline), err)
	}
	return list, nil
}

// lineage is Lineage. A child that has no row yet comes from what it was made of.
func (v *View) lineage(ctx context.Context) ([]Segment, error) {
	if list := v.from.Load(); list != nil {
		return *list, nil
	}
	var list []Segment
	for i := 0; i < 2 && i < len(v.path); i++ {
		head := v.path[i]
		found, err := scanAll(ctx, v.q, 2, sqlLineage, []any{int64(head.Cut), int64(head.Timeline)}, func(c *cells) error {
			list = append(list, Segment{TimelineID(c.int(0)), Seq(c.int(1))})
			return c.bad
		})
		if err != nil {
			return nil, err
		}
		if found {
			break
		}
		list = append(list, head)
	}
	// A child's cut in its parent is below the child's own.
	slices.SortStableFunc(list, func(a, b Segment) int { return cmp.Compare(b.Cut, a.Cut) })
	v.from.Store(&list)
	return list, nil
}

// Apart is the stretches of timelines that lead from the newest state that a and b have in common to either of them: what
// can differ was touched there. States with nothing in common are apart from the beginning.
func (s *Store) Apart(ctx context.Context, a, b *View) ([]Span, error) {
	x, err := s.Lineage(ctx, a)
	if err != nil {
		return nil, err
	}
	y, err := s.Lineage(ctx, b)
	if err != nil {
		return nil, err
	}
	at := make(map[TimelineID]int, len(y))
	for j, seg := range y {
		at[seg.Timeline] = j
	}
	var spans []Span
	for _, seg := range x {
		j, common := at[seg.Timeline]
		if !common {
			spans = append(spans, Span{Timeline: seg.Timeline, UpTo: seg.Cut})
			continue
		}
		for _, other := range y[:j] {
			spans = append(spans, Span{Timeline: other.Timeline, UpTo: other.Cut})
		}
		low, high := min(seg.Cut, y[j].Cut), max(seg.Cut, y[j].Cut)
		return append(spans, Span{Timeline: seg.Timeline, After: low, UpTo: high}), nil
	}
	for _, seg := range y {
		spans = append(spans, Span{Timeline: seg.Timeline, UpTo: seg.Cut})
	}
	return spans, nil
}

// DirName is one name in one directory.
type DirName struct {
	Parent Ino
	Name   string
}

// Lookups is Lookup of many names at once. The result has Ino 0 where there is nothing.
func (v *View) Lookups(ctx context.Context, keys []DirName) ([]Name, error) {
	names := make([]dirName, len(keys))
	for i, k := range keys {
		names[i] = dirName{k.Parent, k.Name}
	}
	hits, err := namesOn(ctx, v.q, v.path, names)
	if err != nil {
		return nil, v.s.dbError(fmt.Sprintf("look up %d names", len(keys)), err)
	}
	out := make([]Name, len(keys))
	for i, h := range hits {
		out[i] = Name{Parent: keys[i].Parent, Name: keys[i].Name, Ino: h.ino, Type: h.kind}
	}
	return out, nil
}

// NamesOfAll is NamesOf of many inodes at once, in a few queries. Those without a name are not in the result.
func (v *View) NamesOfAll(ctx context.Context, inos []Ino) (map[Ino][]Name, error) {
	out, err := v.namesOfAll(ctx, inos)
	if err != nil {
		return nil, v.s.dbError(fmt.Sprintf("find the names of %d inodes", len(inos)), err)
	}
	return out, nil
}

func (v *View) namesOfAll(ctx context.Context, inos []Ino) (map[Ino][]Name, error) {
	wanted := make(map[Ino]bool, len(inos))
	var live, past []any
	for _, ino := range inos {
		if wanted[ino] {
			continue
		}
		wanted[ino] = true
		for j, seg := range v.path {
			key := []any{int64(j), int64(seg.Timeline), int64(ino), int64(seg.Cut)}
			live = append(live, key...)
			if seg.Cut != MaxSeq {
				past = append(past, key...)
			}
		}
	}
	// Every name that some segment gives them; a nearer one may say otherwise.
	seen := make(map[dirName]bool)
	var cand []dirName
	c := newCells(2)
	scan := func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		if n := (dirName{Ino(c.int(0)), c.string(1)}); !seen[n] {
			seen[n] = true
			cand = append(cand, n)
		}
		return c.bad
	}
	if err := keyed(ctx, v.q, sqlInoLive, 4, live, scan); err != nil {
		return nil, err
	}
	if err := keyed(ctx, v.q, sqlInoPast, 4, past, scan); err != nil {
		return nil, err
	}
	hits, err := namesOn(ctx, v.q, v.path, cand)
	if err != nil {
		return nil, err
	}
	out := make(map[Ino][]Name, len(inos))
	for i, h := range hits {
		if wanted[h.ino] {
			out[h.ino] = append(out[h.ino], Name{Parent: cand[i].parent, Name: cand[i].name, Ino: h.ino, Type: h.kind})
		}
	}
	return out, nil
}
