package versions_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
	"wsfs/versions"
)

// pairOp is something that a side does to k, a file, or to d, a directory with k in it. Names, lines and modes that it makes are its side's.
type pairOp struct {
	name string
	do   func(l *lab, side, at string, dir bool)
}

var pairText = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"

// pairEdit is what a side writes.
func pairEdit(side string) string {
	if side == "A" {
		return "A\n" + pairText[2:]
	}
	return pairText[:len(pairText)-2] + "B\n"
}

func pairFile(at string, dir bool) string {
	if dir {
		return at + "/k"
	}
	return at
}

var pairOps = []pairOp{
	{"nothing", func(*lab, string, string, bool) {}},
	{"edit", func(l *lab, side, at string, dir bool) { l.write(pairFile(at, dir), pairEdit(side)) }},
	{"rename", func(l *lab, side, at string, _ bool) { l.rename(at, at+side) }},
	{"rename and edit", func(l *lab, side, at string, dir bool) {
		l.rename(at, at+side)
		l.write(pairFile(at+side, dir), pairEdit(side))
	}},
	{"move", func(l *lab, _, at string, _ bool) { l.rename(at, "to/"+at) }},
	{"delete", func(l *lab, _, at string, _ bool) { l.remove(at) }},
	{"chmod", func(l *lab, side, at string, _ bool) { l.chmod(at, pairMode(side)) }},
	{"directory in its place", func(l *lab, side, at string, _ bool) {
		l.remove(at)
		l.mkdir(at)
		l.write(at+"/in"+side, side+"\n")
	}},
	{"link in its place", func(l *lab, side, at string, _ bool) {
		l.remove(at)
		l.symlink("target"+side, at)
	}},
	{"save by replacement", func(l *lab, side, at string, dir bool) {
		if !dir {
			l.save(at, pairEdit(side))
			return
		}
		l.mkdir(at + ".tmp")
		l.write(at+".tmp/k", pairEdit(side))
		l.remove(at)
		l.rename(at+".tmp", at)
	}},
	{"hard link", func(l *lab, side, at string, dir bool) { l.link(pairFile(at, dir), "hard"+side) }},
}

func pairMode(side string) uint32 {
	if side == "A" {
		return 0o700
	}
	return 0o750
}

// thing is one file or directory, or link, in the oracle's words: it knows nothing of inodes, versions and entities.
type thing struct {
	alive   bool
	parent  string // directory of its first name: "", "to", or "d" for what is in the directory, whatever that is called
	name    string
	more    string // a second name, in the root
	text    string
	mode    uint32
	isDir   bool
	changed bool // against the common point
}

// pairSide is what the oracle knows of one side.
type pairSide struct {
	d, k *thing // d is nil in the case of a file
	in   string // name of a file made in the new directory
	link string // target of a link at the old name
	dir  bool   // a new directory at the old name of a file
}

func pairOracleSide(op, side string, dir bool) *pairSide {
	s := &pairSide{k: &thing{alive: true, name: "k", text: pairText, mode: 0o644}}
	top := s.k
	if dir {
		s.d = &thing{alive: true, name: "d", mode: 0o755, isDir: true}
		s.k.parent, top = "d", s.d
	}
	edit := func() { s.k.text, s.k.changed = pairEdit(side), true }
	switch op {
	case "edit", "save by replacement":
		edit()
	case "rename":
		top.name, top.changed = top.name+side, true
	case "rename and edit":
		top.name, top.changed = top.name+side, true
		edit()
	case "move":
		top.parent, top.changed = "to", true
	case "delete":
		top.alive, s.k.alive = false, false
	case "chmod":
		top.mode, top.changed = pairMode(side), true
	case "directory in its place":
		s.k.alive, s.in, s.dir = false, "in"+side, !dir
	case "link in its place":
		top.alive, s.k.alive, s.link = false, false, "target"+side
	case "hard link":
		s.k.more, s.k.changed = "hard"+side, true
	}
	return s
}

// pairMerge is what the oracle says of taking theirs into ours: the tree, and whether anything is a conflict.
func pairMerge(o, t *pairSide) (tree map[string]string, conflict bool) {
	tree = map[string]string{"to": "d755", "to/x": "x\n"}
	keep := false // the whole of ours stays
	merge := func(o, t, b *thing) *thing {
		out := *o
		switch {
		case !o.alive && !t.alive:
		case !o.alive:
			conflict = conflict || t.changed
		case !t.alive:
			if o.changed {
				conflict, keep = true, true
			} else {
				out.alive = keep
			}
		default:
			three := func(o, b, t string) (string, bool) {
				switch {
				case o == b:
					return t, true
				case t == b || o == t:
					return o, true
				}
				return o, false
			}
			parent, ok1 := three(o.parent, b.parent, t.parent)
			name, ok2 := three(o.name, b.name, t.name)
			if ok1 && ok2 {
				out.parent, out.name = parent, name
			} else {
				conflict = true
			}
			mode, ok := three(fmt.Sprint(o.mode), fmt.Sprint(b.mode), fmt.Sprint(t.mode))
			fmt.Sscan(mode, &out.mode)
			conflict = conflict || !ok
			switch {
			case o.text == b.text:
				out.text = t.text
			case t.text != b.text && t.text != o.text:
				out.text = "A\n" + pairText[2:len(pairText)-2] + "B\n"
			}
			out.more = strings.Join(slices.DeleteFunc([]string{o.more, t.more}, func(s string) bool { return s == "" }), " ")
		}
		return &out
	}
	dirAt := func(d *thing) string { return strings.TrimPrefix(d.parent+"/"+d.name, "/") }
	base := pairOracleSide("nothing", "", o.d != nil)
	var d, k *thing
	top := ""
	if o.d != nil {
		d = merge(o.d, t.d, base.d)
		k = merge(o.k, t.k, base.k)
		if !d.alive && o.d.alive && (k.alive || o.in != "") { // something is left in it
			d.alive, conflict = true, true
		}
		if d.alive {
			top = dirAt(d)
			tree[top] = fmt.Sprintf("d%o", d.mode)
		}
	} else {
		k = merge(o.k, t.k, base.k)
	}
	if k.alive {
		where := k.parent
		if where == "d" {
			where = top
		}
		text := fmt.Sprintf("%o %s", k.mode, k.text)
		tree[strings.TrimPrefix(where+"/"+k.name, "/")] = text
		for _, more := range strings.Fields(k.more) {
			tree[more] = text
		}
	}
	// What was made in the old place.
	at := base.k.name
	if o.d != nil {
		at = base.d.name
	}
	for i, s := range []*pairSide{o, t} {
		ours := i == 0
		_, taken := tree[at]
		switch {
		case s.link != "" && (ours || !taken):
			tree[at] = "-> " + s.link
		case s.link != "":
			conflict = true
		case s.dir && !ours && taken && tree[at] != "d755":
			conflict = true
		case s.dir:
			tree[at], tree[at+"/"+s.in] = "d755", "644 "+s.in[2:]+"\n"
		case s.in != "" && top != "":
			tree[top+"/"+s.in] = "644 " + s.in[2:] + "\n"
		case s.in != "":
			conflict = true
		}
	}
	return tree, conflict
}

