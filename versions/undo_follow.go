package versions

import (
	"context"

	"wsfs/store"
)

// choose works out what the paths leave out. What a rename has moved belongs together, and what comes back brings the
// directories that it was in.
func (p *planner) choose(ctx context.Context) error {
	if len(p.sel.Paths)+len(p.sel.Except) == 0 {
		return nil
	}
	verdict := map[store.DirName]bool{}
	for _, k := range p.h.order {
		verdict[k] = chosen(p.h.place.path(k), p.sel.Paths, p.sel.Except)
	}
	// One name of a moved inode decides for the other: left out if one is, where paths are left out; taken if one is,
	// where paths are named.
	wins := len(p.sel.Paths) > 0
	p.findMoves()
	for _, m := range p.moves {
		if verdict[m.from] != verdict[m.to] {
			verdict[m.from], verdict[m.to] = wins, wins
		}
	}
	if wins {
		for _, k := range p.h.order {
			if verdict[k] && len(p.h.names[k]) > 0 && p.h.names[k][0].before != 0 {
				p.bring(k.Parent, verdict, 0)
			}
		}
	}
	for _, k := range p.h.order {
		if !verdict[k] {
			p.skip[k] = true
		}
	}
	for ino, list := range p.h.inos {
		if !mineIn(list) {
			continue
		}
		in := false
		for _, k := range p.h.keys[ino] {
			if ok, ours := verdict[k]; ours {
				in = in || ok
			} else {
				in = in || chosen(p.h.place.path(k), p.sel.Paths, p.sel.Except)
			}
		}
		if ino == store.RootIno {
			in = chosen("", p.sel.Paths, p.sel.Except)
		}
		p.out[ino] = !in
	}
	return nil
}

// bring takes the directories in that our changes removed above something that comes back.
func (p *planner) bring(dir store.Ino, verdict map[store.DirName]bool, depth int) {
	for _, k := range p.h.keys[dir] {
		list := p.h.names[k]
		if len(list) == 0 || list[0].before != dir || list[len(list)-1].after == dir || depth > MaxPath {
			continue
		}
		if _, ours := verdict[k]; ours {
			verdict[k] = true
			p.bring(k.Parent, verdict, depth+1)
		}
	}
}

// findMoves finds what our changes renamed: inodes that were there before, lost one name and got one.
func (p *planner) findMoves() {
	if p.moves != nil {
		return
	}
	// Most of what was removed went nowhere: only inodes that got a name of ours can have been moved.
	type pair struct{ lost, got []store.DirName }
	pairs := map[store.Ino]*pair{}
	for _, k := range p.h.order {
		if before, after := ends(p.h.names[k]); before != after && after != 0 && pairs[after] == nil {
			pairs[after] = &pair{}
		}
	}
	p.moves = []moved{}
	if len(pairs) == 0 {
		return
	}
	var order []store.Ino
	for _, k := range p.h.order {
		before, after := ends(p.h.names[k])
		if before == after {
			continue
		}
		if x := pairs[before]; x != nil {
			x.lost = append(x.lost, k)
			order = append(order, before)
		}
		if x := pairs[after]; x != nil {
			x.got = append(x.got, k)
			order = append(order, after)
		}
	}
	for _, ino := range order {
		x := pairs[ino]
		if x == nil {
			continue
		}
		delete(pairs, ino)
		if len(x.lost) == 1 && len(x.got) == 1 && !p.born(ino, moment{seq: store.MaxSeq}) {
			p.moves = append(p.moves, moved{ino, x.lost[0], x.got[0]})
		}
	}
}

// ends is what a name led to before our first change of it and after our last.
func ends(list []nameEvent) (before, after store.Ino) {
	found := false
	for i := range list {
		if e := &list[i]; e.mine {
			if !found {
				before, found = e.before, true
			}
			after = e.after
		}
	}
	return before, after
}

