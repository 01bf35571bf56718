package versions

import (
	"context"
	"slices"

	"wsfs/store"
)

// entity is one file or directory over the three states of a merge. Its places are in the terms of entities.
type entity struct {
	id         store.Ino
	b, o, t    *store.Version // nil: not there
	nb, no, nt []store.DirName
	want       []store.DirName // where it will be
	forced     bool            // it stays where ours has it
	chosen     bool
	part       *part // of what theirs did only this is taken
	conflicts  []MergeConflict
	state      *fused // what it becomes, nil: it stays as it is
	both       bool   // of a text: it has what both sides wrote
}

func (e *entity) isDir() bool {
	for _, v := range []*store.Version{e.o, e.t, e.b} {
		if v != nil {
			return v.IsDir()
		}
	}
	return false
}

// changed says what a side did to an entity that it still has.
func changed(b, x *store.Version) bool { return b == nil || !sameVersion(b, x) }

// entities makes the list of what their changes may have changed.
func (m *merge) entities(ctx context.Context) error {
	for _, ino := range m.found {
		id := ino
		if m.base.vers[ino] == nil {
			id = m.theirs.entity(ino)
		}
		if m.at[id] != nil {
			continue
		}
		e := &entity{id: id, b: m.base.vers[id], o: m.ours.of(id), t: m.theirs.of(id)}
		e.nb, e.no, e.nt = m.base.placesOf(id), m.ours.placesOf(id), m.theirs.placesOf(id)
		e.want = e.no
		m.at[id] = e
		m.list = append(m.list, e)
	}
	if len(m.sel.Hunks) > 0 {
		return m.take(ctx)
	}
	if len(m.sel.Only) == 0 {
		for _, e := range m.list {
			e.chosen = true
		}
		return nil
	}
	return m.only(ctx)
}

// only leaves out what was not asked for. What comes brings the directories that it is in.
func (m *merge) only(ctx context.Context) error {
	for _, e := range m.list {
		for _, s := range []*mergeSide{m.ours, m.theirs, m.base} {
			path, ok, err := s.path(ctx, e.id)
			if err != nil {
				return err
			}
			e.chosen = e.chosen || ok && chosen(path, m.sel.Only, nil)
		}
	}
	for _, e := range m.list {
		for up := e; up != nil && up.chosen && len(up.nt) > 0; {
			if up = m.at[up.nt[0].Parent]; up != nil && up.o == nil && up.b == nil {
				up.chosen = true
			} else {
				up = nil
			}
		}
	}
	for _, e := range m.list {
		if !e.chosen {
			if changed(e.b, e.t) && !(e.b == nil && e.t == nil) || !slices.Equal(e.nb, e.nt) {
				m.plan.Skipped++
			}
			e.t, e.nt = e.b, e.nb // as if they had left it alone
			if e.b == nil {
				e.t, e.nt = nil, nil
			}
		}
	}
	return nil
}

// decide works out where an entity goes, for itself.
func (m *merge) decide(ctx context.Context, e *entity) error {
	theirs := m.sel.Prefer == PreferTheirs
	moved := !slices.Equal(e.nb, e.nt)
	switch {
	case e.b == nil && e.t == nil:
	case e.b == nil && e.o == nil: // new there
		e.want = e.nt
	case e.b == nil: // both have it
		if e.isDir() || slices.Equal(e.no, e.nt) || e.t == nil {
			return nil
		}
		e.want = union(e.no, e.nt)
	case e.t == nil && e.o == nil:
	case e.t == nil: // removed there
		if !changed(e.b, e.o) && slices.Equal(e.nb, e.no) || theirs {
			e.want = nil
			return nil
		}
		return m.conflict(ctx, e, ConflictDelete, "it was removed there, and changed here")
	case e.o == nil: // removed here
		if !moved && !changed(e.b, e.t) {
			return nil
		}
		if theirs {
			e.want = e.nt
			return nil
		}
		return m.conflict(ctx, e, ConflictModify, "it was changed there, and removed here")
	case moved && !slices.Equal(e.no, e.nt):
		return m.move(ctx, e)
	}
	return nil
}

// spare keeps what is in a directory that they removed and that stays, because we gave it another name or other attributes: a conflict about
// a directory is one about all of it.
func (m *merge) spare() {
	for _, e := range m.list {
		if e.o != nil && e.t == nil && len(e.want) == 0 && m.refused(e) {
			e.forced, e.want = true, e.no
		}
	}
}

// refused reports whether a directory that something of ours is in was removed there, and stays.
func (m *merge) refused(e *entity) bool {
	return slices.ContainsFunc(e.no, func(k store.DirName) bool {
		up := m.at[k.Parent]
		if up == nil || up == e || up.t != nil {
			return false
		}
		return slices.ContainsFunc(up.conflicts, func(c MergeConflict) bool { return c.Why == ConflictDelete }) || m.refused(up)
	})
}

// move merges two changes of names.
func (m *merge) move(ctx context.Context, e *entity) error {
	if len(e.nb) == 1 && len(e.no) == 1 && len(e.nt) == 1 {
		// Directory and name by themselves, like two lines of a text.
		b, o, t := e.nb[0], e.no[0], e.nt[0]
		parent, ok := backOne(o.Parent, b.Parent, t.Parent)
		name, okName := backOne(o.Name, b.Name, t.Name)
		if ok && okName {
			e.want = []store.DirName{{Parent: parent, Name: name}}
			return nil
		}
		if m.sel.Prefer == PreferTheirs {
			e.want = e.nt
			return nil
		}
		return m.conflict(ctx, e, ConflictRename, "it was given one name here and another there")
	}
	want := slices.DeleteFunc(union(e.no, minus(e.nt, e.nb)), func(k store.DirName) bool { return slices.Contains(minus(e.nb, e.nt), k) })
	if len(want) == 0 { // each took away the names that the other left
		return m.conflict(ctx, e, ConflictDelete, "of its names some were removed here and the others there")
	}
	e.want = want
	return nil
}

func union(a, b []store.DirName) []store.DirName {
	out := append(slices.Clone(a), b...)
	slices.SortFunc(out, compareNames)
	return slices.Compact(out)
}

func minus(a, b []store.DirName) []store.DirName {
	var out []store.DirName
	for _, k := range a {
		if !slices.Contains(b, k) {
			out = append(out, k)
		}
	}
	return out
}
