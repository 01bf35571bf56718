package versions

import (
	"context"
	"slices"

	"wsfs/store"
)

// settle finds what cannot be together, though each by itself could: two things of one name, something in a directory that
// goes, a directory inside of itself. What theirs did to one of them is then left out, which may make others impossible, so it
// is looked at until nothing is found. That ends: what is left at last is ours.
func (m *merge) settle(ctx context.Context) error {
	for {
		n := 0
		for _, step := range []func(context.Context) (int, error){m.collisions, m.orphans, m.leftovers, m.cycles} {
			k, err := step(ctx)
			if err != nil {
				return err
			}
			if n += k; k > 0 {
				break
			}
		}
		if n == 0 {
			return nil
		}
	}
}

// yield leaves an entity where ours has it.
func (m *merge) yield(ctx context.Context, e *entity, why, detail string) error {
	e.forced, e.want = true, e.no
	return m.conflict(ctx, e, why, detail)
}

// moves reports whether a merge gives an entity a name, or takes one away.
func (e *entity) moves() bool { return !e.forced && !slices.Equal(e.want, e.no) }

// here is a name in the terms of the target's inodes.
func (m *merge) here(k store.DirName) store.DirName {
	return store.DirName{Parent: m.inoHere(k.Parent), Name: k.Name}
}

// collisions finds names that two entities want, or that something has which theirs never touched.
func (m *merge) collisions(ctx context.Context) (int, error) {
	holder := map[store.DirName]*entity{}
	var fresh []store.DirName
	for _, e := range m.list {
		for _, k := range e.want {
			if slices.Contains(e.no, k) {
				holder[k] = e
			} else {
				fresh = append(fresh, m.here(k))
			}
		}
	}
	slices.SortFunc(fresh, compareNames)
	if err := m.ours.lookup(ctx, fresh); err != nil {
		return 0, err
	}
	for _, e := range m.list {
		for _, k := range e.want {
			if slices.Contains(e.no, k) {
				continue
			}
			other := holder[k]
			here := m.ours.at[m.here(k)]
			if other == nil && here != 0 && m.at[m.ours.entity(here)] != nil {
				here = 0 // it goes elsewhere
			}
			if other == nil && here == 0 {
				holder[k] = e
				continue
			}
			o := m.ours.vers[here]
			if other != nil {
				if o = other.o; o == nil {
					o = other.t
				}
			}
			why, detail := ConflictName, "something else has the name that it has there"
			if o != nil && e.t != nil && o.IsDir() != e.t.IsDir() {
				why, detail = ConflictType, "the name leads to a directory on one side and to something else on the other"
			}
			return 1, m.yield(ctx, e, why, detail)
		}
	}
	return 0, nil
}

// alive reports whether an entity will be in the tree; ours that theirs never touched are, if they are there.
func (m *merge) alive(ctx context.Context, id store.Ino) (bool, error) {
	if id == store.RootIno {
		return true, nil
	}
	if e := m.at[id]; e != nil {
		return len(e.want) > 0, nil
	}
	err := m.ours.load(ctx, []store.Ino{m.ours.ino(id)})
	return m.ours.of(id) != nil, err
}

// orphans finds what would be in a directory that is not there.
func (m *merge) orphans(ctx context.Context) (int, error) {
	n := 0
	for _, e := range m.list {
		for _, k := range e.want {
			up, err := m.alive(ctx, k.Parent)
			if err != nil {
				return n, err
			}
			if up {
				continue
			}
			n++
			if dir := m.at[k.Parent]; dir != nil && slices.Contains(e.no, k) && len(dir.no) > 0 {
				if err := m.yield(ctx, dir, ConflictNotEmpty, "it was removed there, and holds something here"); err != nil {
					return n, err
				}
				continue
			}
			if err := m.yield(ctx, e, ConflictDirectory, "the directory that it is in there was removed here"); err != nil {
				return n, err
			}
			break
		}
	}
	return n, nil
}

// leftovers finds directories that would go with something in them that theirs never touched.
func (m *merge) leftovers(ctx context.Context) (int, error) {
	n := 0
	for _, e := range m.list {
		if len(e.want) > 0 || e.o == nil || !e.o.IsDir() || e.forced {
			continue
		}
		kids, err := m.kids(ctx, m.ours.ino(e.id))
		if err != nil {
			return n, err
		}
		for _, ino := range kids {
			if m.at[m.ours.entity(ino)] == nil {
				n++
				if err := m.yield(ctx, e, ConflictNotEmpty, "it was removed there, and holds something here"); err != nil {
					return n, err
				}
				break
			}
		}
	}
	return n, nil
}

// kids are the inodes in a directory of ours.
func (m *merge) kids(ctx context.Context, dir store.Ino) ([]store.Ino, error) {
	if list, ok := m.inside[dir]; ok {
		return list, nil
	}
	list := []store.Ino{}
	err := m.oursView.ReadDir(ctx, dir, func(n store.Name, _ *store.Version) error {
		list = append(list, n.Ino)
		return nil
	})
	m.inside[dir] = list
	return list, err
}

// cycles finds directories that would be inside of themselves.
func (m *merge) cycles(ctx context.Context) (int, error) {
	n := 0
	for _, e := range m.list {
		if !e.moves() || !e.isDir() || len(e.want) == 0 {
			continue
		}
		at := e.want[0].Parent
		for range MaxPath {
			if at == store.RootIno || at == e.id {
				break
			}
			if up := m.at[at]; up != nil {
				if len(up.want) == 0 {
					break
				}
				at = up.want[0].Parent
				continue
			}
			if err := m.ours.load(ctx, []store.Ino{m.ours.ino(at)}); err != nil {
				return n, err
			}
			list := m.ours.placesOf(at)
			if len(list) == 0 {
				break
			}
			at = list[0].Parent
		}
		if at == e.id {
			n++
			if err := m.yield(ctx, e, ConflictCycle, "with what was moved here it would be inside of itself"); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}
