package store_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// What the random kill tests compare a store with: agents, each of which works alone in workspaces of its own, in the
// memory of the test. What an agent does follows from a seed and from what it did before, never from what a store says.

// mnode is one inode of the model, mtree one state of a workspace. Neither is changed once made.
type mnode struct {
	typ  byte // f, d, l
	mode uint32
	data string // of a file; the target of a link
	sum  uint64 // of data
	attr string // the extended attribute user.k
}

// with is n with other data.
func (n mnode) with(data string) mnode {
	n.data, n.sum = data, hashOf(data)
	return n
}

type mtree struct {
	names map[string]int // path to inode
	nodes map[int]mnode
}

func (t mtree) clone() mtree { return mtree{maps.Clone(t.names), maps.Clone(t.nodes)} }

// show is the tree as path -> what is there; a second name of an inode says so.
func (t mtree) show() map[string]string {
	out, first := map[string]string{}, map[int]string{}
	for _, p := range slices.Sorted(maps.Keys(t.names)) {
		n := t.nodes[t.names[p]]
		out[p] = shown(n)
		if old, ok := first[t.names[p]]; ok {
			out[p] += " = " + old
		}
		first[t.names[p]] = cmp.Or(first[t.names[p]], p)
	}
	return out
}

func shown(n mnode) string {
	if n.typ == 'd' {
		return fmt.Sprintf("d%o %q", n.mode, n.attr)
	}
	return fmt.Sprintf("%c%o %d %x %q", n.typ, n.mode, len(n.data), n.sum, n.attr)
}

func (t mtree) same(o mtree) bool { return maps.Equal(t.show(), o.show()) }

