package fs

import "wsfs/store"

// What history calls an inode and what kernels call it are the same number, until something that a kernel still holds
// stops being what its inode is: a directory that was removed and comes back (a kernel never again creates in the one it
// saw removed), a file that comes back while a handle has its orphan, a file whose content is replaced by an undo or a
// rollback while handles have the old bytes. Then the inode goes on as a new node with an id of its own, an alias, and
// the old node stays, stale, for as long as a kernel refers to it. Names always lead to the new one.
//
// Node ids are 40 bits wide (package fs/fuse uses those above for views); inode numbers stay far below the aliases.

// firstAlias is the smallest id that is no inode number.
const firstAlias store.Ino = 1 << 39

// aliasShift: each process that serves the same kernels has that many aliases of its own, or one could be something else
// for a kernel than it was.
const aliasShift = 24

// known is the node in memory that kernels call id, or nil. FS.mu is held.
func (f *FS) known(id store.Ino) *node {
	if len(f.byID) > 0 {
		if n := f.byID[id]; n != nil {
			return n
		}
	}
	if n := f.nodeOf(id); n != nil && n.id == id {
		return n
	}
	return nil
}

// idOf is what kernels call an inode of the tree. FS.mu is held.
func (f *FS) idOf(ino store.Ino) store.Ino {
	if len(f.byID) > 0 {
		if n := f.nodes[ino]; n != nil {
			return n.id
		}
	}
	return ino
}

// adopt makes n the node of its inode, in place of any other, which becomes stale. FS.mu is held.
func (f *FS) adopt(n *node) {
	if old := f.nodeOf(n.ino); old != nil && old != n {
		f.retire(old)
	}
	f.nodes[n.ino] = n
	if f.byID[n.id] != nil { // a stale node has the number
		n.id = firstAlias + f.aliases
		f.aliases++
		f.byID[n.id] = n
	}
}

// retire takes a node from the tree; kernels and handles that have it keep it. FS.mu is held.
func (f *FS) retire(n *node) {
	delete(f.nodes, n.ino)
	delete(f.dirTimes, n)
	if n.lookups == 0 && n.opens == 0 && !f.survived {
		f.discard(n)
		return
	}
	n.stale = true
	if n.opens > 0 {
		f.ledger.ofNode(noteStale, n.id)
	}
	f.byID[n.id] = n
}

// discard forgets a node that nothing leads to. FS.mu is held.
func (f *FS) discard(n *node) {
	if f.nodes[n.ino] == n {
		delete(f.nodes, n.ino)
	}
	if n.dir != nil {
		f.scatter(n.dir)
	}
	if f.byID[n.id] == n {
		delete(f.byID, n.id)
	}
	delete(f.dirty, n)
	delete(f.dirTimes, n)
	f.forgetPatch(n)
	f.letGo(n)
}

// live is what the inode of a stale node is now; nil if it is not in the tree, and for a node that is not stale. It may
// release FS.mu on the way.
func (f *FS) live(c *Call, n *node) *node {
	if !n.stale {
		return nil
	}
	now, err := f.inode(c, n.ino)
	if err != nil || now.gone || now.fresh {
		return nil
	}
	return now
}

// successor is a new node for what n's inode becomes while handles keep n as it is.
func (n *node) successor() *node {
	s := newNode(n.v)
	s.parent, s.name, s.replaced = n.parent, n.name, n.replaced
	return s
}
