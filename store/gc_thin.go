package store

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
)

// thin removes from living timelines what the policy does not keep: first each is told from where on all is kept, and which
// states before that; then the rows go that only other states need.
func (g *collector) thin(ctx context.Context) error {
	p, err := g.plan(ctx, g.s.r)
	if err != nil {
		return err
	}
	for _, t := range p.timelines {
		n := p.need[t.ID]
		if t.Hidden || n == nil {
			continue
		}
		if _, ok := n.end(t); ok {
			if err := g.cut(ctx, t.ID); err != nil {
				return fmt.Errorf("timeline %d: %w", t.ID, err)
			}
		}
		if len(g.keep.Tiers) == 0 {
			continue
		}
		if err := g.thinOne(ctx, t.ID); err != nil {
			return fmt.Errorf("timeline %d: %w", t.ID, err)
		}
	}
	return nil
}

// kept is which states of a timeline are kept: all from a seq on, and some before.
type kept struct {
	from   Seq
	top    Seq   // and up to here
	points []Seq // ascending
}

// has reports whether one of the states in [from, before) is kept.
func (k *kept) has(from, before Seq) bool {
	return max(from, k.from) < before && max(from, k.from) <= k.top || pointIn(k.points, from, before)
}

func (k *kept) mark() string {
	h := fnv.New64a()
	for _, p := range k.points {
		fmt.Fprint(h, p, " ")
	}
	return fmt.Sprintf("%d %d %x", k.from, len(k.points), h.Sum64())
}

func thinnedKey(t TimelineID) string { return fmt.Sprintf("thinned %d", t) }

func (g *collector) thinOne(ctx context.Context, id TimelineID) error {
	k, err := g.declare(ctx, id)
	if err != nil || k == nil {
		return err
	}
	return g.thinTo(ctx, id, k)
}

// thinTo removes what is not kept of a timeline.
func (g *collector) thinTo(ctx context.Context, id TimelineID, k *kept) error {
	done, err := setting(ctx, g.s.r, thinnedKey(id))
	mark := k.mark()
	if r := g.keep.Removals; r != 0 {
		mark += " " + r.String()
	}
	if err != nil || done == mark {
		return err
	}
	if err := g.thinVersions(ctx, id, k); err != nil {
		return err
	}
	if err := g.thinNames(ctx, id, k); err != nil {
		return err
	}
	t, err := timelineRow(ctx, g.s.r, id)
	if err != nil {
		return err
	}
	if err := g.thinChanges(ctx, t, k); err != nil {
		return err
	}
	return g.step(ctx, func(ctx context.Context) error {
		now, err := points(ctx, g.s.w, id)
		if err != nil || !slices.Equal(now, k.points) {
			return err // a mark came or went: the next run looks again
		}
		return setSetting(ctx, g.s.w, thinnedKey(id), mark)
	})
}

// declare works out what is kept of a timeline and writes that down. From then on everything else is refused. It returns nil if
// all is kept.
func (g *collector) declare(ctx context.Context, id TimelineID) (k *kept, err error) {
	if err := g.pause(ctx); err != nil {
		return nil, err
	}
	from, states, err := g.statesToKeep(ctx, id, MaxSeq)
	if err != nil {
		return nil, err
	}
	err = g.alone(ctx, func(ctx context.Context) error {
		k = nil
		p, err := g.plan(ctx, g.s.w)
		if err != nil {
			return err
		}
		t, err := timelineRow(ctx, g.s.w, id)
		if err != nil {
			return err
		}
		n := p.need[id]
		if n == nil || t.Hidden || t.GCSeq > t.Head {
			return nil // the next run buries or cuts it
		}
		if from = max(from, t.GCSeq); from == 0 {
			return nil
		}
		if from > t.GCSeq {
			if _, err := g.s.w.exec(ctx, `UPDATE timeline SET gc_seq = ? WHERE id = ?`, int64(from), int64(id)); err != nil {
				return err
			}
			g.res.States += int64(from - t.GCSeq)
		}
		if err := g.retained(ctx, id, states); err != nil {
			return err
		}
		if err := g.replaced(ctx, id, from); err != nil {
			return err
		}
		k = &kept{from: from, top: MaxSeq}
		k.points, err = points(ctx, g.s.w, id)
		return err
	})
	return k, err
}

// retained makes states the pins that the policy has on a timeline. A state that went does not come back, so only those stay
// that were pins before or lie where nothing was collected yet.
func (g *collector) retained(ctx context.Context, id TimelineID, states []Seq) error {
	var have []Seq
	if _, err := scanAll(ctx, g.s.w, 1, `SELECT seq FROM pin WHERE timeline_id = ? AND kind = ?`, []any{int64(id), PinRetained}, func(c *cells) error {
		have = append(have, Seq(c.int(0)))
		return nil
	}); err != nil {
		return err
	}
	for _, seq := range have {
		if _, ok := slices.BinarySearch(states, seq); !ok {
			if _, err := g.s.w.exec(ctx, `DELETE FROM pin WHERE timeline_id = ? AND seq = ? AND kind = ?`, int64(id), int64(seq), PinRetained); err != nil {
				return err
			}
		}
	}
	for _, seq := range states {
		if !slices.Contains(have, seq) {
			if _, err := g.s.w.exec(ctx, `INSERT INTO pin (timeline_id, seq, kind, ref, expires) VALUES (?, ?, ?, ?, 0)
				ON CONFLICT (timeline_id, seq, kind, ref) DO NOTHING`, int64(id), int64(seq), PinRetained, "policy"); err != nil {
				return err
			}
		}
	}
	return nil
}

