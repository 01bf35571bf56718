package store_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

// file is a random change of one file or directory of the agent's workspace, by command cmd.
func (a *magent) file(r *rand.Rand, cmd string) mop {
	t := a.tree().clone()
	a.live[a.ws] = t
	files, dirs, links := t.paths("f"), t.paths("d"), t.paths("l")
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	fresh := func() string {
		dir := ""
		if len(dirs) > 0 && r.IntN(3) > 0 {
			dir = pick(dirs) + "/"
		}
		return fmt.Sprintf("%sn%d", dir, a.n)
	}
	freshFile := func() string { return fresh() + []string{"", "", "", scratchName, secretName, shortName}[r.IntN(6)] }
	made := a.made
	a.made = ""
	add := func(p string, n mnode) {
		a.node++
		t.nodes[a.node], t.names[p] = n, a.node
	}
	set := func(p string, fn func(n *mnode)) {
		n := t.nodes[t.names[p]]
		fn(&n)
		t.nodes[t.names[p]] = n
	}
	move := func(from, to string) {
		for p, i := range t.names {
			if p == from || strings.HasPrefix(p, from+"/") {
				delete(t.names, p)
				t.names[to+p[len(from):]] = i
			}
		}
	}
	create := func() mop {
		op := mop{Kind: "write", Path: freshFile(), Data: a.text(r, cmd, ""), Mode: 0o644, Cmd: cmd}
		add(op.Path, mnode{typ: 'f', mode: op.Mode}.with(op.Data))
		a.made = op.Path
		if r.IntN(12) == 0 {
			op.Kind = "writesync"
		}
		return op
	}
	if _, ok := t.names[made]; ok && r.IntN(3) > 0 { // a temporary, by the same command
		if r.IntN(2) == 0 {
			delete(t.names, made)
			return mop{Kind: "unlink", Path: made, Cmd: cmd}
		}
		if op := (mop{Kind: "rename", Path: made, To: pick(files), Cmd: cmd}); op.To != made {
			move(op.Path, op.To)
			return op
		}
	}
	dice := r.IntN(100)
	if len(files) > 30 && dice < 20 {
		dice = 55
	}
	switch {
	case len(files) < 3 || dice < 20:
		return create()
	case dice < 32: // > path
		op := mop{Kind: "write", Path: pick(files), Cmd: cmd}
		op.Data = a.text(r, cmd, t.nodes[t.names[op.Path]].data)
		if r.IntN(8) == 0 {
			op.Kind = "writesync"
		}
		set(op.Path, func(n *mnode) { *n = n.with(op.Data) })
		return op
	case dice < 42: // >> path
		op := mop{Kind: "append", Path: pick(files), Data: fmt.Sprintf("%s %08x\n", cmd, r.Uint32()), Cmd: cmd}
		set(op.Path, func(n *mnode) { *n = n.with(n.data + op.Data) })
		return op
	case dice < 47:
		op := mop{Kind: "rename", Path: pick(append(files, links...)), To: freshFile(), Cmd: cmd}
		move(op.Path, op.To)
		return op
	case dice < 53: // as saves by temporary file do
		op := mop{Kind: "rename", Path: pick(files), To: pick(files), Cmd: cmd}
		if t.names[op.Path] == t.names[op.To] {
			return create()
		}
		move(op.Path, op.To)
		return op
	case dice < 62:
		op := mop{Kind: "unlink", Path: pick(append(files, links...)), Cmd: cmd}
		delete(t.names, op.Path)
		return op
	case dice < 68:
		op := mop{Kind: "mkdir", Path: fresh(), Mode: 0o755, Cmd: cmd}
		if strings.Count(op.Path, "/") > 3 {
			return create()
		}
		add(op.Path, mnode{typ: 'd', mode: op.Mode})
		return op
	case dice < 72:
		for _, d := range dirs {
			if !slices.ContainsFunc(t.paths("fdl"), func(p string) bool { return path.Dir(p) == d }) {
				delete(t.names, d)
				return mop{Kind: "rmdir", Path: d, Cmd: cmd}
			}
		}
		return create()
	case dice < 76:
		op := mop{Kind: "link", Path: pick(files), To: freshFile(), Cmd: cmd}
		t.names[op.To] = t.names[op.Path]
		return op
	case dice < 80:
		op := mop{Kind: "symlink", Path: fresh(), Data: cmd, Cmd: cmd}
		add(op.Path, mnode{typ: 'l', mode: 0o777}.with(op.Data))
		return op
	case dice < 86:
		op := mop{Kind: "chmod", Path: pick(append(files, dirs...)), Mode: uint32(0o600 + r.IntN(0o200)), Cmd: cmd}
		set(op.Path, func(n *mnode) { n.mode = op.Mode })
		return op
	case dice < 90:
		op := mop{Kind: "xattr", Path: pick(append(files, dirs...)), Data: cmd, Cmd: cmd}
		set(op.Path, func(n *mnode) { n.attr = op.Data })
		return op
	case dice < 94: // truncate -s, to the end of a line
		op := mop{Kind: "truncate", Path: pick(files), Cmd: cmd}
		if t.nodes[t.names[op.Path]].data == "" {
			return create() // else it would set a time and nothing else, which the model does not know of
		}
		lines := strings.SplitAfter(t.nodes[t.names[op.Path]].data, "\n")
		op.Data = strings.Join(lines[:(len(lines)-1)/2], "")
		if i, ok := a.before.names[op.Path]; ok && a.before.nodes[i].data == op.Data {
			return create() // the command would seem to have done nothing, and bare undo would mean it all the same
		}
		set(op.Path, func(n *mnode) { *n = n.with(op.Data) })
		return op
	}
	if len(dirs) > 0 {
		op := mop{Kind: "rename", Path: pick(dirs), To: fresh(), Cmd: cmd}
		if op.To != op.Path && !strings.HasPrefix(op.To, op.Path+"/") && strings.Count(op.To, "/") < 3 {
			move(op.Path, op.To)
			return op
		}
	}
	return create()
}

