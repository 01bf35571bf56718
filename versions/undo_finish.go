package versions

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"wsfs/store"
)

// finish turns what is wanted into end states, and tells what changes.
func (p *planner) finish(ctx context.Context) error {
	lost, got := map[store.Ino][]store.DirName{}, make(map[store.Ino][]store.DirName, len(p.want))
	// In the order of names, and sorted once.
	wanted := make([]store.Name, 0, len(p.want))
	for k, ino := range p.want {
		wanted = append(wanted, store.Name{Parent: k.Parent, Name: k.Name, Ino: ino})
	}
	slices.SortFunc(wanted, byName)
	kept := wanted[:0]
	for _, nm := range wanted {
		k, ino := store.DirName{Parent: nm.Parent, Name: nm.Name}, nm.Ino
		cur, err := p.current(ctx, k)
		if err != nil {
			return err
		}
		if cur == ino {
			delete(p.want, k)
			continue
		}
		kept = append(kept, nm)
		if cur != 0 {
			lost[cur] = append(lost[cur], k)
		}
		if ino != 0 {
			got[ino] = append(got[ino], k)
		}
	}
	links := func(ino store.Ino) int {
		n := 0
		if v := p.now[ino]; v != nil {
			if n = int(v.Nlink); v.IsDir() {
				n = min(n, 1)
			}
		}
		return n + len(got[ino]) - len(lost[ino])
	}
	if err := p.fits(ctx, got, links); err != nil {
		return err
	}
	changed, err := p.inodes(ctx, got, links)
	if err != nil {
		return err
	}
	if len(p.plan.Conflicts) > 0 {
		slices.SortFunc(p.plan.Conflicts, func(a, b UndoConflict) int { return strings.Compare(a.Path, b.Path) })
		p.plan.Names, p.plan.Versions, p.plan.Entries = nil, nil, nil
		return nil
	}
	p.entries(lost, got, changed)
	if err := p.hunks(ctx, changed); err != nil {
		return err
	}
	if len(kept) > len(p.want) { // picks have left some out
		kept = slices.DeleteFunc(kept, func(n store.Name) bool {
			_, ok := p.want[store.DirName{Parent: n.Parent, Name: n.Name}]
			return !ok
		})
	}
	for i := range kept {
		if kept[i].Ino != 0 {
			kept[i].Type = p.kind(kept[i].Ino)
		}
	}
	p.plan.Names = kept
	slices.SortFunc(p.plan.Versions, func(a, b store.Version) int { return cmp.Compare(a.Ino, b.Ino) })
	return nil
}

func byName(a, b store.Name) int {
	return cmp.Or(cmp.Compare(a.Parent, b.Parent), strings.Compare(a.Name, b.Name))
}

func (plan *UndoPlan) count(what string) {
	switch what {
	case UndoCreated:
		plan.Created++
	case UndoChanged:
		plan.Changed++
	case UndoRemoved:
		plan.Removed++
	case UndoRenamed:
		plan.Renamed++
	}
}

// fits finds names that would be in directories that are gone, and directories with two names or in themselves.
func (p *planner) fits(ctx context.Context, got map[store.Ino][]store.DirName, links func(store.Ino) int) error {
	if len(got) == 0 {
		return nil
	}
	var unknown []store.Ino
	for _, keys := range got {
		for _, k := range keys {
			if p.now[k.Parent] == nil {
				unknown = append(unknown, k.Parent)
			}
		}
	}
	slices.Sort(unknown)
	unknown = slices.Compact(unknown)
	vs, err := p.h.view.Versions(ctx, unknown)
	if err != nil {
		return err
	}
	for i, v := range vs {
		if v != nil {
			p.now[unknown[i]] = v
		}
	}
	for ino, keys := range got {
		for _, k := range keys {
			if k.Parent != store.RootIno && links(k.Parent) < 1 {
				p.conflict(p.h.place.path(k), "the directory it was in was removed since")
			}
		}
		if !p.directory(ino) {
			continue
		}
		if links(ino) > 1 {
			p.conflict(p.h.place.path(keys[0]), "it was moved since")
			continue
		}
		at := keys[0]
		for range MaxPath {
			if at.Parent == ino {
				p.conflict(p.h.place.path(keys[0]), "it would be inside of itself: directories were moved since")
				break
			}
			up, ok := p.h.place.at[at.Parent]
			if to := got[at.Parent]; len(to) > 0 {
				up, ok = to[0], true
			}
			if !ok {
				break
			}
			at = up
		}
	}
	return nil
}

