package versions

import (
	"context"
	"slices"

	"wsfs/store"
)

// collect reads what the changes that only theirs has touched, in all three states.
func (m *merge) collect(ctx context.Context) error {
	t := newTouched()
	for _, sp := range m.apart.theirs {
		if err := m.st.Touched(ctx, sp, t.add); err != nil {
			return err
		}
	}
	if len(t.inos)+len(t.names) == 0 { // merges that came to nothing
		return nothing("merge: everything that was changed there is here already")
	}
	keys := make([]store.DirName, 0, len(t.names))
	for k := range t.names {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareNames)
	for _, s := range []*mergeSide{m.base, m.theirs} {
		if err := s.lookup(ctx, keys); err != nil {
			return err
		}
		for _, k := range keys {
			if ino := s.at[k]; ino != 0 {
				t.inos[ino] = true
			}
		}
	}
	inos := sortedInos(t.inos)
	if err := m.loadAll(ctx, inos); err != nil {
		return err
	}
	// What is above: whether a directory was there before decides what a name in it means.
	var up []store.Ino
	for _, s := range []*mergeSide{m.base, m.theirs, m.ours} {
		for _, ino := range inos {
			for _, k := range s.names[ino] {
				up = append(up, k.Parent)
			}
		}
	}
	if err := m.loadAll(ctx, up); err != nil {
		return err
	}
	for _, ino := range inos {
		if m.base.vers[ino] != nil || m.theirs.vers[ino] != nil {
			m.found = append(m.found, ino)
		}
	}
	return nil
}

func sortedInos(set map[store.Ino]bool) []store.Ino {
	out := make([]store.Ino, 0, len(set))
	for ino := range set {
		out = append(out, ino)
	}
	slices.Sort(out)
	return out
}

func (m *merge) loadAll(ctx context.Context, inos []store.Ino) error {
	for _, s := range []*mergeSide{m.base, m.theirs, m.ours} {
		if err := s.load(ctx, inos); err != nil {
			return err
		}
	}
	return nil
}

// pairs finds what inodes of the common point became that a side has no more: what has their name there now, else what was
// made of them by saving under another name. spans are the changes of that side.
func (m *merge) pairs(ctx context.Context, s *mergeSide, spans []store.Span) error {
	lost := map[store.Ino]bool{}
	for todo := slices.Clone(m.found); len(todo) > 0; {
		if err := m.base.load(ctx, todo); err != nil {
			return err
		}
		if err := s.load(ctx, todo); err != nil {
			return err
		}
		var up []store.Ino
		for _, b := range todo {
			if m.base.vers[b] == nil || s.vers[b] != nil || lost[b] {
				continue
			}
			lost[b] = true
			for _, k := range m.base.names[b] {
				up = append(up, k.Parent)
			}
		}
		todo = up
	}
	for {
		keys := map[store.DirName]store.Ino{}
		for b := range lost {
			for _, k := range m.base.names[b] {
				if p := s.ino(k.Parent); s.vers[p] != nil {
					keys[store.DirName{Parent: p, Name: k.Name}] = b
				}
			}
		}
		list := make([]store.DirName, 0, len(keys))
		for k := range keys {
			list = append(list, k)
		}
		slices.SortFunc(list, compareNames)
		if err := s.lookup(ctx, list); err != nil {
			return err
		}
		var there []store.Ino
		for _, k := range list {
			there = append(there, s.at[k])
		}
		if err := m.base.load(ctx, there); err != nil {
			return err
		}
		more := false
		for _, k := range list {
			if b, x := keys[k], s.at[k]; x != 0 && lost[b] && m.heir(s, b, x) {
				s.pair(b, x)
				delete(lost, b)
				more = true
			}
		}
		if !more {
			break
		}
	}
	return m.descendants(ctx, s, lost, spans)
}

