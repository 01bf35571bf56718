package versions

import (
	"context"
	"slices"

	"wsfs/store"
)

// crossed is the common point of two states that have several: each took in something that the other took in too, and none of
// these states has all of it. For each name and inode it is the one that changed it since the state that they have in common
// themselves. If two of them did, in different ways, it is what it was then: what the two sides made of that is a conflict at worst.
type crossed struct {
	views []treeState
	root  treeState // what views have in common
}

func (m *merge) crossed(ctx context.Context, views []treeState) (treeState, error) {
	a := newAncestry(m.st)
	rel, err := a.between(ctx, m.apart.common[0], m.apart.common[1])
	if err != nil {
		return nil, err
	}
	root, err := m.st.ViewAt(ctx, rel.common[0].Timeline, rel.common[0].Seq)
	if err != nil {
		return views[0], nil // collected: the newest one has to do
	}
	return &crossed{views, root}, nil
}

func (c *crossed) Versions(ctx context.Context, inos []store.Ino) ([]*store.Version, error) {
	root, err := c.root.Versions(ctx, inos)
	if err != nil {
		return nil, err
	}
	out, torn := slices.Clone(root), map[int]bool{}
	for _, view := range c.views {
		vs, err := view.Versions(ctx, inos)
		if err != nil {
			return nil, err
		}
		for j, v := range vs {
			switch {
			case torn[j] || id(v) == id(root[j]):
			case id(out[j]) != id(root[j]) && id(out[j]) != id(v):
				out[j], torn[j] = root[j], true
			default:
				out[j] = v
			}
		}
	}
	return out, nil
}

func id(v *store.Version) store.VersionID {
	if v == nil {
		return 0
	}
	return v.ID
}

func (c *crossed) Lookups(ctx context.Context, keys []store.DirName) ([]store.Name, error) {
	root, err := c.root.Lookups(ctx, keys)
	if err != nil {
		return nil, err
	}
	out, torn := slices.Clone(root), map[int]bool{}
	for _, view := range c.views {
		names, err := view.Lookups(ctx, keys)
		if err != nil {
			return nil, err
		}
		for j, n := range names {
			switch {
			case torn[j] || n.Ino == root[j].Ino:
			case out[j].Ino != root[j].Ino && out[j].Ino != n.Ino:
				out[j], torn[j] = root[j], true
			default:
				out[j] = n
			}
		}
	}
	return out, nil
}

func (c *crossed) NamesOfAll(ctx context.Context, inos []store.Ino) (map[store.Ino][]store.Name, error) {
	var keys []store.DirName
	seen := map[store.DirName]bool{}
	for _, v := range append([]treeState{c.root}, c.views...) {
		names, err := v.NamesOfAll(ctx, inos)
		if err != nil {
			return nil, err
		}
		for _, list := range names {
			for _, n := range list {
				if k := (store.DirName{Parent: n.Parent, Name: n.Name}); !seen[k] {
					seen[k] = true
					keys = append(keys, k)
				}
			}
		}
	}
	names, err := c.Lookups(ctx, keys)
	if err != nil {
		return nil, err
	}
	wanted := map[store.Ino]bool{}
	for _, ino := range inos {
		wanted[ino] = true
	}
	out := map[store.Ino][]store.Name{}
	for _, n := range names {
		if wanted[n.Ino] {
			out[n.Ino] = append(out[n.Ino], n)
		}
	}
	return out, nil
}