// replaced removes pins of states that were equal to a directory once, before from, which others of that directory replaced.
func (g *collector) replaced(ctx context.Context, id TimelineID, from Seq) error {
	if g.o.Replaced == nil {
		return nil
	}
	all, err := pinsOf(ctx, g.s.w, PinApplied)
	if err != nil || len(all) == 0 {
		return err
	}
	for _, p := range g.o.Replaced(all) {
		if p.Timeline != id || p.Seq >= from {
			continue
		}
		if _, err := g.s.w.exec(ctx, `DELETE FROM pin WHERE timeline_id = ? AND seq = ? AND kind = ? AND ref = ?`,
			int64(id), int64(p.Seq), PinApplied, p.Ref); err != nil {
			return err
		}
	}
	return nil
}

// statesToKeep applies the policy to the changes of a timeline. from is the state before the first change that is young
// enough to be kept whatever it is, 0 if all are; states are those before that which the policy keeps, ascending. Those that
// were collected already are not among them. Changes after top do not count.
func (g *collector) statesToKeep(ctx context.Context, id TimelineID, top Seq) (from Seq, states []Seq, err error) {
	if len(g.keep.Tiers) == 0 {
		return 0, nil, nil
	}
	t, err := timelineRow(ctx, g.s.r, id)
	if err != nil {
		return 0, nil, err
	}
	was, err := points(ctx, g.s.r, id)
	if err != nil {
		return 0, nil, err
	}
	tiers := g.keep.Tiers
	var first Seq // the first change that is young
	all := g.now  // when all was kept last
	if tiers[0].Every == 0 {
		if tiers[0].For == 0 {
			return 0, nil, nil
		}
		all, tiers = g.now-int64(tiers[0].For), tiers[1:]
	}
	if _, err := scanAll(ctx, g.s.r, 1, `SELECT COALESCE(min(seq), 0) FROM change WHERE timeline_id = ? AND at > ?`, []any{int64(id), all},
		func(c *cells) error {
			first = Seq(c.int(0))
			return nil
		}); err != nil {
		return 0, nil, err
	}
	if first == 0 || first > top {
		first = MaxSeq
		if top != MaxSeq {
			first = top + 1
		}
	}
	before := first // of what comes next: the state that a stretch ends with is its newest
	last := int64(-1)
	for more := true; more; {
		more = false
		_, err := scanAll(ctx, g.s.r, 2, `SELECT seq, at FROM change WHERE timeline_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?`,
			[]any{int64(id), int64(before), int64(gcChunk)}, func(c *cells) error {
				seq, at := Seq(c.int(0)), c.int(1)
				more = true
				if before = seq; from == 0 {
					from = seq
					return nil
				}
				i := slices.IndexFunc(tiers, func(t Tier) bool { return t.For == 0 || g.now-at < int64(t.For) })
				if i < 0 {
					return nil
				}
				bucket := at/int64(tiers[i].Every)<<3 | int64(i)
				if bucket == last {
					return nil
				}
				last = bucket
				if _, ok := slices.BinarySearch(was, seq); ok || seq >= t.GCSeq {
					states = append(states, seq)
				} else if j, _ := slices.BinarySearch(was, seq); j > 0 {
					states = append(states, was[j-1]) // what is left of that stretch
				}
				return nil
			})
		if err != nil {
			return 0, nil, err
		}
	}
	for _, seq := range was { // an earlier policy kept less, and this one keeps all of what that left
		if seq > from && seq < t.GCSeq {
			states = append(states, seq)
		}
	}
	slices.Sort(states)
	return from, slices.Compact(states), nil
}

// sqlAllVersions goes along the versions of a timeline by inode, those of now and those of before together.
const sqlAllVersions = `SELECT v.ino, v.seq, v.version_id, v.nlink FROM file_version v WHERE v.timeline_id = ? AND v.past = 0 AND (v.ino, v.seq) > (?, ?)
	UNION ALL SELECT w.ino, w.seq, w.version_id, w.nlink FROM file_version w WHERE w.timeline_id = ? AND w.past = 1 AND (w.ino, w.seq) > (?, ?)
	ORDER BY 1, 2 LIMIT ?`

