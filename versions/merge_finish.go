package versions

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"wsfs/store"
)

// finish turns what was decided into end states, and tells what changes.
func (m *merge) finish(ctx context.Context) error {
	names := map[store.DirName]store.Name{}
	for _, e := range m.list {
		for _, k := range minus(e.no, e.want) {
			at := m.here(k)
			if _, taken := names[at]; !taken {
				names[at] = store.Name{Parent: at.Parent, Name: at.Name}
			}
		}
		for _, k := range minus(e.want, e.no) {
			at := m.here(k)
			v := e.o
			if v == nil {
				v = e.t
			}
			names[at] = store.Name{Parent: at.Parent, Name: at.Name, Ino: m.inoHere(e.id), Type: v.Type()}
		}
	}
	for _, n := range names {
		m.plan.Names = append(m.plan.Names, n)
	}
	slices.SortFunc(m.plan.Names, byName)
	slices.SortFunc(m.plan.Versions, func(a, b store.Version) int { return cmp.Compare(a.Ino, b.Ino) })
	for _, e := range m.list {
		if m.sel.Prefer == PreferNone || m.sel.Prefer == PreferTheirs {
			m.plan.Conflicts = append(m.plan.Conflicts, e.conflicts...)
		}
		if err := m.tell(ctx, e); err != nil {
			return err
		}
	}
	slices.SortFunc(m.plan.Entries, func(a, b MergeEntry) int { return strings.Compare(a.Path, b.Path) })
	slices.SortStableFunc(m.plan.Conflicts, func(a, b MergeConflict) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// tell says what happens to an entity.
func (m *merge) tell(ctx context.Context, e *entity) error {
	moved := !slices.Equal(e.want, e.no)
	listed := e.state != nil && (e.state.text != nil || e.o == nil || !sameVersion(&e.state.v, e.o))
	if !moved && !listed {
		return nil
	}
	was, _, err := m.ours.path(ctx, e.id)
	if err != nil {
		return err
	}
	x := MergeEntry{Path: was, Dir: e.isDir()}
	if len(e.want) > 0 && moved {
		if x.Path, err = m.willBe(ctx, e.want[0]); err != nil {
			return err
		}
		if added := minus(e.want, e.no); len(added) > 0 {
			if x.Path, err = m.willBe(ctx, added[0]); err != nil {
				return err
			}
		}
	}
	switch {
	case len(e.want) == 0:
		x.What = UndoRemoved
		m.plan.Removed++
	case e.o == nil:
		x.What = UndoCreated
		m.plan.Created++
	case moved:
		x.What, x.From = UndoRenamed, was
		m.plan.Renamed++
	case e.both:
		x.What = MergeMerged
		m.plan.Merges++
	default:
		x.What = UndoChanged
		m.plan.Changed++
	}
	if x.Path == "" {
		x.Path = "."
	}
	m.plan.Entries = append(m.plan.Entries, x)
	return nil
}

// willBe is the path of a name when the merge is done.
func (m *merge) willBe(ctx context.Context, k store.DirName) (string, error) {
	path := k.Name
	for range MaxPath {
		if k.Parent == store.RootIno {
			break
		}
		if e := m.at[k.Parent]; e != nil && len(e.want) > 0 {
			k = e.want[0]
		} else {
			if err := m.ours.load(ctx, []store.Ino{m.ours.ino(k.Parent)}); err != nil {
				return "", err
			}
			list := m.ours.placesOf(k.Parent)
			if len(list) == 0 {
				break
			}
			k = list[0]
		}
		path = k.Name + "/" + path
	}
	return path, nil
}
