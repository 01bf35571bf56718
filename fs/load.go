package fs

import (
	"context"
	"strings"

	"wsfs/store"
)

// listing is a directory as the database has it.
type listing struct {
	dir   *dir
	nodes []store.Version // of what needs a node
}

// readDir reads a whole directory, names and attributes. No lock is held.
func readDir(view *store.View, ino store.Ino) (*listing, error) {
	var names []store.Name
	var versions []*store.Version
	size := 0
	err := view.ReadDir(context.Background(), ino, func(name store.Name, v *store.Version) error {
		names, versions = append(names, name), append(versions, v)
		size += len(name.Name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	got := &listing{dir: newDir()}
	d := got.dir
	d.order = make([]dentry, 0, len(names))
	var all strings.Builder // one allocation instead of one per name
	all.Grow(size)
	files := 0
	for i := range names {
		all.WriteString(names[i].Name)
		if v := versions[i]; v != nil && coolable(v) {
			files++
		}
	}
	d.cold.list = make([]coldFile, 0, files)
	text := all.String()
	for i := range names {
		nm, v := &names[i], versions[i]
		e := dentry{name: text[:len(nm.Name)], ino: nm.Ino, cookie: d.next, typ: nm.Type}
		text = text[len(nm.Name):]
		switch {
		case v == nil:
		case coolable(v):
			var r coldFile
			r.keep(v, 0, int32(i))
			d.cold.list = append(d.cold.list, r)
			e.cold = int32(len(d.cold.list))
		default:
			got.nodes = append(got.nodes, *v)
		}
		d.order = append(d.order, e)
		d.next++
	}
	d.live = len(d.order)
	d.reindex()
	return got, nil
}

// loaded makes what was read the listing of n. What memory has already is newer. FS.mu is held.
func (f *FS) loaded(n *node, got *listing) {
	d := got.dir
	n.dir = d
	for i := range got.nodes {
		if v := &got.nodes[i]; !f.has(v.Ino) {
			f.adopt(newNode(*v))
		}
	}
	if len(d.cold.list) > 0 {
		f.coldIn(n)
	}
	for e := range d.entries() {
		switch {
		case e.cold == 0:
		case n.id != n.ino || f.has(e.ino) || len(f.byID) > 0 && f.byID[e.ino] != nil:
			r := d.coldOf(e)
			if !f.has(e.ino) {
				f.adopt(newNode(r.version(e.ino)))
			}
			*r = coldFile{entry: d.cold.free - 1}
			d.cold.free, e.cold = e.cold, 0
		default:
			f.cold[e.ino] = coldRef(d.cold.number)<<32 | coldRef(e.cold-1)
			d.cold.count++
		}
		if child := f.nodes[e.ino]; child != nil && (child.parent == 0 || child.isDir()) {
			child.parent, child.name = n.ino, e.name
		}
	}
}
