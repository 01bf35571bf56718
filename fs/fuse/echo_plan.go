package fuse

import (
	"sort"
	"strings"
	"sync"
	"syscall"

	"wsfs/fs"
	"wsfs/store"
)

// manyEchoes is where files that re-appear are told with MKNOD, which costs half of CREATE and RELEASE.
const manyEchoes = 2000

// echoPlan is what one helper does, and what the kernel is to be answered meanwhile: to it the old state is still there
// until its own operation has ended it.
type echoPlan struct {
	ops      []echoOp
	unlinked []store.Ino // files that lose a name by an operation and live on: the kernel counts their links down itself

	mu    sync.Mutex
	slots map[echoKey]*echoSlot
}

type echoKey struct {
	parent store.Ino
	name   string
}

// echoSlot is one name. It goes from old over nothing to new, or parts of that; same names stay as they are.
type echoSlot struct {
	cur, old, new fs.EntryRef // cur is guarded by echoPlan.mu
	dir           string      // the directory's path before the change
}

// planner builds a plan. The kernel's tree is still the old one: an operation names a directory by where the operations
// before it have left it.
type planner struct {
	plan *echoPlan
	ev   *fs.Moved
	tree echoTree
	// changedID are the files with other content: what the kernel has of those must go before anybody is told.
	changedID map[store.Ino]bool
	fresh     map[store.Ino]*echoEntry // directories that appear
	holder    map[echoKey]store.Ino    // of renames: what is at a name after the operations so far
	at        map[store.Ino]*echoEntry // and where that is
	renamed   [][2]string              // paths of directories, from and to, in the order of the operations
}

type echoEntry struct {
	key echoKey
	*echoSlot
}

