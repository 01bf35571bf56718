package fs

import (
	"context"
	"errors"
	"slices"

	"wsfs/store"
)

// listing is a directory as the database has it.
type listing struct {
	dir   *dir
	nodes []store.Version // of what needs a node
}

// readDir reads a directory with at most so many names, and the attributes of a small one (attrs.go). No lock is held.
func readDir(view *store.View, ino store.Ino, whole, most int) (*listing, error) {
	got := &listing{dir: newDir()}
	d := got.dir
	begin := func(n int) { d.order = make([]dentry, 0, n) }
	err := view.ReadNames(context.Background(), ino, whole, most, begin, func(nm store.Name, v *store.Version) error {
		e := dentry{name: nm.Name, ino: nm.Ino, cookie: d.next, typ: nm.Type}
		switch {
		case v == nil:
		case coolable(v):
			var r coldFile
			r.keep(v, 0, int32(len(d.order)))
			d.cold.list = append(d.cold.list, r)
			e.cold = int32(len(d.cold.list))
		default:
			got.nodes = append(got.nodes, *v)
		}
		d.order = append(d.order, e)
		d.next++
		return nil
	})
	if errors.Is(err, store.ErrTooMany) {
		return nil, errLargeDir
	}
	if err != nil {
		return nil, err
	}
	d.cold.list = slices.Clip(d.cold.list)
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
