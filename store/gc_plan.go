package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// need is what something needs of a timeline: its present, and states of its past.
type need struct {
	head   bool
	points []Seq // ascending, each once
}

// gcPlan is what is needed and what is not, at one moment.
type gcPlan struct {
	timelines []*Timeline
	gone      []WorkspaceID // dropped, and their time over
	goneRefs  [][2]int64    // workspace and line of reflogs that lead to nothing that is kept
	need      map[TimelineID]*need
	hidden    map[TimelineID]bool // segments that a chain lists
	sources   map[TimelineID]bool // timelines that a hidden segment was made of
}

// horizon is the time before which only what is pinned is kept; false: there is none.
func (g *collector) horizon() (int64, bool) {
	if n := len(g.keep.Tiers); n > 0 && g.keep.Tiers[n-1].For > 0 {
		return g.now - int64(g.keep.Tiers[n-1].For), true
	}
	return 0, false
}

func (g *collector) plan(ctx context.Context, q querier) (*gcPlan, error) {
	p := &gcPlan{need: map[TimelineID]*need{}, hidden: map[TimelineID]bool{}, sources: map[TimelineID]bool{}}
	dead := map[WorkspaceID]bool{}
	spaces, err := workspaceRows(ctx, q, ``)
	if err != nil {
		return nil, err
	}
	for _, ws := range spaces {
		if ws.DroppedAt != 0 && g.now-ws.DroppedAt >= int64(g.keep.Recover()) {
			dead[ws.ID] = true
			p.gone = append(p.gone, ws.ID)
			continue
		}
		p.head(ws.Timeline)
		p.point(ws.Base, ws.BaseSeq)
	}
	if err := g.planRefs(ctx, q, p, dead); err != nil {
		return nil, err
	}
	if _, err := scanAll(ctx, q, 3, `SELECT workspace_id, timeline_id, seq FROM tag`, nil, func(c *cells) error {
		if !dead[WorkspaceID(c.int(0))] {
			p.point(TimelineID(c.int(1)), Seq(c.int(2)))
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if _, err := scanAll(ctx, q, 5, `SELECT timeline_id, seq, kind, ref, expires FROM pin WHERE kind <> ?`, []any{PinRetained}, func(c *cells) error {
		if ws, ok := pinnedFor(c.string(2), c.string(3)); ok && dead[ws] || c.int(4) != 0 && c.int(4) <= g.now {
			return nil
		}
		p.point(TimelineID(c.int(0)), Seq(c.int(1)))
		return nil
	}); err != nil {
		return nil, err
	}
	if p.timelines, err = timelineRows(ctx, q); err != nil {
		return nil, err
	}
	p.ancestors(g.dry != nil)
	return p, nil
}

// planRefs takes the reflogs: what a workspace pointed to until a moment that is not too old can be gone back to.
func (g *collector) planRefs(ctx context.Context, q querier, p *gcPlan, dead map[WorkspaceID]bool) error {
	horizon, limited := g.horizon()
	var ws, next int64 // of the line before, which is the later one
	_, err := scanAll(ctx, q, 6, `SELECT workspace_id, n, timeline_id, base_timeline_id, base_seq, at FROM workspace_ref
		ORDER BY workspace_id, n DESC`, nil, func(c *cells) error {
		last := c.int(0) != ws
		until := next
		ws, next = c.int(0), c.int(5)
		switch {
		case dead[WorkspaceID(ws)]:
		case limited && !last && until < horizon:
			if c.int(2) != 0 || c.int(3) != 0 {
				p.goneRefs = append(p.goneRefs, [2]int64{ws, c.int(1)})
			}
		default:
			p.head(TimelineID(c.int(2)))
			p.point(TimelineID(c.int(3)), Seq(c.int(4)))
		}
		return nil
	})
	return err
}

// pinnedFor is the workspace that a pin was made for.
func pinnedFor(kind, ref string) (WorkspaceID, bool) {
	if kind != PinTemporary && kind != PinSession && kind != PinMerge {
		return 0, false
	}
	id, _, _ := strings.Cut(ref, " ")
	n, err := strconv.ParseInt(id, 10, 64)
	return WorkspaceID(n), err == nil
}

func (p *gcPlan) of(t TimelineID) *need {
	n := p.need[t]
	if n == nil {
		n = &need{}
		p.need[t] = n
	}
	return n
}

func (p *gcPlan) head(t TimelineID) {
	if t != 0 {
		p.of(t).head = true
	}
}

func (p *gcPlan) point(t TimelineID, seq Seq) {
	if t != 0 {
		n := p.of(t)
		n.points = append(n.points, seq)
	}
}

// ancestors adds what the timelines that are needed come from, and the segments that they are read through. What a hidden segment was
// made of stays for as long as that is there, in order: with all that it names itself. final: as if all were gone that will go.
func (p *gcPlan) ancestors(final bool) {
	byID := make(map[TimelineID]*Timeline, len(p.timelines))
	for _, t := range p.timelines {
		byID[t.ID] = t
		if t.Hidden && !final {
			for _, seg := range t.Chain {
				p.sources[seg.Timeline] = true
			}
		}
	}
	for i := len(p.timelines) - 1; i >= 0; i-- { // a timeline has a higher number than its parent
		t := p.timelines[i]
		if t.Hidden || p.need[t.ID] == nil && !p.sources[t.ID] {
			continue
		}
		p.point(t.Parent, t.ParentSeq)
		for _, seg := range t.Chain {
			if h := byID[seg.Timeline]; h != nil && h.Hidden {
				p.hidden[h.ID] = true
			}
		}
	}
	for _, n := range p.need {
		slices.Sort(n.points)
		n.points = slices.Compact(n.points)
	}
}

// sqlPoints are the states of a timeline that something names, but for those that the policy keeps.
const sqlPoints = `SELECT seq FROM tag WHERE timeline_id = ? UNION SELECT seq FROM pin WHERE timeline_id = ?
	UNION SELECT base_seq FROM workspace WHERE base_timeline_id = ?
	UNION SELECT base_seq FROM workspace_ref WHERE base_timeline_id = ?
	UNION SELECT parent_seq FROM timeline WHERE parent_id = ? AND hidden <> 3`

// points are all states of a timeline that are kept below its gc_seq, ascending.
func points(ctx context.Context, q querier, t TimelineID) ([]Seq, error) {
	var list []Seq
	id := int64(t)
	_, err := scanAll(ctx, q, 1, sqlPoints, []any{id, id, id, id, id}, func(c *cells) error {
		list = append(list, Seq(c.int(0)))
		return nil
	})
	slices.Sort(list)
	return list, err
}

// pointIn reports whether one of points, ascending, is in [from, before).
func pointIn(points []Seq, from, before Seq) bool {
	i, _ := slices.BinarySearch(points, from)
	return i < len(points) && points[i] < before
}

// stillKept returns ErrCollected unless the state of a timeline at seq, which is below gcSeq, is one that something names, or
// is equal to one because nothing was changed between.
func stillKept(ctx context.Context, q querier, t TimelineID, seq, gcSeq Seq) error {
	list, err := points(ctx, q, t)
	if err != nil {
		return err
	}
	if pointIn(list, seq, seq+1) {
		return nil
	}
	from, before := seq, MaxSeq
	if _, err := scanAll(ctx, q, 2, `SELECT (SELECT max(seq) FROM change WHERE timeline_id = ? AND seq <= ?),
		(SELECT min(seq) FROM change WHERE timeline_id = ? AND seq > ?)`, []any{int64(t), int64(seq), int64(t), int64(seq)},
		func(c *cells) error {
			if !c.null(0) {
				from = Seq(c.int(0))
			}
			if !c.null(1) {
				before = Seq(c.int(1))
			}
			return nil
		}); err != nil {
		return err
	}
	if pointIn(list, from, before) {
		return nil
	}
	e := &CollectedError{Timeline: t, Seq: seq}
	i, _ := slices.BinarySearch(list, seq)
	if i > 0 {
		e.Before = list[i-1]
	}
	e.After = gcSeq
	if i < len(list) {
		e.After = min(e.After, list[i])
	}
	return e
}

// notCut returns ErrCollected if a timeline once had a state beyond its head.
func notCut(ctx context.Context, q querier, t *Timeline, seq Seq) error {
	ended, err := setting(ctx, q, endedKey(t.ID))
	if err != nil || ended == "" {
		return err
	}
	return &CollectedError{Timeline: t.ID, Seq: seq, Before: t.Head}
}

// CollectedError is a state that was collected. It wraps ErrCollected.
type CollectedError struct {
	Timeline      TimelineID
	Seq           Seq
	Before, After Seq // the nearest that are kept; Before 0: none
}

func (e *CollectedError) Error() string {
	near := fmt.Sprintf("the next one that is kept is %d", e.After)
	if e.After == 0 {
		near = fmt.Sprintf("the last one before it that is kept is %d", e.Before)
	} else if e.Before != 0 {
		near = fmt.Sprintf("the nearest that are kept are %d and %d", e.Before, e.After)
	}
	return fmt.Sprintf("the state after change %d is not kept any more (`wsfs retain` shows what is): %s; a tag or a fork keeps a state for good", e.Seq, near)
}

// Unwrap makes errors.Is(err, ErrCollected) true.
func (e *CollectedError) Unwrap() error { return ErrCollected }