// paths are those of one kind ("f" files, "d" directories, "fdl" all), sorted.
func (t mtree) paths(types string) []string {
	var out []string
	for p, i := range t.names {
		if strings.IndexByte(types, t.nodes[i].typ) >= 0 {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// mop is one thing that an agent does, as its child is told of it.
type mop struct {
	Kind     string
	Path, To string
	Data     string
	Mode     uint32
	Name     string // of a workspace, a tag, or the command that is taken back
	Cmd      string // the command that does it
	Files    map[string]string
}

type mtag struct {
	ws, name string
	tree     mtree
}

// magent is what an agent knows. A copy by snapshot is a state to come back to.
type magent struct {
	id   int
	n    int                 // things done
	node int                 // highest inode
	ws   string              // where it works
	live map[string]mtree    // its workspaces
	tags []mtag              // oldest first
	cmds map[string][]string // what each workspace's log must have: commands that left something

	forgets bool         // history is collected: nothing is taken back
	lets    bool         // classes let past bytes go
	loose   map[int]bool // inodes that had, at some time and anywhere, a name of a class that lets them go; never changed once made

	did []string // what it did, for messages

	cmd        string // the command at work, and how much it has still to do
	left       int
	made       string // what its last change made
	before     mtree
	undo, redo []step // what bare undo takes back next, and redo
}

// step is a command that can be taken back, or back again.
type step struct {
	cmd        string
	from, into mtree
}

func newAgent(id int) *magent {
	ws := fmt.Sprintf("a%d", id)
	return &magent{id: id, ws: ws, live: map[string]mtree{ws: {map[string]int{}, map[int]mnode{}}}, cmds: map[string][]string{}, loose: map[int]bool{}}
}

func (a *magent) snapshot() *magent {
	b := *a
	b.live, b.cmds = maps.Clone(a.live), maps.Clone(a.cmds)
	b.did = slices.Clip(a.did)
	b.tags, b.undo, b.redo = slices.Clone(a.tags), slices.Clone(a.undo), slices.Clone(a.redo)
	return &b
}

func (a *magent) tree() mtree { return a.live[a.ws] }

// finish ends the command at work; a kill does that, too.
func (a *magent) finish() {
	if a.cmd != "" && !a.before.same(a.tree()) {
		a.undo = append(a.undo, step{a.cmd, a.before, a.tree()})
		a.note(a.cmd)
	}
	a.cmd, a.left, a.made = "", 0, ""
}

// note says that the log of the workspace must tell of a command from now on.
func (a *magent) note(cmd string) { a.cmds[a.ws] = append(slices.Clone(a.cmds[a.ws]), cmd) }

// next chooses what the agent does next, and does it in the model.
func (a *magent) next(seed uint64) mop {
	ws := a.ws
	op := a.choose(seed)
	a.did = append(a.did, strings.Join(strings.Fields(fmt.Sprintf("%s: in %s %s %s %s %s %o", op.Cmd, ws, op.Kind, op.Path, op.To, op.Name, op.Mode)), " "))
	return op
}

// story is what one command did, for messages.
func (a *magent) story(cmd string) string {
	var out []string
	for _, s := range a.did {
		if strings.HasPrefix(s, cmd+":") || strings.HasSuffix(s, " "+cmd+" 0") {
			out = append(out, s)
		}
	}
	return strings.Join(out, "; ")
}

func (a *magent) choose(seed uint64) mop {
	a.n++
	defer a.loosen()
	r := rand.New(rand.NewPCG(seed, uint64(a.id)<<32|uint64(a.n)))
	label := fmt.Sprintf("c%d.%d.%04x", a.id, a.n, seed&0xffff)
	if a.left > 0 {
		a.left--
		op := a.file(r, a.cmd)
		if a.left == 0 {
			a.finish()
		}
		return op
	}
	a.finish()
	if op, ok := a.whole(r, label, r.IntN(100)); ok {
		return op
	}
	a.cmd, a.before, a.redo = label, a.tree(), nil
	a.left = r.IntN(4)
	op := a.file(r, label)
	if a.left == 0 {
		a.finish()
	}
	return op
}

// whole is what concerns a whole workspace; ok is false if the dice say a file, or if it cannot be done now.
func (a *magent) whole(r *rand.Rand, label string, dice int) (op mop, ok bool) {
	var others []string
	for _, ws := range slices.Sorted(maps.Keys(a.live)) {
		if ws != a.ws {
			others = append(others, ws)
		}
	}
	switch {
	case dice < 12 && a.forgets:
	case dice < 12 && len(a.redo) > 0:
		s := a.redo[len(a.redo)-1]
		if a.mayLack(s) {
			return mop{Kind: "try redo", Name: s.cmd, Cmd: label}, true
		}
		a.carry(s.into)
		a.redo, a.undo = a.redo[:len(a.redo)-1], append(a.undo, s)
		a.live[a.ws] = s.into
		return mop{Kind: "redo", Name: s.cmd, Cmd: label}, true
	case dice < 12 && len(a.undo) > 0:
		s := a.undo[len(a.undo)-1]
		if a.mayLack(s) {
			return mop{Kind: "try undo", Name: s.cmd, Cmd: label}, true
		}
		a.carry(s.from)
		a.undo, a.redo = a.undo[:len(a.undo)-1], append(a.redo, s)
		a.live[a.ws] = s.from
		return mop{Kind: "undo", Name: s.cmd, Cmd: label}, true
	case dice < 18 && len(a.live) < 4:
		name := fmt.Sprintf("a%d-%d-%s", a.id, a.n, label[len(label)-2:])
		a.live[name] = a.tree()
		a.cmds[name] = a.cmds[a.ws]
		return mop{Kind: "fork", Name: name, Cmd: label}, true
	case dice < 26 && len(others) > 0:
		a.ws = others[r.IntN(len(others))]
		a.undo, a.redo = nil, nil
		return mop{Kind: "use", Name: a.ws}, true
	case dice < 29 && len(others) > 0:
		name := others[r.IntN(len(others))]
		delete(a.live, name)
		a.tags = slices.DeleteFunc(slices.Clone(a.tags), func(t mtag) bool { return t.ws == name })
		return mop{Kind: "drop", Name: name, Cmd: label}, true
	case dice < 37:
		name := fmt.Sprintf("t%d-%s", a.n, label[len(label)-2:])
		a.tags = append(slices.Clone(a.tags), mtag{a.ws, name, a.tree()})
		return mop{Kind: "tag", Name: name, Cmd: label}, true
	case dice < 45:
		var to []mtag
		for _, t := range a.tags[max(0, len(a.tags)-12):] {
			if t.ws == a.ws && !t.tree.same(a.tree()) {
				to = append(to, t)
			}
		}
		if len(to) == 0 {
			return op, false
		}
		t := to[r.IntN(len(to))]
		a.carry(t.tree)
		a.undo, a.redo = []step{{label, a.tree(), t.tree}}, nil
		a.live[a.ws] = t.tree
		a.cmds[a.ws] = nil // those before the tag stay, but the model does not know which they are
		return mop{Kind: "rollback", Name: t.name, Cmd: label}, true
	case dice < 49:
		return mop{Kind: "sync"}, true
	case dice < 51:
		return mop{Kind: "checkpoint"}, true
	case dice < 53:
		return mop{Kind: "gc"}, true
	case dice < 56 && len(a.tree().names) > 0: // that with which a workspace begins is not undone
		a.cmd, a.before, a.redo = label, a.tree(), nil
		op := a.imports(r, label)
		a.finish()
		return op, true
	}
	return op, false
}

func hashOf(s string) uint64 {
	h := sha256.Sum256([]byte(s))
	return binary.LittleEndian.Uint64(h[:])
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