// heir reports whether x of a side may be what b of the common point became.
func (m *merge) heir(s *mergeSide, b, x store.Ino) bool {
	return m.base.vers[x] == nil && s.back[x] == 0 && s.vers[x] != nil && s.vers[x].Type() == m.base.vers[b].Type()
}

// maxDescent is how many versions a file that has a new inode and a new name is followed back.
const maxDescent = 1 << 10

// descendants finds the files that were saved by replacement and then, or before, got another name: their versions lead back
// to one of a file that is lost.
func (m *merge) descendants(ctx context.Context, s *mergeSide, lost map[store.Ino]bool, spans []store.Span) error {
	for b := range lost {
		if m.base.vers[b].Type() != fileType {
			delete(lost, b)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	t := newTouched()
	for _, sp := range spans {
		if err := m.st.Touched(ctx, sp, t.add); err != nil {
			return err
		}
	}
	inos := sortedInos(t.inos)
	if err := m.base.load(ctx, inos); err != nil {
		return err
	}
	if err := s.load(ctx, inos); err != nil {
		return err
	}
	from := map[store.VersionID]store.Ino{}
	var ids []store.VersionID
	next := func(v *store.Version, x store.Ino) {
		for _, id := range []store.VersionID{v.Replaced, v.Parent, v.Merge} {
			if _, seen := from[id]; id != 0 && !seen {
				from[id] = x
				ids = append(ids, id)
			}
		}
	}
	for _, x := range inos {
		if v := s.vers[x]; v != nil && v.Type() == fileType && m.base.vers[x] == nil && s.back[x] == 0 {
			next(v, x)
		}
	}
	for range maxDescent {
		if len(ids) == 0 || len(lost) == 0 {
			break
		}
		vs, err := m.st.VersionsByID(ctx, ids)
		if err != nil {
			return err
		}
		asked := ids
		ids = nil
		for i, v := range vs {
			if v == nil {
				continue
			}
			x := from[asked[i]]
			if lost[v.Ino] && s.back[x] == 0 {
				s.pair(v.Ino, x)
				delete(lost, v.Ino)
				continue
			}
			// A version from before the common point leads to nothing that was lost since.
			if b := m.base.vers[v.Ino]; s.back[x] == 0 && (b == nil || v.ID > b.ID) {
				next(v, x)
			}
		}
	}
	return nil
}

// twins pairs what theirs made with what ours has under that name and made itself: two directories are one then, two files are
// two versions of one with nothing before them.
func (m *merge) twins(ctx context.Context) error {
	fresh := map[store.Ino]bool{}
	for _, ino := range m.found {
		if m.base.vers[ino] == nil && m.theirs.back[ino] == 0 && m.theirs.vers[ino] != nil && m.ours.vers[ino] == nil {
			fresh[ino] = true
		}
	}
	for len(fresh) > 0 {
		keys := map[store.DirName]store.Ino{}
		var list []store.DirName
		for x := range fresh {
			for _, k := range m.theirs.names[x] {
				p := m.ours.ino(m.theirs.entity(k.Parent))
				if m.ours.vers[p] == nil {
					continue
				}
				k = store.DirName{Parent: p, Name: k.Name}
				keys[k] = x
				list = append(list, k)
			}
		}
		slices.SortFunc(list, compareNames)
		if err := m.ours.lookup(ctx, list); err != nil {
			return err
		}
		var there []store.Ino
		for _, k := range list {
			there = append(there, m.ours.at[k])
		}
		if err := m.loadAll(ctx, there); err != nil {
			return err
		}
		more := false
		for _, k := range list {
			x, o := keys[k], m.ours.at[k]
			if !fresh[x] || o == 0 || m.base.vers[o] != nil || m.theirs.vers[o] != nil || m.ours.back[o] != 0 ||
				m.ours.vers[o].Type() != m.theirs.vers[x].Type() {
				continue
			}
			m.ours.pair(x, o)
			delete(fresh, x)
			more = true
		}
		if !more {
			return nil
		}
	}
	return nil
}
