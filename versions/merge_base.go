package versions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"syscall"

	"wsfs/store"
)

// reach is everything that a state came from: of each timeline the last seq that counts, through forks and merges.
type reach map[store.TimelineID]store.Seq

func (r reach) has(p Place) bool { seq, ok := r[p.Timeline]; return ok && seq >= p.Seq }

// ancestry finds out what states came from. It remembers what it read.
type ancestry struct {
	st     *store.Store
	merges map[store.TimelineID][]store.MergeRow
}

func newAncestry(st *store.Store) *ancestry {
	return &ancestry{st: st, merges: map[store.TimelineID][]store.MergeRow{}}
}

// of is what a state came from. A merge that was taken back and not brought again does not count: what it took in can be
// merged once more. The cost is that of forks and merges, not of changes.
func (a *ancestry) of(ctx context.Context, p Place) (reach, error) {
	r := reach{}
	for todo := []Place{p}; len(todo) > 0; {
		at := todo[len(todo)-1]
		if todo = todo[:len(todo)-1]; r.has(at) {
			continue
		}
		l := &life{st: a.st, ws: &store.Workspace{}}
		if err := l.inherit(ctx, at); err != nil {
			return nil, err
		}
		var dead *undoings
		for _, pc := range l.pieces {
			t, upTo := pc.span.Timeline, pc.span.UpTo
			if seq, ok := r[t]; !ok || seq < upTo {
				r[t] = upTo
			}
			rows, err := a.on(ctx, t)
			if err != nil {
				return nil, err
			}
			for _, m := range rows {
				if m.Seq > upTo {
					break
				}
				if dead == nil {
					if dead, err = l.undoings(ctx); err != nil {
						return nil, err
					}
				}
				if d := dead.step(t, m.Command, m.Seq); d == nil || d.partial {
					todo = append(todo, Place{m.Timeline, m.Merged.Seq})
				}
			}
		}
	}
	return r, nil
}

func (a *ancestry) on(ctx context.Context, t store.TimelineID) ([]store.MergeRow, error) {
	if rows, ok := a.merges[t]; ok {
		return rows, nil
	}
	rows, err := a.st.Merges(ctx, t, store.MaxSeq)
	a.merges[t] = rows
	return rows, err
}

// apart is how two states are related.
type apart struct {
	common       []Place      // the newest states that both came from; usually one
	older        []Place      // others, newest first: for when history was collected
	ours, theirs []store.Span // the changes that only one of them came from
}

// between relates two states. They have nothing in common: ENOENT.
func (a *ancestry) between(ctx context.Context, ours, theirs Place) (*apart, error) {
	x, err := a.of(ctx, ours)
	if err != nil {
		return nil, err
	}
	y, err := a.of(ctx, theirs)
	if err != nil {
		return nil, err
	}
	out := &apart{ours: beyond(x, y), theirs: beyond(y, x)}
	var cand []Place
	for t, seq := range x {
		if other, ok := y[t]; ok {
			cand = append(cand, Place{t, min(seq, other)})
		}
	}
	// Timelines begin behind those that they came from, so the highest seqs make the others superfluous soonest.
	slices.SortFunc(cand, func(p, q Place) int {
		return cmp.Or(cmp.Compare(q.Seq, p.Seq), cmp.Compare(q.Timeline, p.Timeline))
	})
	gone := map[Place]bool{}
	for _, c := range cand {
		if gone[c] {
			continue
		}
		r, err := a.of(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, d := range cand {
			if d != c && !gone[d] && r.has(d) {
				gone[d] = true
			}
		}
	}
	for _, c := range cand {
		if gone[c] {
			out.older = append(out.older, c)
		} else {
			out.common = append(out.common, c)
		}
	}
	if len(out.common) == 0 {
		return nil, fmt.Errorf("they were not made from one another, nor from a third one: %w", syscall.ENOENT)
	}
	return out, nil
}

// beyond is the changes in x that are not in y.
func beyond(x, y reach) []store.Span {
	var list []store.Span
	for t, seq := range x {
		if seq > y[t] {
			list = append(list, store.Span{Timeline: t, After: y[t], UpTo: seq})
		}
	}
	return list
}
