package fs

import (
	"strings"

	"wsfs/store"
)

// teller collects what kernels must be told of an edit or a move. Entries are noted before memory changes, with what they
// led to, and completed after it.
type teller struct {
	fs      *FS
	entries []EntryChange
	leads   []store.Name          // of each entry: what it will lead to
	keys    map[store.DirName]int // index in entries
	nodes   map[*node]bool        // whose attributes or content changed
	dirs    map[*node]dirPath
}

// dirPath is where a directory was; ok is false if that is not known.
type dirPath struct {
	path string
	ok   bool
}

func newTeller(f *FS) *teller {
	return &teller{fs: f, keys: map[store.DirName]int{}, nodes: map[*node]bool{}, dirs: map[*node]dirPath{}}
}

// referenced reports whether a kernel may have the node.
func (f *FS) referenced(n *node) bool { return n.lookups > 0 || n.ino == store.RootIno || f.survived }

// ref is what a name leads to. FS.mu is held.
func (f *FS) ref(nm *store.Name) EntryRef {
	if nm.Ino == 0 {
		return EntryRef{}
	}
	r := EntryRef{ID: nm.Ino, Ino: nm.Ino, Type: nm.Type}
	if n := f.nodes[nm.Ino]; n != nil {
		r.ID = n.id
	}
	return r
}

// entry notes a name that is about to lead from old to what to says, if a kernel may have its directory p. FS.mu is held.
func (t *teller) entry(p *node, old EntryRef, to *store.Name) {
	key := store.DirName{Parent: to.Parent, Name: to.Name}
	if p == nil || p.gone || !t.fs.referenced(p) {
		return
	}
	if _, ok := t.keys[key]; ok {
		return
	}
	e := EntryChange{Parent: p.id, Name: to.Name, Old: old}
	at := t.path(p, 0)
	if e.Dir = at.path; !at.ok {
		e.Old = EntryRef{} // nobody can be led there: it is only told as changed
	}
	t.keys[key] = len(t.entries)
	t.entries = append(t.entries, e)
	t.leads = append(t.leads, *to)
	if old.Ino != to.Ino {
		t.nodes[p] = true
	}
}

// changed notes that an inode of the tree becomes v under the names it has and keeps. FS.mu is held.
func (t *teller) changed(n *node, v *store.Version, names []store.Name) {
	content := n.v.Content != v.Content || n.v.Size != v.Size
	if n.isDir() {
		content = false
	}
	if !content && sameState(&n.v, v) {
		return
	}
	for i := range names {
		t.entry(t.fs.nodeOf(names[i].Parent), t.fs.ref(&names[i]), &names[i])
		if e, ok := t.keys[store.DirName{Parent: names[i].Parent, Name: names[i].Name}]; ok && t.entries[e].Old.Ino == n.ino {
			t.entries[e].Attrs = !content
		}
	}
}

// inode notes a node whose attributes or content change in place. FS.mu is held.
func (t *teller) inode(n *node) {
	if t.fs.referenced(n) {
		t.nodes[n] = true
	}
}

// path is where a directory is. FS.mu is held.
func (t *teller) path(n *node, depth int) dirPath {
	if n.ino == store.RootIno {
		return dirPath{"", true}
	}
	if p, ok := t.dirs[n]; ok {
		return p
	}
	up := t.fs.nodeOf(n.parent)
	if up == nil || n.name == "" || n.gone || depth > 4096 {
		return dirPath{}
	}
	p := t.path(up, depth+1)
	p.path = strings.TrimPrefix(p.path+"/"+n.name, "/")
	t.dirs[n] = p
	return p
}

// ev is what to tell, once memory is what it is now. FS.mu is held.
func (t *teller) ev() *Moved {
	f := t.fs
	ev := &Moved{Entries: t.entries}
	for i := range ev.Entries {
		e := &ev.Entries[i]
		e.New = f.ref(&t.leads[i])
		e.Changed = !e.Attrs && e.Old.ID != 0 && e.New.ID != 0 && e.Old.Type == e.New.Type
	}
	for n := range t.nodes {
		ev.Inodes = append(ev.Inodes, n.id)
	}
	return ev
}
