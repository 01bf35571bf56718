package fs

import (
	"context"
	"fmt"
	"syscall"

	"wsfs/store"
)

// Refer counts one more reference of a kernel to a node that it had before, whether a name leads to it or not.
func (f *FS) Refer(id store.Ino) (Attr, error) { return f.referTo(nil, id) }

func (f *FS) referTo(c *Call, id store.Ino) (Attr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.node(c, id)
	if err != nil {
		return Attr{}, err
	}
	n.lookups++
	return n.attr(), nil
}

// LookupSelf answers for "." of any node, directory or not, and LookupParent for ".." of a directory: of a kernel that has
// a file handle (open_by_handle_at, a client of NFS) and nothing in memory. Both count a reference. What has no name any
// more is ENOENT, unless somebody has it open.
func (f *FS) LookupSelf(c *Call, id store.Ino) (Attr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.node(c, id)
	if err == nil && n.gone && n.opens == 0 {
		err = inoErr("lookup", n, syscall.ENOENT)
	}
	if err != nil {
		return Attr{}, err
	}
	n.lookups++
	return n.attr(), nil
}

// LookupParent is described at [FS.LookupSelf].
func (f *FS) LookupParent(c *Call, id store.Ino) (Attr, error) {
	if id == store.RootIno {
		return f.LookupSelf(c, id)
	}
	if parent, _, ok := f.Place(id); ok {
		return f.referTo(c, parent)
	}
	f.mu.Lock()
	n, view := f.known(id), f.view
	f.mu.Unlock()
	if n == nil || n.gone {
		return Attr{}, fmt.Errorf("parent of node %d: %w", id, syscall.ENOENT)
	}
	// Loaded by its number alone, so the database has its name.
	c.yield()
	names, err := view.NamesOfAll(context.Background(), []store.Ino{n.ino})
	if err == nil && len(names[n.ino]) == 0 {
		err = inoErr("lookup parent", n, syscall.ENOENT)
	}
	if err != nil {
		return Attr{}, err
	}
	f.mu.Lock()
	parent := f.idOf(names[n.ino][0].Parent)
	f.mu.Unlock()
	return f.referTo(c, parent)
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