// inodes works out the end states of inodes and returns those that programs would see change.
func (p *planner) inodes(ctx context.Context, got map[store.Ino][]store.DirName, links func(store.Ino) int) (map[store.Ino]bool, error) {
	changed := map[store.Ino]bool{}
	todo := map[store.Ino]bool{}
	for ino, list := range p.h.inos {
		if mineIn(list) && !p.out[ino] {
			todo[ino] = true
		}
	}
	for ino := range p.merged {
		todo[ino] = true
	}
	for ino := range got {
		todo[ino] = true
	}
	for ino := range todo {
		if ino != store.RootIno && links(ino) < 1 {
			continue
		}
		f, err := p.inode(ctx, ino)
		if err != nil {
			return nil, err
		}
		if f == nil {
			continue
		}
		now, v := p.now[ino], f.v
		dead := now.Nlink == 0
		other := f.text != nil || v.Content != now.Content
		_, differs := entry("", now, &v)
		if f.text != nil {
			differs = true
			p.plan.texts[ino] = f.text
		}
		if v.ID == now.ID && !differs { // entry takes one version for itself
			differs = f.text != nil || !sameAttributes(now, &v)
		}
		if !dead && !differs && v.Mtime == now.Mtime {
			continue
		}
		changed[ino] = differs && !dead
		p.time(&v, f, dead, other, got[ino])
		p.replaces(&v, dead, got[ino])
		v.ID, v.Nlink = now.ID, now.Nlink // what fs.Edit need not ask for
		p.plan.Versions = append(p.plan.Versions, v)
	}
	return changed, nil
}

func sameAttributes(a, b *store.Version) bool {
	e := DiffEntry{A: a, B: b}
	return len(e.Changed()) == 0 && a.Rdev == b.Rdev
}

// time sets the modification time: a fresh one where bytes change that somebody may have built from, else what was
// recorded.
func (p *planner) time(v *store.Version, f *fused, dead, other bool, at []store.DirName) {
	fresh := f.text != nil || other && !dead
	if dead && v.Type() == fileType {
		for _, k := range at {
			if list := p.h.names[k]; len(list) > 0 && list[len(list)-1].after != 0 {
				was := p.now[list[len(list)-1].after]
				fresh = fresh || was != nil && was.Content != v.Content
			}
		}
	}
	switch {
	case fresh && (!p.sel.ExactTimes || f.text != nil):
		v.Mtime = 0
	case v.Mtime == 0:
		v.Mtime = 1 // 0 means now
	}
}

// replaces notes which file's name another takes over, for log and blame.
func (p *planner) replaces(v *store.Version, dead bool, at []store.DirName) {
	if !dead || v.Type() != fileType {
		return
	}
	for _, k := range at {
		if list := p.h.names[k]; len(list) > 0 && list[len(list)-1].after != 0 {
			if was := p.now[list[len(list)-1].after]; was != nil && was.Type() == fileType {
				v.Replaced = was.ID
			}
		}
	}
}

// entries counts what changes, and lists it by path if that is asked for.
func (p *planner) entries(lost, got map[store.Ino][]store.DirName, changed map[store.Ino]bool) {
	list := p.sel.List || p.sel.Hunks || p.sel.Picks != nil
	told := map[store.DirName]bool{} // names of which something was said, but for those that only appear
	add := func(what string, k store.DirName, ino store.Ino, from store.DirName, final bool) {
		p.plan.count(what)
		if !list {
			return
		}
		e := UndoEntry{What: what, Dir: p.directory(ino), key: k, ino: ino}
		if e.Path = p.h.place.path(k); final {
			e.Path = p.finalPath(k, got)
		}
		if from.Name != "" {
			e.From = p.h.place.path(from)
		}
		p.plan.Entries = append(p.plan.Entries, e)
	}
	var none store.DirName
	for ino, keys := range got {
		for i, k := range keys {
			switch was := p.presentAt(k); {
			case was != 0:
				told[k] = true
				add(UndoChanged, k, ino, none, true)
			case i < len(lost[ino]):
				from := lost[ino][i]
				if p.want[from] == 0 {
					told[from] = true
				}
				add(UndoRenamed, k, ino, from, true)
			default:
				add(UndoCreated, k, ino, none, true)
			}
		}
	}
	for ino, keys := range lost {
		for _, k := range keys {
			if !told[k] && p.want[k] == 0 {
				add(UndoRemoved, k, ino, none, false)
			}
		}
	}
	for ino, yes := range changed {
		if !yes || ino == store.RootIno {
			continue
		}
		for _, k := range p.h.keys[ino] {
			if _, appears := p.want[k]; !appears && !told[k] && p.presentAt(k) == ino {
				told[k] = true
				add(UndoChanged, k, ino, none, false)
			}
		}
	}
	if changed[store.RootIno] {
		add(UndoChanged, none, store.RootIno, none, false)
		if list {
			p.plan.Entries[len(p.plan.Entries)-1].Path = "."
		}
	}
	slices.SortFunc(p.plan.Entries, func(a, b UndoEntry) int { return strings.Compare(a.Path, b.Path) })
}

// presentAt is what a name that is known already leads to now.
func (p *planner) presentAt(k store.DirName) store.Ino {
	if list := p.h.names[k]; len(list) > 0 {
		return list[len(list)-1].after
	}
	if ino, ok := p.live[k]; ok {
		return ino
	}
	for ino, keys := range p.h.keys {
		if slices.Contains(keys, k) {
			return ino
		}
	}
	return 0
}

// finalPath is the path of a name when the plan is done.
func (p *planner) finalPath(k store.DirName, got map[store.Ino][]store.DirName) string {
	parts := []string{k.Name}
	for range MaxPath {
		if k.Parent == store.RootIno {
			break
		}
		up, ok := p.h.place.at[k.Parent]
		if to := got[k.Parent]; len(to) > 0 {
			up, ok = to[0], true
		}
		if !ok {
			break
		}
		parts, k = append(parts, up.Name), up
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}
