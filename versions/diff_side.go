package versions

import (
	"context"
	"fmt"
	"syscall"

	"wsfs/store"
)

// diffSide is one of the two states of a Diff: what is known of its candidates, the inodes that may differ.
type diffSide struct {
	v     *store.View
	names map[store.Ino][]store.Name // of candidates and of the directories above them
	dirs  map[store.Ino]string       // paths of directories
	lost  map[store.Ino]bool         // directories that are not in the tree
	at    map[string]store.Ino       // what candidates have which path
	paths map[store.Ino][]string     // the other way round
	vers  map[store.Ino]*store.Version
}

func newDiffSide(v *store.View) *diffSide {
	return &diffSide{
		v: v, names: map[store.Ino][]store.Name{}, dirs: map[store.Ino]string{store.RootIno: ""}, lost: map[store.Ino]bool{},
		at: map[string]store.Ino{}, paths: map[store.Ino][]string{}, vers: map[store.Ino]*store.Version{},
	}
}

// holders adds the inodes that have one of the names on this side.
func (s *diffSide) holders(ctx context.Context, keys []store.DirName, into map[store.Ino]bool) error {
	names, err := s.v.Lookups(ctx, keys)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n.Ino != 0 {
			into[n.Ino] = true
		}
	}
	return nil
}

// place finds the paths of the candidates and their versions.
func (s *diffSide) place(ctx context.Context, inos []store.Ino) error {
	names, err := s.v.NamesOfAll(ctx, inos)
	if err != nil {
		return err
	}
	var parents []store.Ino
	for ino, list := range names {
		s.names[ino] = list
		for _, n := range list {
			parents = append(parents, n.Parent)
		}
	}
	if err := s.findDirs(ctx, parents); err != nil {
		return err
	}
	for ino, list := range names {
		for _, n := range list {
			if dir, ok := s.path(n.Parent, 0); ok {
				s.put(join(dir, n.Name), ino)
			}
		}
	}
	for _, ino := range inos {
		if ino == store.RootIno {
			s.put("", ino)
		}
	}
	present := make([]store.Ino, 0, len(s.paths))
	for ino := range s.paths {
		present = append(present, ino)
	}
	vers, err := s.v.Versions(ctx, present)
	if err != nil {
		return err
	}
	for i, ino := range present {
		if vers[i] == nil {
			return fmt.Errorf("%q is inode %d, which has no version; `wsfs check` says more: %w", s.paths[ino][0], ino, syscall.EIO)
		}
		s.vers[ino] = vers[i]
	}
	return nil
}

func (s *diffSide) put(path string, ino store.Ino) {
	if _, ok := s.at[path]; !ok {
		s.at[path] = ino
		s.paths[ino] = append(s.paths[ino], path)
	}
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// findDirs finds the names of directories and of all above them, a level at a time.
func (s *diffSide) findDirs(ctx context.Context, dirs []store.Ino) error {
	for len(dirs) > 0 {
		var unknown []store.Ino
		asked := map[store.Ino]bool{}
		for _, d := range dirs {
			if d != store.RootIno && s.names[d] == nil && !s.lost[d] && !asked[d] {
				asked[d] = true
				unknown = append(unknown, d)
			}
		}
		if len(unknown) == 0 {
			return nil
		}
		names, err := s.v.NamesOfAll(ctx, unknown)
		if err != nil {
			return err
		}
		dirs = dirs[:0]
		for _, d := range unknown {
			if len(names[d]) == 0 {
				s.lost[d] = true
				continue
			}
			s.names[d] = names[d]
			dirs = append(dirs, names[d][0].Parent)
		}
	}
	return nil
}

// path is where a directory is; false if it is not in the tree.
func (s *diffSide) path(dir store.Ino, depth int) (string, bool) {
	if p, ok := s.dirs[dir]; ok {
		return p, true
	}
	names := s.names[dir]
	if len(names) == 0 || depth > MaxPath {
		return "", false
	}
	up, ok := s.path(names[0].Parent, depth+1)
	if !ok {
		return "", false
	}
	s.dirs[dir] = join(up, names[0].Name)
	return s.dirs[dir], true
}

// walk takes in everything below a directory.
func (s *diffSide) walk(ctx context.Context, dir store.Ino, path string) error {
	return Walk(ctx, s.v, s.vers[dir], func(n Node) error {
		if n.Path == "" {
			return nil
		}
		s.put(join(path, n.Path), n.Version.Ino)
		s.vers[n.Version.Ino] = n.Version
		return nil
	}, func(Node) error { return nil })
}

// exists reports whether there is anything at path.
func (s *diffSide) exists(ctx context.Context, path string) (bool, error) {
	if _, ok := s.at[path]; ok {
		return true, nil
	}
	_, _, err := s.v.Resolve(ctx, path)
	switch {
	case err == nil:
		return true, nil
	case missing(err):
		return false, nil
	}
	return false, err
}
