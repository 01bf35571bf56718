package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"wsfs/store"
)

// addNames adds to the paths of files with several names their other names: what one has, all have.
func (p *applying) addNames(ctx context.Context, set map[string]bool) error {
	for _, path := range slices.Collect(maps.Keys(set)) {
		_, ver, err := stateAt(ctx, p.view, path)
		if err != nil || ver == nil || ver.IsDir() || ver.Nlink < 2 || p.names[ver.Ino] != nil {
			if err != nil {
				return err
			}
			continue
		}
		names, err := p.namesOf(ctx, ver.Ino)
		if err != nil {
			return err
		}
		for _, name := range names {
			set[name] = true
		}
	}
	return nil
}

// namesOf are the paths of an inode of the workspace, in order.
func (p *applying) namesOf(ctx context.Context, ino store.Ino) ([]string, error) {
	if list := p.names[ino]; list != nil {
		return list, nil
	}
	names, err := p.view.NamesOf(ctx, ino)
	if err != nil {
		return nil, err
	}
	list := []string{}
	for _, n := range names {
		dir, err := p.dirPath(ctx, n.Parent)
		if err != nil {
			return nil, err
		}
		list = append(list, dir+n.Name)
	}
	slices.Sort(list)
	if p.names == nil {
		p.names = map[store.Ino][]string{}
	}
	p.names[ino] = list
	return list, nil
}

// dirPath is the path of a directory of the workspace with a slash at its end, "" for the root.
func (p *applying) dirPath(ctx context.Context, ino store.Ino) (string, error) {
	path := ""
	for ino != store.RootIno {
		names, err := p.view.NamesOf(ctx, ino)
		if err != nil {
			return "", err
		}
		if len(names) != 1 {
			return "", fmt.Errorf("find the path of directory %d: it has %d names: %w", ino, len(names), store.ErrCorrupt)
		}
		path, ino = names[0].Name+"/"+path, names[0].Parent
	}
	return path, nil
}

// linkKey is the same for steps that are to become names of one file.
func (s *step) linkKey() string {
	key := fmt.Sprint(s.ver.Ino)
	if s.isMerged {
		key += fmt.Sprintf(" %o %x", s.put.Mode, sha256.Sum256(s.merged))
	}
	return key
}

// linked stages a step as one more name of a file that the directory has under another of its names; "" if it has none.
// Below another mount, say, there is nothing to link to, and it becomes a file of its own.
func (p *applying) linked(ctx context.Context, s *step, steps map[string]*step) (string, error) {
	names, err := p.namesOf(ctx, s.ver.Ino)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		now, err := p.tree.Look(name)
		if errors.Is(err, syscall.ENOTDIR) || name == s.path {
			continue
		}
		if err != nil {
			return "", err
		}
		if other := steps[name]; other != nil {
			if !other.mode || other.isMerged || other.keep { // it goes, or is written itself
				continue
			}
			now.Mode = s.want.Mode // as it will be
		}
		if now.Type() != s.want.Type() {
			continue
		}
		same, err := p.d.holds(ctx, p.tree, name, &now, &s.want)
		if err != nil {
			return "", err
		}
		if !same {
			continue
		}
		staged, err := p.tree.LinkTo(name)
		switch {
		case errors.Is(err, syscall.EXDEV), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EMLINK), errors.Is(err, syscall.ENOENT):
			continue
		}
		return staged, err
	}
	return "", nil
}
