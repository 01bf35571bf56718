package store

import "context"

// The last row of what was removed says that it was, and what it was. While the state before the removal can be read, undoing needs its
// content; but from where a timeline's history is complete, back, nothing shows it: no state has a name for it, the removal cannot be
// taken back, and states further back that something names have rows of their own. So it keeps no content, and Check does not ask
// for one (rules 30 and 32).

// sqlRemoved is true for a version v of that kind, and for those that may be: a timeline that is just being cut has its gc_seq beyond its
// head, and only a setting knows what it was before.
const sqlRemoved = `v.nlink = 0 AND v.seq <= COALESCE((SELECT t.gc_seq FROM timeline t
	WHERE t.id = CASE v.origin_timeline_id WHEN 0 THEN v.timeline_id ELSE v.origin_timeline_id END), 0)`

// removedUpTo is up to where the rows of a timeline without names are of that kind. While it is being cut none is: what is still there stays.
func (g *collector) removedUpTo(t *Timeline) Seq {
	switch {
	case g.dry != nil && g.dry.from[t.ID] != 0:
		return g.dry.from[t.ID]
	case t.GCSeq > t.Head:
		return 0
	}
	return t.GCSeq
}

// removals are removedUpTo of all timelines, as far as there is anything.
func (g *collector) removals(ctx context.Context) (map[TimelineID]Seq, error) {
	list, err := timelineRows(ctx, g.s.r)
	if err != nil {
		return nil, err
	}
	upTo := make(map[TimelineID]Seq, len(list))
	for _, t := range list {
		if seq := g.removedUpTo(t); seq > 0 {
			upTo[t.ID] = seq
		}
	}
	return upTo, nil
}
