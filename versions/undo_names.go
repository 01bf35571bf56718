package versions

import (
	"context"
	"slices"

	"wsfs/store"
)

// planner takes changes back: names first, each from its newest change of ours to its oldest, then the inodes that are
// left.
type planner struct {
	st   *store.Store
	sel  *UndoSelect
	h    *history
	plan *UndoPlan

	now    map[store.Ino]*store.Version // the present of inodes
	state  map[store.Ino]*fused         // inodes as they will be
	merged map[store.Ino]bool           // a name's change was taken back in this inode
	want   map[store.DirName]store.Ino  // names as they will be
	live   map[store.DirName]store.Ino  // names of now that no event tells
	done   map[store.DirName]bool
	alias  map[store.Ino]store.Ino // a removed directory -> the newer one that has its name
	skip   map[store.DirName]bool  // names and inodes that the paths leave out
	out    map[store.Ino]bool
	moves  []moved
}

// moved is an inode that our changes gave another name: what a rename did.
type moved struct {
	ino      store.Ino
	from, to store.DirName
}

func (p *planner) run(ctx context.Context) error {
	if err := p.prefetch(ctx); err != nil {
		return err
	}
	p.settle()
	if err := p.choose(ctx); err != nil {
		return err
	}
	p.findMoves()
	for _, k := range p.h.order {
		if err := p.key(ctx, k, 0); err != nil {
			return err
		}
	}
	if err := p.follow(ctx); err != nil {
		return err
	}
	if err := p.replaced(ctx); err != nil {
		return err
	}
	p.emptyDirs()
	return p.finish(ctx)
}

// prefetch reads the present of every inode that may matter, in few queries.
func (p *planner) prefetch(ctx context.Context) error {
	var inos []store.Ino
	need := func(ino store.Ino) {
		if ino == 0 || p.now[ino] != nil {
			return
		}
		if v := p.h.seen[ino]; v != nil && v.Type() != dirType {
			p.now[ino] = v
			return
		}
		inos = append(inos, ino)
	}
	for _, k := range p.h.order {
		for _, e := range p.h.names[k] {
			need(e.before)
			need(e.after)
		}
	}
	for ino, list := range p.h.inos {
		if mineIn(list) {
			need(ino)
		}
	}
	slices.Sort(inos)
	inos = slices.Compact(inos)
	vs, err := p.h.view.Versions(ctx, inos)
	if err != nil {
		return err
	}
	for i, v := range vs {
		if v == nil {
			v = p.lostVersion(inos[i])
		}
		if v != nil {
			p.now[inos[i]] = v
		}
	}
	return nil
}

// lostVersion is an inode that was left behind by a rollback, as one without a name.
func (p *planner) lostVersion(ino store.Ino) *store.Version {
	past := p.h.past[ino]
	if past == nil {
		return nil
	}
	v := *past
	v.Nlink = 0
	return &v
}

// current is what k leads to now.
func (p *planner) current(ctx context.Context, k store.DirName) (store.Ino, error) {
	if list := p.h.names[k]; len(list) > 0 {
		return list[len(list)-1].after, nil
	}
	if ino, ok := p.live[k]; ok {
		return ino, nil
	}
	names, err := p.h.view.Lookups(ctx, []store.DirName{k})
	if err != nil {
		return 0, err
	}
	p.live[k] = names[0].Ino
	return names[0].Ino, nil
}

// planned is what k will lead to.
func (p *planner) planned(ctx context.Context, k store.DirName) (store.Ino, error) {
	if ino, ok := p.want[k]; ok {
		return ino, nil
	}
	return p.current(ctx, k)
}

// nameRun is a stretch of our changes of a name that nobody else's came between.
type nameRun struct {
	before, after store.Ino
	from, to      moment
	command       store.CommandID
	other         store.CommandID // who came after it, if somebody did
}

// runs are those of a name, newest first.
func runs(list []nameEvent) []nameRun {
	var out []nameRun
	open := false
	for i := range list {
		e := &list[i]
		if !e.mine {
			if open {
				out[len(out)-1].other = e.command
			}
			open = false
			continue
		}
		if open {
			r := &out[len(out)-1]
			r.after, r.to, r.command = e.after, e.at, e.command
			continue
		}
		out = append(out, nameRun{before: e.before, after: e.after, from: e.at, to: e.at, command: e.command})
		open = true
	}
	slices.Reverse(out)
	return out
}

// key takes back what our changes did to one name, after the directory that it is in.
func (p *planner) key(ctx context.Context, k store.DirName, depth int) error {
	if p.done[k] || p.skip[k] {
		return nil
	}
	p.done[k] = true
	if depth < MaxPath {
		for _, up := range p.h.keys[k.Parent] {
			if p.ours(up) {
				if err := p.key(ctx, up, depth+1); err != nil {
					return err
				}
			}
		}
	}
	at := p.there(k)
	cur, err := p.current(ctx, at)
	if err != nil {
		return err
	}
	first, list := cur, p.h.names[k]
	if len(list) == 1 && list[0].mine { // the most common case, without a list of runs
		e := &list[0]
		cur, err = p.invert(ctx, at, cur, &nameRun{before: e.before, after: e.after, from: e.at, to: e.at, command: e.command})
		list = nil
	}
	for _, r := range runs(list) {
		if err != nil {
			return err
		}
		cur, err = p.invert(ctx, at, cur, &r)
	}
	if err != nil {
		return err
	}
	if cur != first {
		p.want[at] = cur
	}
	return nil
}