// imports replaces the tree by that of a directory: some files as they are, some with other bytes, some new ones.
func (a *magent) imports(r *rand.Rand, cmd string) mop {
	old, t := a.tree(), mtree{map[string]int{}, map[int]mnode{}}
	a.live[a.ws] = t
	op := mop{Kind: "import", Cmd: cmd, Files: map[string]string{}}
	add := func(p string, n mnode) {
		a.node++
		t.nodes[a.node], t.names[p] = n, a.node
	}
	put := func(p, data string) {
		op.Files[p] = data
		add(p, mnode{typ: 'f', mode: 0o644}.with(data))
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if _, ok := t.names[d]; !ok {
				add(d, mnode{typ: 'd', mode: 0o755})
			}
		}
	}
	for _, p := range old.paths("f") {
		data := old.nodes[old.names[p]].data
		switch r.IntN(4) {
		case 0:
			continue
		case 1:
			data = a.text(r, cmd, data)
		}
		put(p, data)
	}
	put(fmt.Sprintf("n%d/i", a.n), a.text(r, cmd, ""))
	a.carryFrom(old, t)
	return op
}

// text is a new text by cmd that keeps some lines of old. Each line begins with the command that made it, so that blame
// can be checked. One in 20 is no text and too large for one blob.
func (a *magent) text(r *rand.Rand, cmd, old string) string {
	var b strings.Builder
	if r.IntN(20) == 0 {
		fmt.Fprintf(&b, "\x00%s", cmd)
		for n := 66_000 + r.IntN(200_000); b.Len() < n; {
			fmt.Fprintf(&b, "%x ", r.Uint64()>>r.IntN(64))
		}
		return b.String()
	}
	keep := strings.SplitAfter(old, "\n")
	if strings.HasPrefix(old, "\x00") {
		keep = nil
	}
	fresh := func() {
		for range 1 + r.IntN(4) {
			fmt.Fprintf(&b, "%s %08x\n", cmd, r.Uint32())
		}
	}
	for _, line := range keep {
		if r.IntN(4) == 0 {
			fresh()
		}
		if r.IntN(5) > 0 && b.Len() < 3000 {
			b.WriteString(line)
		}
	}
	fresh()
	return b.String()
}
