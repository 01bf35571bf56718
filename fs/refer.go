package fs

import (
	"context"

	"wsfs/store"
)

// Refer counts one more reference of a kernel to a node that it had before, whether a name leads to it or not.
func (f *FS) Refer(id store.Ino) (Attr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.node(nil, id)
	if err != nil {
		return Attr{}, err
	}
	n.lookups++
	return n.attr(), nil
}

// Place is where a directory is: the id of the one that it is in, and its name there. ok is false for one that is in no
// tree any more, and for the root.
func (f *FS) Place(id store.Ino) (parent store.Ino, name string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.known(id)
	if n == nil && id < firstAlias && f.nodeOf(id) == nil { // not in memory, so as the database has it
		view := f.view
		f.mu.Unlock()
		names, err := view.NamesOfAll(context.Background(), []store.Ino{id})
		f.mu.Lock()
		if err != nil || len(names[id]) != 1 {
			return 0, "", false
		}
		return f.idOf(names[id][0].Parent), names[id][0].Name, true
	}
	if n == nil || n.gone || n.stale || n.name == "" {
		return 0, "", false
	}
	return f.idOf(n.parent), n.name, true
}