// ours reports whether our changes touched a name.
func (p *planner) ours(k store.DirName) bool {
	for _, e := range p.h.names[k] {
		if e.mine {
			return true
		}
	}
	return false
}

// there is k in the directory that took the place of its own, if one did.
func (p *planner) there(k store.DirName) store.DirName {
	for range MaxPath {
		to, ok := p.alias[k.Parent]
		if !ok {
			break
		}
		k.Parent = to
	}
	return k
}

// invert takes one run back where the name leads to cur, and returns what it leads to then.
func (p *planner) invert(ctx context.Context, k store.DirName, cur store.Ino, r *nameRun) (store.Ino, error) {
	if cur == r.after && cur == 0 {
		return r.before, nil // removed, and still so: without a path, which only messages need
	}
	path := p.h.place.path(k)
	switch {
	case r.before == r.after:
		return cur, nil
	case cur == 0 && r.before == 0:
		p.goneSince(path, r)
		return 0, nil
	case cur == r.before:
		return cur, nil
	case cur == r.after && p.regular(r.before, r.after) && p.born(r.after, r.to) && p.editedAfter(r.after, r.to) != nil:
		return cur, p.mergeInto(ctx, path, cur, r)
	case cur == r.after && r.before == 0 && p.born(r.after, r.to):
		if e := p.editedAfter(r.after, r.to); e != nil {
			p.conflict(path, "%s made it, and %s changed it since", by(r.command), by(e.command))
			return cur, nil
		}
		return 0, nil
	case cur == r.after:
		return r.before, nil
	case cur == 0: // replaced by us, removed since
		return 0, nil
	case r.before != 0 && p.directory(r.before) && p.directory(cur):
		p.alias[r.before] = cur
		return cur, nil
	case p.regular(r.before, r.after, cur):
		return cur, p.mergeInto(ctx, path, cur, r)
	case r.after == 0 && p.same(ctx, r.before, cur):
		return cur, nil
	case r.before == 0 && p.savedOver(k, r.after, cur):
		return cur, nil // follow moves it
	case r.before == 0:
		p.conflict(path, "%s made it, and %s replaced it since", by(r.command), by(r.other))
	case r.after == 0:
		p.conflict(path, "%s took the name since", by(r.other))
	default:
		p.conflict(path, "%s replaced it since by something of another type", by(r.other))
	}
	return cur, nil
}

// goneSince is about a name that we made and others removed: nothing is to be done, unless what we made lives on
// elsewhere.
func (p *planner) goneSince(path string, r *nameRun) {
	if !p.born(r.after, r.to) {
		return
	}
	for _, k := range p.h.keys[r.after] {
		if list := p.h.names[k]; list[len(list)-1].after == r.after && !p.ours(k) {
			p.conflict(p.h.place.path(k), "%s made it as %s, and %s renamed it since", by(r.command), path, by(r.other))
			return
		}
	}
}

func (p *planner) kind(ino store.Ino) uint32 {
	if v := p.now[ino]; v != nil {
		return v.Type()
	}
	return p.h.kinds[ino]
}

func (p *planner) directory(ino store.Ino) bool { return p.kind(ino) == dirType }

func (p *planner) regular(inos ...store.Ino) bool {
	for _, ino := range inos {
		if ino == 0 || p.kind(ino) != fileType {
			return false
		}
	}
	return true
}

// same reports whether what we removed and what has its name now are alike in all that counts.
func (p *planner) same(ctx context.Context, a, b store.Ino) bool {
	x, err := p.inode(ctx, a)
	if err != nil || x == nil {
		return false
	}
	y, err := p.inode(ctx, b)
	if err != nil || y == nil || x.text != nil || y.text != nil {
		return false
	}
	e, differs := entry("", &x.v, &y.v)
	return !differs && e.A.ID != 0
}

// born reports whether our changes up to a moment made the inode, rather than moving or linking it.
func (p *planner) born(ino store.Ino, upTo moment) bool {
	for i := range p.h.inos[ino] {
		if e := &p.h.inos[ino][i]; e.born && e.mine && e.at.compare(upTo) <= 0 {
			return true
		}
	}
	return false
}

// editedAfter is the last change of an inode that somebody else made after a moment, nil if there is none.
func (p *planner) editedAfter(ino store.Ino, at moment) *inoEvent {
	list := p.h.inos[ino]
	for i := len(list) - 1; i >= 0 && list[i].at.compare(at) > 0; i-- {
		if !list[i].mine {
			return &list[i]
		}
	}
	return nil
}