// plain is a tree in the oracle's words.
func (l *lab) plain() map[string]string {
	l.t.Helper()
	out := map[string]string{}
	for path := range l.tree() {
		a, err := l.find(path)
		l.must(err)
		switch {
		case a.Mode&syscall.S_IFMT == syscall.S_IFDIR:
			out[path] = fmt.Sprintf("d%o", a.Mode&0o7777)
		case a.Mode&syscall.S_IFMT == syscall.S_IFLNK:
			target, err := l.fs.Readlink(l.call(), a.ID)
			l.must(err)
			out[path] = "-> " + target
		case strings.HasPrefix(path, "to/x"):
			out[path] = l.text(path)
		default:
			out[path] = fmt.Sprintf("%o %s", a.Mode&0o7777, l.text(path))
		}
	}
	return out
}

// TestMergePairs merges all pairs of things that can be done to a file, and to a directory, and compares the tree and whether there was a
// conflict with an oracle that thinks in paths. A third of them only, unless WSFS_TEST_FULL is set. What ours has is never lost, what theirs wrote is in the tree or in a conflict, and
// undo brings back exactly what was.
func TestMergePairs(t *testing.T) {
	if os.Getenv("WSFS_TEST_FULL") == "" {
		t.Log("WSFS_TEST_FULL is not set: a third of the pairs")
	}
	for _, dir := range []bool{false, true} {
		t.Run(fmt.Sprintf("directory=%v", dir), func(t *testing.T) { mergePairs(t, dir) })
	}
}

func mergePairs(t *testing.T, dir bool) {
	base := newLab(t, store.Options{})
	base.as("base")
	at := "k"
	if dir {
		at = "d"
		base.mkdir("d")
	}
	base.write(pairFile(at, dir), pairText)
	base.mkdir("to")
	base.write("to/x", "x\n")
	var ours, theirs []*lab
	for i, op := range pairOps {
		a, b := base.fork(fmt.Sprintf("a%d", i)), base.fork(fmt.Sprintf("b%d", i))
		a.as("A")
		op.do(a, "A", at, dir)
		b.as("B")
		op.do(b, "B", at, dir)
		ours, theirs = append(ours, a), append(theirs, b)
	}
	for i := range pairOps {
		for j := range pairOps {
			if (i+j)%3 != 0 && os.Getenv("WSFS_TEST_FULL") == "" {
				continue
			}
			name := fmt.Sprintf("%s here, %s there", pairOps[i].name, pairOps[j].name)
			want, clash := pairMerge(pairOracleSide(pairOps[i].name, "A", dir), pairOracleSide(pairOps[j].name, "B", dir))
			x := ours[i].fork(fmt.Sprintf("x%d-%d", i, j))
			before := x.tree()
			m := x.as("M")
			plan, err := x.planMerge(theirs[j], versions.MergeSelect{})
			if errors.Is(err, versions.ErrNothing) {
				if pairOps[j].name != "nothing" {
					t.Errorf("%s: nothing to merge", name)
				}
				continue
			}
			base.must(err)
			x.apply(plan, theirs[j])
			if got := x.plain(); !maps.Equal(got, want) {
				t.Errorf("%s: got %q, want %q (%v)", name, diffMaps(got, want), diffMaps(want, got), whys(plan))
			}
			if (len(plan.Conflicts) > 0) != clash {
				t.Errorf("%s: conflicts %v, want any: %v", name, whys(plan), clash)
			}
			have := maps.Clone(x.lines())
			maps.Copy(have, x.kept(plan))
			for line := range theirs[j].lines() {
				if strings.Contains("AB", line) && !have[line] {
					t.Errorf("%s: %q of theirs is nowhere (%v)", name, line, whys(plan))
				}
			}
			if len(plan.Names)+len(plan.Versions) == 0 {
				continue
			}
			x.as("U")
			if _, err := x.undo(versions.UndoSelect{Commands: []store.CommandID{m}}); err != nil {
				t.Errorf("%s: undo: %v", name, err)
			} else if got := x.tree(); !maps.Equal(got, before) {
				t.Errorf("%s: after undo %q, was %q", name, diffMaps(got, before), diffMaps(before, got))
			}
		}
	}
}
