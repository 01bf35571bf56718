package store

import (
	"context"
	"slices"
)

// dryRun is what would be removed, so that what only that names is counted too.
type dryRun struct {
	timelines map[TimelineID]bool
	versions  map[VersionID]struct{}
	sources   map[TimelineID]bool // of hidden segments that stay
	from      map[TimelineID]Seq  // from where on all of a timeline is kept
	gone      map[WorkspaceID]bool
}

func (d *dryRun) goes(t TimelineID, v VersionID) bool {
	if d == nil {
		return false
	}
	_, ok := d.versions[v]
	return ok || d.timelines[t]
}

// try counts what Collect would remove. Now and then that is a little more in truth: what goes with a mark that goes.
func (g *collector) try(ctx context.Context) error {
	g.dry = &dryRun{timelines: map[TimelineID]bool{}, versions: map[VersionID]struct{}{}, from: map[TimelineID]Seq{}, gone: map[WorkspaceID]bool{}}
	p, err := g.plan(ctx, g.s.r)
	if err != nil {
		return err
	}
	g.res.Workspaces = int64(len(p.gone))
	for _, ws := range p.gone {
		g.dry.gone[ws] = true
	}
	// A timeline that a hidden segment was made of goes with the last chain that lists that.
	sources := map[TimelineID]bool{}
	g.dry.sources = sources
	for _, t := range p.timelines {
		if t.Hidden && p.hidden[t.ID] {
			for _, seg := range t.Chain {
				sources[seg.Timeline] = true
			}
		}
	}
	for _, t := range p.timelines {
		if t.Hidden && p.hidden[t.ID] || !t.Hidden && (p.need[t.ID] != nil || sources[t.ID]) {
			continue
		}
		g.dry.timelines[t.ID] = true
		g.res.Timelines++
		for _, c := range []struct {
			table string
			n     *int64
		}{
			{"file_version", &g.res.Versions}, {"file_node", &g.res.Names}, {"file_node_history", &g.res.Names}, {"change", &g.res.Changes},
		} {
			if _, err := scanAll(ctx, g.s.r, 1, `SELECT count(*) FROM `+c.table+` WHERE timeline_id = ?`, []any{int64(t.ID)}, func(cl *cells) error {
				*c.n += cl.int(0)
				return nil
			}); err != nil {
				return err
			}
		}
	}
	for _, t := range p.timelines {
		if n := p.need[t.ID]; !t.Hidden && n != nil {
			if err := g.tryOne(ctx, t, n); err != nil {
				return err
			}
		}
	}
	return g.tryBlobs(ctx)
}

func (g *collector) tryOne(ctx context.Context, t *Timeline, n *need) error {
	k := &kept{top: MaxSeq, points: n.points}
	if top, ok := n.end(t); ok {
		k.top = top
		g.res.States += int64(t.Head - top)
		for _, c := range []struct {
			table string
			n     *int64
		}{{"file_node", &g.res.Names}, {"change", &g.res.Changes}} {
			if _, err := scanAll(ctx, g.s.r, 1, `SELECT count(*) FROM `+c.table+` WHERE timeline_id = ? AND +seq > ?`, []any{int64(t.ID), int64(top)},
				func(cl *cells) error {
					*c.n += cl.int(0)
					return nil
				}); err != nil {
				return err
			}
		}
	}
	if len(g.keep.Tiers) > 0 {
		from, states, err := g.statesToKeep(ctx, t.ID, k.top)
		if err != nil {
			return err
		}
		if k.from = min(max(from, t.GCSeq), k.top); k.from > t.GCSeq {
			g.res.States += int64(k.from - t.GCSeq)
		}
		g.dry.from[t.ID] = k.from
		k.points = mergeSeqs(n.points, states)
	} else if k.top == MaxSeq {
		return nil
	}
	if err := g.thinVersions(ctx, t.ID, k); err != nil {
		return err
	}
	if err := g.thinNames(ctx, t.ID, k); err != nil {
		return err
	}
	return g.thinChanges(ctx, t, k)
}

func (g *collector) tryBlobs(ctx context.Context) error {
	d, err := g.letGo(ctx)
	if err != nil {
		return err
	}
	m, err := g.marked(ctx, d)
	if err != nil {
		return err
	}
	after := int64(0)
	for n := gcChunk; n == gcChunk; {
		if err := g.pause(ctx); err != nil {
			return err
		}
		n = 0
		if _, err := scanAll(ctx, g.s.r, 3, `SELECT id, hash, COALESCE(length(data), pack_length) FROM blob WHERE id > ? ORDER BY id LIMIT ?`,
			[]any{after, int64(gcChunk)}, func(c *cells) error {
				n++
				after = c.int(0)
				if r := c.ref(1); !m.has(r) {
					g.res.Blobs++
					g.res.BlobBytes += c.int(2)
					if d.lets(r) {
						g.res.LetGo++
					}
				}
				return c.bad
			}); err != nil {
			return err
		}
	}
	g.res.After = max(0, g.res.Before-g.res.BlobBytes)
	return nil
}

func mergeSeqs(a, b []Seq) []Seq {
	out := append(append([]Seq(nil), a...), b...)
	slices.Sort(out)
	return slices.Compact(out)
}
