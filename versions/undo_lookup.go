package versions

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"syscall"

	"wsfs/store"
)

const (
	dirType  = syscall.S_IFDIR
	fileType = syscall.S_IFREG
)

func compareNames(a, b store.DirName) int {
	if a.Parent != b.Parent {
		return cmp.Compare(a.Parent, b.Parent)
	}
	return strings.Compare(a.Name, b.Name)
}

// between is the names and inodes that two states have different, with both sides.
func (h *history) between(ctx context.Context, a, b *store.View, names []store.DirName, inos []store.Ino,
	name func(k store.DirName, before, after store.Name), ino func(before, after *store.Version),
) error {
	slices.SortFunc(names, compareNames)
	names = slices.Compact(names)
	slices.Sort(inos)
	inos = slices.Compact(inos)
	x, err := a.Lookups(ctx, names)
	if err != nil {
		return err
	}
	y, err := b.Lookups(ctx, names)
	if err != nil {
		return err
	}
	for i, k := range names {
		if x[i].Ino != y[i].Ino {
			name(k, x[i], y[i])
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
		if v[i] == nil && w[i] == nil || v[i] != nil && w[i] != nil && v[i].ID == w[i].ID {
			continue
		}
		ino(v[i], w[i])
	}
	return nil
}

// jump takes in a move of the pointer as if it had been a change of everything that differs between its ends.
func (h *history) jump(ctx context.Context, pc *piece, mine bool) error {
	a, err := h.st.ViewAt(ctx, pc.from.Timeline, pc.from.Seq)
	if err != nil {
		return err
	}
	b, err := h.st.ViewAt(ctx, pc.to.Timeline, pc.to.Seq)
	if err != nil {
		return err
	}
	t := newTouched()
	if err := t.collect(ctx, h.st, a, b, 0); err != nil {
		return err
	}
	var names []store.DirName
	var inos []store.Ino
	for k := range t.names {
		names = append(names, k)
	}
	for ino := range t.inos {
		inos = append(inos, ino)
		delete(h.seen, ino)
	}
	return h.pair(ctx, a, b, names, inos, pc.at(), mine, pc.move.Command)
}

// pair takes in the difference of two states as one event.
func (h *history) pair(ctx context.Context, a, b *store.View, names []store.DirName, inos []store.Ino, at moment, mine bool, command store.CommandID) error {
	return h.between(ctx, a, b, names, inos, func(k store.DirName, before, after store.Name) {
		h.names[k] = append(h.names[k], nameEvent{at: at, mine: mine, before: before.Ino, after: after.Ino, command: command})
		for _, n := range []store.Name{before, after} {
			if n.Ino != 0 {
				h.kinds[n.Ino] = n.Type
			}
		}
	}, func(before, after *store.Version) {
		e := inoEvent{at: at, mine: mine, before: before, after: after, command: command, born: before == nil || before.Nlink == 0}
		if after == nil { // not on the way to the present: it comes back as it was
			h.past[before.Ino] = before
			return
		}
		h.inos[after.Ino] = append(h.inos[after.Ino], e)
	})
}

// lookUp completes what items alone do not tell.
func (h *history) lookUp(ctx context.Context) error {
	for i := range h.whole {
		w := &h.whole[i]
		before, err := h.st.ViewAt(ctx, w.timeline, w.at.seq-1)
		if err != nil {
			return err
		}
		after, err := h.st.ViewAt(ctx, w.timeline, w.at.seq)
		if err != nil {
			return err
		}
		if err := h.pair(ctx, before, after, w.names, w.inos, w.at, w.mine, w.command); err != nil {
			return err
		}
	}
	h.whole = nil
	// The versions before ours, by the parent that each names.
	var ids []store.VersionID
	var want []*inoEvent
	for ino, list := range h.inos {
		for i := range list {
			e := &list[i]
			switch {
			case e.born || e.before != nil || !e.mine:
			case e.after == nil:
				if err := h.around(ctx, ino, e); err != nil {
					return err
				}
			case e.after.Parent == 0:
				e.born = true
			default:
				ids, want = append(ids, e.after.Parent), append(want, e)
			}
		}
	}
	vs, err := h.st.VersionsByID(ctx, ids)
	for i, e := range want {
		if err == nil {
			e.before = vs[i]
			e.born = vs[i] == nil || vs[i].Nlink == 0
		}
	}
	return err
}

// around looks up both versions of a change whose own was merged with a later one.
func (h *history) around(ctx context.Context, ino store.Ino, e *inoEvent) error {
	for _, side := range []struct {
		seq store.Seq
		to  **store.Version
	}{{e.at.seq - 1, &e.before}, {e.at.seq, &e.after}} {
		v, err := h.st.ViewAt(ctx, e.timeline, side.seq)
		if err != nil {
			return err
		}
		vs, err := v.Versions(ctx, []store.Ino{ino})
		if err != nil {
			return err
		}
		*side.to = vs[0]
	}
	e.born = e.before == nil || e.before.Nlink == 0
	return nil
}
