package versions

import (
	"context"
	"slices"

	"wsfs/store"
)

// treeState is one state of a tree, as far as a merge asks for it.
type treeState interface {
	Versions(ctx context.Context, inos []store.Ino) ([]*store.Version, error)
	Lookups(ctx context.Context, keys []store.DirName) ([]store.Name, error)
	NamesOfAll(ctx context.Context, inos []store.Ino) (map[store.Ino][]store.Name, error)
}

// mergeSide is what is known of one of the three states of a merge. An inode that has no name there is none.
//
// Files that are saved by replacement, directories that a checkout makes anew and what two sides made under one name are other
// inodes on each side. A merge thinks in entities, which are inodes of the common point, or else of theirs: here says which
// inode an entity is on this side, if that is another one, and entity leads back.
type mergeSide struct {
	tree  treeState
	vers  map[store.Ino]*store.Version // of inodes that have a name; nil: it has none
	dead  map[store.Ino]*store.Version // the last of those that had one
	names map[store.Ino][]store.DirName
	at    map[store.DirName]store.Ino
	here  map[store.Ino]store.Ino
	back  map[store.Ino]store.Ino
}

func newMergeSide(tree treeState) *mergeSide {
	return &mergeSide{
		tree: tree, vers: map[store.Ino]*store.Version{}, dead: map[store.Ino]*store.Version{}, names: map[store.Ino][]store.DirName{},
		at: map[store.DirName]store.Ino{}, here: map[store.Ino]store.Ino{}, back: map[store.Ino]store.Ino{},
	}
}

// load reads inodes and their names.
func (s *mergeSide) load(ctx context.Context, inos []store.Ino) error {
	var todo []store.Ino
	for _, ino := range inos {
		if _, known := s.vers[ino]; !known && ino != 0 {
			s.vers[ino] = nil
			todo = append(todo, ino)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	slices.Sort(todo)
	vs, err := s.tree.Versions(ctx, todo)
	if err != nil {
		return err
	}
	var live []store.Ino
	for i, v := range vs {
		switch {
		case v == nil:
		case v.Nlink == 0:
			s.dead[v.Ino] = v
		default:
			s.vers[todo[i]] = v
			live = append(live, todo[i])
		}
	}
	names, err := s.tree.NamesOfAll(ctx, live)
	if err != nil {
		return err
	}
	for ino, list := range names {
		for _, n := range list {
			k := store.DirName{Parent: n.Parent, Name: n.Name}
			s.names[ino] = append(s.names[ino], k)
			s.at[k] = ino
		}
		slices.SortFunc(s.names[ino], compareNames)
	}
	return nil
}

// lookup reads what names lead to, and loads that.
func (s *mergeSide) lookup(ctx context.Context, keys []store.DirName) error {
	var todo []store.DirName
	for _, k := range keys {
		if _, known := s.at[k]; !known {
			s.at[k] = 0
			todo = append(todo, k)
		}
	}
	names, err := s.tree.Lookups(ctx, todo)
	if err != nil {
		return err
	}
	var inos []store.Ino
	for i, n := range names {
		if s.at[todo[i]] = n.Ino; n.Ino != 0 {
			inos = append(inos, n.Ino)
		}
	}
	return s.load(ctx, inos)
}

// ino is the inode that an entity is on this side, whether or not it is there.
func (s *mergeSide) ino(e store.Ino) store.Ino {
	if x, ok := s.here[e]; ok {
		return x
	}
	return e
}

// entity is what an inode of this side stands for.
func (s *mergeSide) entity(ino store.Ino) store.Ino {
	if e, ok := s.back[ino]; ok {
		return e
	}
	return ino
}

func (s *mergeSide) pair(e, ino store.Ino) {
	if e != ino {
		s.here[e], s.back[ino] = ino, e
	}
}

// of is the version of an entity, nil if it is not there.
func (s *mergeSide) of(e store.Ino) *store.Version { return s.vers[s.ino(e)] }

// placesOf are the names of an entity, in the terms of entities.
func (s *mergeSide) placesOf(e store.Ino) []store.DirName {
	list := s.names[s.ino(e)]
	if len(list) == 0 {
		return nil
	}
	out := make([]store.DirName, len(list))
	for i, k := range list {
		out[i] = store.DirName{Parent: s.entity(k.Parent), Name: k.Name}
	}
	slices.SortFunc(out, compareNames)
	return out
}

// path is where an entity is; ok is false if it is not there.
func (s *mergeSide) path(ctx context.Context, e store.Ino) (string, bool, error) {
	path, ino := "", s.ino(e)
	for range MaxPath {
		if ino == store.RootIno {
			return path, true, nil
		}
		if err := s.load(ctx, []store.Ino{ino}); err != nil {
			return "", false, err
		}
		list := s.names[ino]
		if len(list) == 0 {
			return "", false, nil
		}
		if path == "" {
			path = list[0].Name
		} else {
			path = list[0].Name + "/" + path
		}
		ino = list[0].Parent
	}
	return "", false, nil
}
