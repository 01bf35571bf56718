package versions

import (
	"context"
	"strconv"

	"wsfs/store"
)

// placer knows where directories are, or were last: what happened tells of those that came, went or moved, the present of
// all others.
type placer struct {
	at    map[store.Ino]store.DirName
	paths map[store.Ino]string
}

// parents finds the way to every name that is ours, for paths.
func (h *history) parents(ctx context.Context) error {
	h.place = &placer{at: map[store.Ino]store.DirName{}, paths: map[store.Ino]string{store.RootIno: ""}}
	h.keys = make(map[store.Ino][]store.DirName, len(h.names))
	last := map[store.Ino]moment{}
	for k, list := range h.names {
		for i := range list {
			for _, ino := range [2]store.Ino{list[i].before, list[i].after} {
				if ino == 0 || ino == list[i].before && i > 0 && list[i-1].after == ino {
					continue
				}
				if keys := h.keys[ino]; len(keys) == 0 || keys[len(keys)-1] != k {
					h.keys[ino] = append(keys, k)
				}
				if h.kinds[ino] != dirType {
					continue
				}
				// Where it is now counts most, then where it was last.
				at := list[i].at
				if i == len(list)-1 && list[i].after == ino {
					at = moment{seq: store.MaxSeq}
				}
				if at.compare(last[ino]) >= 0 {
					last[ino], h.place.at[ino] = at, k
				}
			}
		}
	}
	todo := map[store.Ino]bool{}
	need := func(dir store.Ino) {
		if _, ok := h.place.at[dir]; !ok && dir != store.RootIno {
			todo[dir] = true
		}
	}
	for _, k := range h.order {
		need(k.Parent)
	}
	for _, k := range h.place.at {
		need(k.Parent)
	}
	for ino, list := range h.inos {
		if len(h.keys[ino]) == 0 && mineIn(list) {
			todo[ino] = true
		}
	}
	return h.findPlaces(ctx, todo)
}

func mineIn(list []inoEvent) bool {
	for i := range list {
		if list[i].mine {
			return true
		}
	}
	return false
}

// findPlaces looks up where inodes are that nothing came to, went from or moved, and the directories above them.
func (h *history) findPlaces(ctx context.Context, todo map[store.Ino]bool) error {
	view, err := h.st.ViewAt(ctx, h.life.stands.Timeline, h.life.stands.Seq)
	if err != nil {
		return err
	}
	h.view = view
	for len(todo) > 0 {
		var list []store.Ino
		for ino := range todo {
			list = append(list, ino)
		}
		names, err := view.NamesOfAll(ctx, list)
		if err != nil {
			return err
		}
		clear(todo)
		for ino, where := range names {
			for _, n := range where {
				k := store.DirName{Parent: n.Parent, Name: n.Name}
				h.keys[ino] = append(h.keys[ino], k)
				h.place.at[ino] = k
				if _, ok := h.place.at[n.Parent]; !ok && n.Parent != store.RootIno {
					todo[n.Parent] = true
				}
			}
		}
	}
	return nil
}

// path is where k is, or was last, from the root of the workspace.
func (p *placer) path(k store.DirName) string {
	if dir := p.dir(k.Parent, 0); dir != "" {
		return dir + "/" + k.Name
	}
	return k.Name
}

func (p *placer) dir(ino store.Ino, depth int) string {
	if s, ok := p.paths[ino]; ok {
		return s
	}
	k, ok := p.at[ino]
	if !ok || depth > MaxPath {
		return "#" + strconv.FormatUint(uint64(ino), 10)
	}
	s := k.Name
	if up := p.dir(k.Parent, depth+1); up != "" {
		s = up + "/" + s
	}
	p.paths[ino] = s
	return s
}

// chosen reports whether a path is among paths and not among except.
func chosen(path string, paths, except []string) bool {
	for _, p := range except {
		if below(path, p) {
			return false
		}
	}
	if len(paths) == 0 {
		return true
	}
	for _, p := range paths {
		if below(path, p) {
			return true
		}
	}
	return false
}

// cleanAll makes paths comparable; with the root among them, they say nothing.
func cleanAll(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		if out[i] = Clean(p); out[i] == "" {
			return nil
		}
	}
	return out
}
