package versions

import (
	"context"
	"errors"
	"fmt"

	"wsfs/store"
)

// PlanRollback works out how a workspace that stands at is brought to the state to: by moving its pointer, or if sel names
// paths, by a change of what is at or below them. Nothing is kept that came after to. The cost is that of the changes
// between the two. A state that lacks bytes is refused with a *LackError, or such files are left out (UndoPlan.Missing).
func PlanRollback(ctx context.Context, st *store.Store, ws *store.Workspace, at, to Place, sel UndoSelect) (*UndoPlan, error) {
	sel.Paths, sel.Except = cleanAll(sel.Paths), nil
	plan := &UndoPlan{At: at}
	if at == to {
		return nil, nothing("roll back %q: it is that state already", ws.Name)
	}
	if len(sel.Paths) == 0 {
		lack, err := to.lack(ctx, st, sel.WithoutMissing)
		switch {
		case err != nil:
			return nil, fmt.Errorf("roll back %q: %w", ws.Name, err)
		case lack == nil:
			plan.Move = &to
			if !sel.List {
				return plan, plan.countMove(ctx, st)
			}
		case sel.WithoutMissing:
			// A present has all its bytes, so the pointer cannot go there: it is a change of everything else.
			sel.Except, plan.Missing = lack.Paths, lack.Paths
		default:
			return nil, fmt.Errorf("roll back %q: %w; with --without-missing these files stay as they are now, and all else is brought back", ws.Name, lack)
		}
	}
	h := newHistory(&life{st: st, ws: ws, stands: at})
	// As if one change had led from there to here: taking it back meets nobody else's.
	pc := &piece{from: to, to: at, move: &store.Ref{N: 1}}
	if err := h.jump(ctx, pc, true); err != nil {
		return nil, err
	}
	h.sort()
	if err := h.parents(ctx); err != nil {
		return nil, err
	}
	return plan, plan.work(ctx, st, &sel, h)
}

// countMove counts what moving the pointer changes, by names alone but for files that keep theirs.
func (plan *UndoPlan) countMove(ctx context.Context, st *store.Store) error {
	a, err := st.ViewAt(ctx, plan.At.Timeline, plan.At.Seq)
	if err != nil {
		return err
	}
	b, err := st.ViewAt(ctx, plan.Move.Timeline, plan.Move.Seq)
	if err != nil {
		return err
	}
	pairs, touched, err := namesApart(ctx, st, a, b)
	if err != nil {
		return err
	}
	lost, told := map[store.Ino]bool{}, map[store.Ino]bool{}
	for _, p := range pairs {
		if p[0] != 0 && p[0] != p[1] {
			lost[p[0]] = true
		}
	}
	for _, p := range pairs {
		was, is := p[0], p[1]
		if was == is {
			continue
		}
		told[was], told[is] = true, true
		switch {
		case was != 0 && is != 0:
			plan.Changed++
		case is != 0 && lost[is]:
			plan.Renamed++
		case is != 0:
			plan.Created++
		default:
			plan.Removed++
		}
	}
	plan.Removed -= plan.Renamed
	var inos []store.Ino
	for ino := range touched {
		if !told[ino] {
			inos = append(inos, ino)
		}
	}
	v, err := a.Versions(ctx, inos)
	if err != nil {
		return err
	}
	w, err := b.Versions(ctx, inos)
	if err != nil {
		return err
	}
	for i := range inos {
		if v[i] == nil || w[i] == nil || v[i].Nlink == 0 || w[i].Nlink == 0 {
			continue
		}
		if _, differs := entry("", v[i], w[i]); differs {
			plan.Changed++
		}
	}
	return nil
}

// namesApart is what each name leads to in a and in b, of those that a change between the two touched, and the inodes
// that these touched. If one of them is in the past of the other, as it nearly always is, the changes tell; else both are
// asked.
func namesApart(ctx context.Context, st *store.Store, a, b *store.View) (pairs [][2]store.Ino, inos map[store.Ino]bool, err error) {
	spans, err := st.Apart(ctx, a, b)
	if err != nil {
		return nil, nil, err
	}
	back, forth := true, true // b is in the past of a, a in that of b
	for _, v := range []struct {
		of   *store.View
		only *bool
	}{{b, &back}, {a, &forth}} {
		line, err := st.Lineage(ctx, v.of)
		if err != nil {
			return nil, nil, err
		}
		for _, sp := range spans {
			for _, seg := range line {
				if seg.Timeline == sp.Timeline && seg.Cut > sp.After && sp.UpTo > sp.After {
					*v.only = false
				}
			}
		}
	}
	inos = map[store.Ino]bool{}
	h := newHistory(&life{st: st})
	for _, sp := range spans {
		switch err := h.complete(ctx, sp); {
		case errors.Is(err, store.ErrCollected):
			back, forth = false, false // some changes are not there, and what they tell is not all
		case err != nil && !missing(err): // a timeline that nothing was written to yet
			return nil, nil, err
		}
	}
	if back || forth {
		n := store.Seq(0)
		for _, sp := range spans {
			n += sp.UpTo - sp.After
		}
		h.expect(n)
		for i := len(spans) - 1; i >= 0; i-- { // oldest first
			if err := h.span(ctx, spans[i], false, newPicked()); err != nil {
				return nil, nil, err
			}
		}
		if len(h.whole) == 0 {
			for _, list := range h.names {
				p := [2]store.Ino{list[len(list)-1].after, list[0].before}
				if forth {
					p[0], p[1] = p[1], p[0]
				}
				pairs = append(pairs, p)
			}
			for ino := range h.inos {
				inos[ino] = true
			}
			return pairs, inos, nil
		}
	}
	t := newTouched()
	if err := t.collect(ctx, st, a, b, 0); err != nil {
		return nil, nil, err
	}
	keys := make([]store.DirName, 0, len(t.names))
	for k := range t.names {
		keys = append(keys, k)
	}
	err = newHistory(&life{st: st}).between(ctx, a, b, keys, nil, func(_ store.DirName, x, y store.Name) {
		pairs = append(pairs, [2]store.Ino{x.Ino, y.Ino})
	}, nil)
	return pairs, t.inos, err
}

// Large reports whether a plan removes so much that somebody should be asked: more than 1,000 files, or three and more
// that are over a fifth of all.
func (plan *UndoPlan) Large(ctx context.Context, st *store.Store) (bool, error) {
	const many, few, share = 1000, 3, 5
	if plan.Removed > many || plan.Removed < few {
		return plan.Removed > many, nil
	}
	v, err := st.ViewAt(ctx, plan.At.Timeline, plan.At.Seq)
	if err != nil {
		return false, err
	}
	n := 0
	for dirs := []store.Ino{store.RootIno}; len(dirs) > 0 && n < share*plan.Removed; dirs = dirs[1:] {
		if err := v.ReadDir(ctx, dirs[0], func(nm store.Name, ver *store.Version) error {
			if n++; ver.IsDir() {
				dirs = append(dirs, nm.Ino)
			}
			return nil
		}); err != nil {
			return false, err
		}
	}
	return n < share*plan.Removed, nil
}