// follow goes after what we renamed and others renamed again or removed since. Directory and name are taken back one by one,
// like two lines of a text: renamed here and moved there does not conflict, renamed twice does.
func (p *planner) follow(ctx context.Context) error {
	for _, m := range p.moves {
		if p.skip[m.from] {
			continue
		}
		if cur, err := p.current(ctx, m.to); cur == m.ino || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		from := p.there(m.from)
		if heir, err := p.current(ctx, m.to); err != nil {
			return err
		} else if p.savedOver(m.to, m.ino, heir) && p.want[from] == m.ino {
			// Somebody saved it by replacing it: what has the name now goes back in its place, unless that name had
			// another file before.
			if rs := runs(p.h.names[m.to]); rs[len(rs)-1].before == 0 {
				p.want[from], p.want[m.to] = heir, 0
			}
			continue
		}
		if p.want[from] == m.ino {
			delete(p.want, from)
		}
		var at []store.DirName
		for _, k := range p.h.keys[m.ino] {
			if cur, err := p.current(ctx, k); err != nil {
				return err
			} else if cur == m.ino && k != m.from {
				at = append(at, k)
			}
		}
		list := p.h.names[m.to]
		other := list[len(list)-1].command
		switch {
		case len(at) == 0: // removed since, and stays so
			continue
		case len(at) > 1:
			p.conflict(p.h.place.path(at[0]), "it was renamed, and %s gave it more names since", by(other))
			continue
		}
		parent, ok := backOne(at[0].Parent, m.to.Parent, from.Parent)
		name, okName := backOne(at[0].Name, m.to.Name, from.Name)
		to := store.DirName{Parent: parent, Name: name}
		if !ok || !okName {
			p.conflict(p.h.place.path(at[0]), "it was renamed from %s, and %s renamed it again since", p.h.place.path(m.from), by(other))
			continue
		}
		if to == at[0] {
			continue
		}
		if there, err := p.planned(ctx, to); err != nil {
			return err
		} else if there != 0 && there != m.ino {
			p.conflict(p.h.place.path(to), "%s has to go there, and it is taken", p.h.place.path(at[0]))
			continue
		}
		p.want[at[0]], p.want[to] = 0, m.ino
	}
	return nil
}

// savedOver reports whether heir took the place of ino, which we only moved to a name, by a save.
func (p *planner) savedOver(k store.DirName, ino, heir store.Ino) bool {
	if !p.regular(ino, heir) || mineIn(p.h.inos[ino]) || p.now[ino] == nil || p.now[ino].Nlink > 0 {
		return false
	}
	for _, m := range p.moves {
		if m.ino == ino && m.to == k {
			return true
		}
	}
	return false
}

// backOne takes the step from theirs to base back in ours.
func backOne[T comparable](ours, base, theirs T) (T, bool) {
	switch {
	case ours == base, ours == theirs:
		return theirs, true
	case base == theirs:
		return ours, true
	}
	return ours, false
}

// replaced takes back what we changed in files that somebody then saved by replacing them: in the file that has the name
// now.
func (p *planner) replaced(ctx context.Context) error {
	for ino, list := range p.h.inos {
		if !mineIn(list) || p.out[ino] || p.kind(ino) != fileType || p.now[ino] == nil || p.now[ino].Nlink > 0 {
			continue
		}
		for _, r := range inoRuns(list) {
			if r.born || r.before == nil || r.after == nil {
				break
			}
			k, heir := p.heir(ino, r.to)
			if heir == 0 {
				break
			}
			ours, err := p.inode(ctx, heir)
			if err != nil || ours == nil {
				return err
			}
			why, err := p.fuse(ctx, ours, r.after, &fused{v: *r.before})
			if err != nil {
				return err
			}
			if p.merged[heir] = true; why != "" {
				p.conflict(p.h.place.path(k), "%s, after %s", why, by(r.command))
				break
			}
		}
	}
	return nil
}

// heir is the file that others put in the place of ino after a moment.
func (p *planner) heir(ino store.Ino, after moment) (store.DirName, store.Ino) {
	for _, k := range p.h.keys[ino] {
		list := p.h.names[k]
		if len(list) == 0 || p.ours(k) {
			continue
		}
		for i := range list {
			if e := &list[i]; e.before == ino && e.at.compare(after) > 0 {
				if now := list[len(list)-1].after; now != ino && p.regular(now) {
					return k, now
				}
			}
		}
	}
	return store.DirName{}, 0
}

// emptyDirs keeps directories that hold something which stays: what the paths leave out does so silently, what others
// made since is a conflict.
func (p *planner) emptyDirs() {
	for {
		gone := map[store.Ino]store.DirName{}
		for k, ino := range p.want {
			if list := p.h.names[k]; ino == 0 && len(list) > 0 {
				if was := list[len(list)-1].after; was != 0 && p.directory(was) {
					gone[was] = k
				}
			}
		}
		for k, ino := range p.want { // moved, not removed
			if ino != 0 {
				delete(gone, ino)
				delete(gone, k.Parent)
			}
		}
		kept := false
		if len(gone) == 0 {
			return
		}
		for k, list := range p.h.names {
			dir, ok := gone[k.Parent]
			if !ok || list[len(list)-1].after == 0 {
				continue
			}
			if ino, planned := p.want[k]; planned && ino == 0 {
				continue
			}
			if _, still := p.want[dir]; still {
				delete(p.want, dir)
				kept = true
			}
			if !p.ours(k) {
				p.conflict(p.h.place.path(k), "it was made in %s since, which would be removed", p.h.place.path(dir))
			}
		}
		if !kept {
			return
		}
	}
}