func (e *echoEntry) path() string { return join(e.dir, e.key.name) }

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func under(path, dir string) bool {
	return path == dir || dir == "" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

func depth(dir string) int {
	if dir == "" {
		return 0
	}
	return 1 + strings.Count(dir, "/")
}

// echoTree is the workspace as it is now.
type echoTree interface {
	// gone reports whether a node has lost its last name: a directory that goes on elsewhere must not be removed, since the
	// kernel would refuse for good to create anything in it.
	gone(id store.Ino) bool
	Place(id store.Ino) (parent store.Ino, name string, ok bool)
}

// planEcho turns what changed into at most limit operations that tell of it.
func planEcho(ev *fs.Moved, tree echoTree, limit int) *echoPlan {
	p := &planner{
		plan: &echoPlan{slots: make(map[echoKey]*echoSlot, len(ev.Entries))}, ev: ev, tree: tree,
		changedID: map[store.Ino]bool{}, fresh: map[store.Ino]*echoEntry{},
	}
	var leaving, arriving []echoEntry
	fresh := map[store.Ino]bool{} // directories that the kernel does not have yet
	for i := range ev.Entries {
		e := &ev.Entries[i]
		if e.Changed {
			p.changedID[e.New.ID] = true
		}
		if e.New.ID != e.Old.ID && e.New.Type == syscall.S_IFDIR {
			fresh[e.New.ID] = true
		}
	}
	for i := range ev.Entries {
		if e := &ev.Entries[i]; e.Old.Type == syscall.S_IFDIR {
			delete(fresh, e.Old.ID)
		}
	}
	for i := range ev.Entries {
		e := &ev.Entries[i]
		if fresh[e.Parent] {
			continue // nobody can watch in there
		}
		key := echoKey{e.Parent, e.Name}
		s := &echoSlot{cur: e.Old, old: e.Old, new: e.New, dir: e.Dir}
		p.plan.slots[key] = s
		if e.Old.ID == e.New.ID {
			continue
		}
		if e.Old.ID != 0 {
			leaving = append(leaving, echoEntry{key, s})
		}
		if e.New.ID != 0 {
			arriving = append(arriving, echoEntry{key, s})
		}
	}
	for i := range arriving {
		if e := &arriving[i]; fresh[e.new.ID] {
			p.fresh[e.new.ID] = e
		}
	}
	arriving = p.inside(leaving, arriving)
	leaving, arriving = p.renames(leaving, arriving)
	leaving = p.thin(leaving, limit-len(arriving))
	p.remove(leaving)
	p.appear(arriving)
	p.changed()
	if len(p.plan.ops) > limit {
		p.plan.ops = p.plan.ops[:max(limit, 0)]
	}
	return p.plan
}

// now is where a directory is after the operations so far.
func (p *planner) now(path string) string {
	for _, r := range p.renamed {
		if under(path, r[0]) {
			path = r[1] + path[len(r[0]):]
		}
	}
	return path
}

func (p *planner) add(kind echoKind, e *echoEntry) {
	p.plan.ops = append(p.plan.ops, echoOp{kind: kind, dir: p.now(e.dir), name: e.key.name})
}

// inside adds the arrival of directories that went into one that appears: they are the only ones in there that somebody
// may watch. Those that appear for it are made at once.
func (p *planner) inside(leaving, arriving []echoEntry) []echoEntry {
	arrives := map[store.Ino]bool{}
	for i := range arriving {
		arrives[arriving[i].new.ID] = true
	}
	made := map[store.Ino]bool{}
	for i := range leaving {
		e := &leaving[i]
		if e.old.Type != syscall.S_IFDIR || arrives[e.old.ID] || p.tree.gone(e.old.ID) {
			continue
		}
		parent, name, ok := p.tree.Place(e.old.ID)
		key := echoKey{parent, name}
		var below []string // of the one that appears, down to the parent
		top := p.fresh[parent]
		for ok && top == nil {
			if parent, name, ok = p.tree.Place(parent); ok {
				below, top = append(below, name), p.fresh[parent]
			}
		}
		if top == nil || top.old.ID != 0 || p.plan.slots[key] != nil {
			continue
		}
		if !made[parent] {
			made[parent] = true
			p.add(echoMkdir, top)
		}
		dir := top.path()
		for k := len(below) - 1; k >= 0; k-- {
			dir = join(dir, below[k])
		}
		s := &echoSlot{new: e.old, dir: dir}
		p.plan.slots[key] = s
		arriving = append(arriving, echoEntry{key, s})
	}
	rest := arriving[:0:0]
	for i := range arriving {
		if !made[arriving[i].new.ID] {
			rest = append(rest, arriving[i])
		}
	}
	return rest
}

// renames finds what left one name and arrived at another, and returns the rest.
func (p *planner) renames(leaving, arriving []echoEntry) (left, arrived []echoEntry) {
	from := map[store.Ino]*echoEntry{}
	for i := range leaving {
		from[leaving[i].old.ID] = &leaving[i]
	}
	var pairs []echoPair
	moved := map[echoKey]bool{}
	for i := range arriving {
		to := &arriving[i]
		src := from[to.new.ID]
		if src == nil || under(src.path(), to.path()) {
			arrived = append(arrived, *to)
			continue
		}
		delete(from, to.new.ID)
		moved[src.key] = true
		pairs = append(pairs, echoPair{src, to})
	}
	for i := range leaving {
		if !moved[leaving[i].key] {
			left = append(left, leaving[i])
		}
	}
	if len(pairs) == 0 {
		return left, arrived
	}
	before := len(p.plan.ops)
	left = p.makeRoom(left, pairs)
	freed := map[string]bool{}
	for i := before; i < len(p.plan.ops); i++ {
		freed[join(p.plan.ops[i].dir, p.plan.ops[i].name)] = true
	}
	p.holder, p.at = map[echoKey]store.Ino{}, map[store.Ino]*echoEntry{}
	for i := range leaving {
		if e := &leaving[i]; !freed[e.path()] {
			p.holder[e.key], p.at[e.old.ID] = e.old.ID, e
		}
	}
	for _, exchange := range []bool{false, true, false} {
		for progress := true; progress && len(pairs) > 0; {
			progress = false
			rest := pairs[:0:0]
			for _, pair := range pairs {
				if p.rename(pair, exchange && !progress) {
					progress = true
				} else {
					rest = append(rest, pair)
				}
			}
			pairs = rest
		}
	}
	for _, pair := range pairs { // through something that is not told
		left, arrived = append(left, *pair.from), append(arrived, *pair.to)
	}
	return left, arrived
}

// echoPair is what leaves one name and arrives at another.
type echoPair struct{ from, to *echoEntry }

// makeRoom removes what is gone for good from the names that renames go to, with all below it, and returns the rest.
func (p *planner) makeRoom(left []echoEntry, pairs []echoPair) []echoEntry {
	targets := map[string]bool{}
	for _, pair := range pairs {
		targets[pair.to.path()] = true
	}
	var now, later []echoEntry
	for i := range left {
		in := false
		for path := left[i].path(); path != "" && !in; path = path[:max(strings.LastIndexByte(path, '/'), 0)] {
			in = targets[path]
		}
		if in {
			now = append(now, left[i])
		} else {
			later = append(later, left[i])
		}
	}
	p.remove(now)
	return later
}

// rename adds one rename if it can be done now. Names that go round in a circle need an exchange, which takes one of them
// to where it belongs and the other nearer.
func (p *planner) rename(pair echoPair, exchange bool) bool {
	id, to := pair.from.old.ID, pair.to
	from := p.at[id]
	if p.holder[to.key] == id {
		return true // by an exchange
	}
	src, dst := join(p.now(from.dir), from.key.name), join(p.now(to.dir), to.key.name)
	other := p.holder[to.key]
	if under(dst, src) || under(src, dst) || other != 0 && !exchange {
		return false
	}
	op := echoOp{echoRename, p.now(from.dir), from.key.name, p.now(to.dir), to.key.name}
	if other == 0 {
		p.renamed = append(p.renamed, [2]string{src, dst})
	} else {
		const aside = "\x00" // in no path
		op.kind = echoExchange
		p.renamed = append(p.renamed, [2]string{dst, aside}, [2]string{src, dst}, [2]string{aside, src})
		p.at[other] = from
	}
	p.plan.ops = append(p.plan.ops, op)
	p.holder[from.key], p.holder[to.key], p.at[id] = other, id, to
	return true
}

// thin leaves out what lies in directories that go as well, if all of it is too much.
func (p *planner) thin(left []echoEntry, limit int) []echoEntry {
	if len(left) <= limit {
		return left
	}
	going := map[store.Ino]bool{}
	for i := range left {
		if left[i].old.Type == syscall.S_IFDIR {
			going[left[i].old.ID] = true
		}
	}
	var top []echoEntry
	for i := range left {
		if !going[left[i].key.parent] {
			top = append(top, left[i])
		}
	}
	return top
}

// remove adds the removal of names, the deepest first.
func (p *planner) remove(left []echoEntry) {
	sort.SliceStable(left, func(i, j int) bool {
		a, b := &left[i], &left[j]
		if da, db := depth(a.dir), depth(b.dir); da != db {
			return da > db
		}
		return a.dir < b.dir
	})
	for i := range left {
		e := &left[i]
		switch {
		case e.old.Type != syscall.S_IFDIR:
			p.add(echoUnlink, e)
			if !p.changedID[e.old.ID] && !p.tree.gone(e.old.ID) {
				p.plan.unlinked = append(p.plan.unlinked, e.old.ID)
			}
		case p.tree.gone(e.old.ID):
			p.add(echoRmdir, e)
		}
	}
}

// appear adds the names that are new, the highest first.
func (p *planner) appear(arrived []echoEntry) {
	sort.SliceStable(arrived, func(i, j int) bool { return depth(arrived[i].dir) < depth(arrived[j].dir) })
	for i := range arrived {
		e := &arrived[i]
		switch e.new.Type {
		case syscall.S_IFREG:
			switch {
			case e.old.Type == syscall.S_IFREG:
				p.add(echoReplace, e)
			case len(arrived) > manyEchoes:
				p.add(echoMknod, e)
			default:
				p.add(echoCreate, e)
			}
		case syscall.S_IFDIR:
			p.add(echoMkdir, e)
		case syscall.S_IFLNK:
			p.add(echoSymlink, e)
		case syscall.S_IFIFO:
			p.add(echoFIFO, e)
		case syscall.S_IFSOCK:
			p.add(echoSocket, e)
		}
	}
}

// changed adds the names that lead to what they led to, with other content or attributes.
func (p *planner) changed() {
	for i := range p.ev.Entries {
		e := &p.ev.Entries[i]
		s := p.plan.slots[echoKey{e.Parent, e.Name}]
		if s == nil || e.Old.ID != e.New.ID || e.New.ID == 0 {
			continue
		}
		entry := &echoEntry{echoKey{e.Parent, e.Name}, s}
		if e.Changed && e.New.Type == syscall.S_IFREG {
			p.add(echoModify, entry)
		}
		if e.Attrs && e.New.Type != syscall.S_IFLNK {
			p.add(echoAttrib, entry)
		}
	}
}

// settled returns the names about which the kernel knows the truth by the helper's operations.
func (p *echoPlan) settled() map[echoKey]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[echoKey]bool, len(p.slots))
	for key, s := range p.slots {
		if s.cur.ID == s.new.ID && s.old.ID != s.new.ID {
			out[key] = true
		}
	}
	return out
}