// thinVersions removes the versions that only states need which are not kept.
func (g *collector) thinVersions(ctx context.Context, id TimelineID, k *kept) error {
	type row struct {
		ino   Ino
		seq   Seq
		id    VersionID
		nlink int64
	}
	var pending, gone []row
	flush := func() error {
		if len(gone) == 0 {
			return nil
		}
		if g.dry != nil {
			for _, r := range gone {
				g.dry.versions[r.id] = struct{}{}
			}
			g.res.Versions += int64(len(gone))
			gone = gone[:0]
			return nil
		}
		err := g.remove(ctx, id, k, func(ctx context.Context, k *kept) error {
			var last VersionID
			for _, r := range gone {
				last = max(last, r.id)
				res, err := g.s.w.exec(ctx, `DELETE FROM file_version WHERE timeline_id = ? AND past IN (0, 1) AND ino = ? AND seq = ?`,
					int64(id), int64(r.ino), int64(r.seq))
				if err != nil {
					return err
				}
				n, _ := res.RowsAffected() // the driver knows it
				g.res.Versions += n
			}
			return raiseCollected(ctx, g.s.w, last)
		})
		gone = gone[:0]
		return err
	}
	chain, orphans, err := g.orphansGo(ctx, id)
	if err != nil {
		return err
	}
	// of one inode, all its rows
	inode := func() error {
		all := true
		for i, r := range pending {
			before := MaxSeq
			if i+1 < len(pending) {
				before = pending[i+1].seq
			}
			switch {
			case !k.has(r.seq, before):
				gone = append(gone, r)
			case before == MaxSeq && all && r.nlink == 0 && r.seq <= k.from && orphans:
				vs, err := versionsOn(ctx, g.s.r, chain, []Ino{r.ino})
				if err != nil {
					return err
				}
				if vs[0] == nil {
					gone = append(gone, r)
				}
			default:
				all = false
			}
		}
		pending = pending[:0]
		if len(gone) >= gcChunk/2 {
			return flush()
		}
		return nil
	}
	var at row
	for {
		n := 0
		var page []row
		if _, err := scanAll(ctx, g.s.r, 4, sqlAllVersions, []any{int64(id), int64(at.ino), int64(at.seq), int64(id), int64(at.ino), int64(at.seq),
			int64(gcChunk)}, func(c *cells) error {
			page = append(page, row{Ino(c.int(0)), Seq(c.int(1)), VersionID(c.int(2)), c.int(3)})
			n++
			return nil
		}); err != nil {
			return err
		}
		for _, r := range page {
			if len(pending) > 0 && pending[0].ino != r.ino {
				if err := inode(); err != nil {
					return err
				}
			}
			pending = append(pending, r)
			at = r
		}
		if n < gcChunk {
			if err := inode(); err != nil {
				return err
			}
			return flush()
		}
	}
}

// orphansGo reports whether the last version of an inode without names may go from a timeline: hidden segments have copies of
// it. It returns what the timeline is read through, which must not have the inode.
func (g *collector) orphansGo(ctx context.Context, id TimelineID) ([]Segment, bool, error) {
	p, err := g.plan(ctx, g.s.r)
	if err != nil {
		return nil, false, err
	}
	if g.dry != nil {
		p.sources = g.dry.sources
	}
	t, err := timelineRow(ctx, g.s.r, id)
	return t.Chain, err == nil && !p.sources[id], err
}

// remove is a step that removes rows, if what is kept is still what it was: marks are read within the transaction.
func (g *collector) remove(ctx context.Context, id TimelineID, k *kept, fn func(ctx context.Context, k *kept) error) error {
	return g.step(ctx, func(ctx context.Context) error {
		now, err := points(ctx, g.s.w, id)
		if err != nil {
			return err
		}
		for _, p := range now {
			if p < k.from && !pointIn(k.points, p, p+1) {
				return fmt.Errorf("state %d got a mark while its history was being collected; run it again", p)
			}
		}
		return fn(ctx, k)
	})
}

// thinNames removes superseded names that only states need which are not kept.
func (g *collector) thinNames(ctx context.Context, id TimelineID, k *kept) error {
	type row struct {
		parent Ino
		name   string
		seq    Seq
	}
	var at row
	for n := gcChunk; n == gcChunk; {
		n = 0
		var gone []row
		if _, err := scanAll(ctx, g.s.r, 4, `SELECT parent_ino, name, seq, end_seq FROM file_node_history WHERE timeline_id = ?
			AND (parent_ino, name, seq) > (?, ?, ?) ORDER BY parent_ino, name, seq LIMIT ?`,
			[]any{int64(id), int64(at.parent), []byte(at.name), int64(at.seq), int64(gcChunk)}, func(c *cells) error {
				n++
				if at = (row{Ino(c.int(0)), c.string(1), Seq(c.int(2))}); !k.has(at.seq, Seq(c.int(3))) {
					gone = append(gone, at)
				}
				return nil
			}); err != nil {
			return err
		}
		if g.dry != nil {
			g.res.Names += int64(len(gone))
		}
		if len(gone) == 0 || g.dry != nil {
			continue
		}
		if err := g.remove(ctx, id, k, func(ctx context.Context, _ *kept) error {
			for _, r := range gone {
				if _, err := g.s.w.exec(ctx, `DELETE FROM file_node_history WHERE timeline_id = ? AND parent_ino = ? AND name = ? AND seq = ?`,
					int64(id), int64(r.parent), []byte(r.name), int64(r.seq)); err != nil {
					return err
				}
			}
			g.res.Names += int64(len(gone))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
