package storetest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// node is one inode of the model: its state and, for a directory, its names.
type node struct {
	v    store.Version
	kids map[string]store.Ino // nil unless a directory
}

// state is one whole tree, copied in full for every point in time: too simple to be wrong.
type state map[store.Ino]*node

func (s state) clone() state {
	c := make(state, len(s))
	for ino, n := range s {
		c[ino] = &node{v: n.v, kids: maps.Clone(n.kids)}
	}
	return c
}

// tree is a live workspace of the model, and the maker of ops that package fs is in the real program.
type tree struct {
	w    *world
	ws   store.Workspace
	head store.Seq // the workspace's highest seq
	now  state
	op   *store.Op
	told store.TimelineID // the base's timeline as it was told; the store finds the one that owns the seq
}

// begin starts an op at the next seq.
func (t *tree) begin(kind store.OpKind) {
	t.head++
	t.w.clock += int64(1+t.w.rnd.IntN(1000)) * 1e6
	t.op = &store.Op{
		Kind: kind, Timeline: t.ws.Timeline, Workspace: t.ws.ID, Seq: t.head, At: t.w.clock, Who: t.w.who(),
	}
}

// touch adds a new version of ino to the op; fn changes it.
func (t *tree) touch(ino store.Ino, fn func(v *store.Version)) {
	n := t.now[ino]
	for i := range t.op.Versions {
		if v := &t.op.Versions[i]; v.Ino == ino {
			fn(v)
			n.v = *v
			return
		}
	}
	v := n.v
	v.Parent, v.ID, v.Seq, v.Replaced, v.Origin = n.v.ID, t.w.st.NewVersionID(), t.op.Seq, 0, t.ws.Timeline
	v.Ctime = t.op.At
	fn(&v)
	n.v = v
	t.op.Versions = append(t.op.Versions, v)
}

// make adds a new inode to the op.
func (t *tree) make(mode uint32) store.Ino {
	v := store.Version{
		Ino: t.w.st.NewIno(), Seq: t.op.Seq, ID: t.w.st.NewVersionID(), Origin: t.ws.Timeline, Mode: mode, UID: 1000,
		GID: 1000, Nlink: 1, Mtime: t.op.At, Ctime: t.op.At, Atime: t.op.At,
	}
	n := &node{v: v}
	if v.IsDir() {
		n.kids = make(map[string]store.Ino)
		v.Nlink = 2
	}
	n.v = v
	t.now[v.Ino] = n
	t.op.Versions = append(t.op.Versions, v)
	return v.Ino
}

// name gives name in dir to ino; 0 removes it. The directory's times and link count follow.
func (t *tree) name(dir store.Ino, name string, ino store.Ino) {
	d := t.now[dir]
	dirs := 0
	var typ uint32
	if old := d.kids[name]; old != 0 && t.now[old].v.IsDir() {
		dirs--
	}
	if ino == 0 {
		delete(d.kids, name)
	} else {
		d.kids[name] = ino
		typ = t.now[ino].v.Type()
		if t.now[ino].v.IsDir() {
			dirs++
		}
	}
	t.op.Names = append(t.op.Names, store.Name{Parent: dir, Name: name, Ino: ino, Type: typ})
	t.touch(dir, func(v *store.Version) {
		v.Mtime, v.Atime = t.op.At, t.op.At
		v.Nlink = uint32(int(v.Nlink) + dirs)
	})
}

func (t *tree) item(it store.Item) { t.op.Items = append(t.op.Items, it) }

func (t *tree) create(dir store.Ino, name string, mode uint32, fn func(v *store.Version)) {
	kind := store.OpCreate
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		kind = store.OpMkdir
	case syscall.S_IFLNK:
		kind = store.OpSymlink
	case syscall.S_IFIFO:
		kind = store.OpMknod
	}
	t.begin(kind)
	ino := t.make(mode)
	t.touch(ino, fn)
	t.name(dir, name, ino)
	t.item(store.Item{Op: kind, Ino: ino, Parent: dir, Name: name})
	t.w.append(t)
}

func (t *tree) write(dir store.Ino, name string, c content) {
	t.begin(store.OpWrite)
	ino := t.now[dir].kids[name]
	t.touch(ino, func(v *store.Version) { c.into(v, t.op) })
	t.item(store.Item{Op: store.OpWrite, Ino: ino, Parent: dir, Name: name})
	t.w.append(t)
}

func (t *tree) link(ino, dir store.Ino, name string) {
	t.begin(store.OpLink)
	t.touch(ino, func(v *store.Version) { v.Nlink++ })
	t.name(dir, name, ino)
	t.item(store.Item{Op: store.OpLink, Ino: ino, Parent: dir, Name: name})
	t.w.append(t)
}

// drop takes one link from ino, which has just lost a name.
func (t *tree) drop(ino store.Ino) {
	t.touch(ino, func(v *store.Version) {
		if v.Nlink--; v.IsDir() {
			v.Nlink = 0
		}
	})
}

func (t *tree) remove(dir store.Ino, name string) {
	ino := t.now[dir].kids[name]
	kind := store.OpUnlink
	if t.now[ino].v.IsDir() {
		kind = store.OpRmdir
	}
	t.begin(kind)
	t.name(dir, name, 0)
	t.drop(ino)
	t.item(store.Item{Op: kind, Ino: ino, Parent: dir, Name: name})
	t.w.append(t)
}

func (t *tree) rename(from store.Ino, name string, to store.Ino, newName string) {
	ino, over := t.now[from].kids[name], t.now[to].kids[newName]
	t.begin(store.OpRename)
	var replaced store.VersionID
	if over != 0 {
		replaced = t.now[over].v.ID
	}
	t.name(from, name, 0)
	t.name(to, newName, ino)
	if over != 0 {
		t.drop(over)
	}
	t.touch(ino, func(v *store.Version) { v.Replaced = replaced })
	t.item(store.Item{Op: store.OpRename, Ino: ino, Parent: to, Name: newName, FromParent: from, FromName: name})
	t.w.append(t)
}

func (t *tree) exchange(a store.Ino, an string, b store.Ino, bn string) {
	x, y := t.now[a].kids[an], t.now[b].kids[bn]
	t.begin(store.OpExchange)
	t.name(a, an, y)
	t.name(b, bn, x)
	t.touch(x, func(*store.Version) {})
	t.touch(y, func(*store.Version) {})
	t.item(store.Item{Op: store.OpExchange, Ino: x, Parent: b, Name: bn, FromParent: a, FromName: an})
	t.item(store.Item{Op: store.OpExchange, Ino: y, Parent: a, Name: an, FromParent: b, FromName: bn})
	t.w.append(t)
}

func (t *tree) setattr(ino, dir store.Ino, name string, fn func(v *store.Version)) {
	t.begin(store.OpSetattr)
	if list := t.w.log[t.ws.Timeline]; len(list) > 0 && t.w.rnd.IntN(3) == 0 {
		t.op.Kind = store.OpUndo
		t.op.Undoes = []store.Undone{undone(list[len(list)-1]), {Ref: 1, Partial: true}}
	}
	t.touch(ino, fn)
	t.item(store.Item{Op: store.OpSetattr, Ino: ino, Parent: dir, Name: name})
	t.w.append(t)
}

// undone is one change as something to take back.
func undone(op *store.Op) store.Undone {
	u := store.Undone{Timeline: op.Timeline, From: op.Seq, To: op.Seq}
	if op.Who.Command != nil {
		u.Command = op.Who.Command.ID
	}
	return u
}

// amend replaces the content of ino's last version where it stands.
func (t *tree) amend(ino store.Ino, c content) {
	v := t.now[ino].v
	t.op = &store.Op{
		Kind: store.OpWrite, Timeline: t.ws.Timeline, Workspace: t.ws.ID, Seq: t.head, At: t.w.clock, Who: t.w.who(), Amend: true,
	}
	c.into(&v, t.op)
	t.now[ino].v = v
	t.op.Versions = []store.Version{v}
	t.w.amended(t, v)
}

// dirs lists the directories of the tree, the root first.
func (t *tree) dirs() []store.Ino {
	list := []store.Ino{store.RootIno}
	for i := 0; i < len(list); i++ {
		kids := t.now[list[i]].kids
		for _, name := range slices.Sorted(maps.Keys(kids)) {
			if t.now[kids[name]].v.IsDir() {
				list = append(list, kids[name])
			}
		}
	}
	return list
}

// below reports whether ino is dir or lies below it.
func (t *tree) below(ino, dir store.Ino) bool {
	if ino == dir {
		return true
	}
	for _, kid := range t.now[dir].kids {
		if t.now[kid].v.IsDir() && t.below(ino, kid) {
			return true
		}
	}
	return false
}

// pick chooses a name at random; ok is false if the tree is empty.
func (t *tree) pick(rnd *rand.Rand, want func(v *store.Version) bool) (dir store.Ino, name string, ok bool) {
	dirs := t.dirs()
	for range 20 {
		dir = dirs[rnd.IntN(len(dirs))]
		kids := t.now[dir].kids
		if len(kids) == 0 {
			continue
		}
		names := slices.Sorted(maps.Keys(kids))
		name = names[rnd.IntN(len(names))]
		if want == nil || want(&t.now[kids[name]].v) {
			return dir, name, true
		}
	}
	return 0, "", false
}

// content is bytes for a version and how they get into the store.
type content struct {
	staged blob.Staged
}

func (c content) into(v *store.Version, op *store.Op) {
	v.Content, v.Size = c.staged.Content.Ref, c.staged.Content.Size
	v.Mtime, v.Atime, v.Ctime = op.At, op.At, op.At
	if v.Size > 0 {
		op.Contents = append(op.Contents, c.staged)
	}
}
