package fs

import (
	"cmp"
	"slices"

	"wsfs/store"
)

// LockInfo is an advisory lock as people want to know of it.
type LockInfo struct {
	Lock
	Ino     store.Ino
	Path    string // one of its names, from the root; "" if it has none
	Session string // of who has the file open; "" unknown
	Waiting bool   // it is asked for, and not held
}

// Locks lists the advisory locks of the workspace, and who waits for one, by path and place.
func (f *FS) Locks() []LockInfo {
	type entry struct {
		LockInfo
		h *Handle
	}
	var list []entry
	t := &f.locks
	t.mu.Lock()
	for ino, il := range t.inodes {
		for i := range il.held {
			list = append(list, entry{LockInfo{Lock: il.held[i].Lock, Ino: ino}, il.held[i].handle})
		}
	}
	for _, w := range t.waiting {
		list = append(list, entry{LockInfo{Lock: w.want, Ino: w.ino, Waiting: true}, w.handle})
	}
	t.mu.Unlock()
	out := make([]LockInfo, len(list))
	f.mu.Lock()
	for i := range list {
		e := &list[i]
		if e.h != nil {
			e.Path = f.shownPath(e.h.n)
			if s := e.h.who.Session; s != nil {
				e.Session = s.Name
			}
		}
		out[i] = e.LockInfo
	}
	f.mu.Unlock()
	slices.SortFunc(out, func(a, b LockInfo) int {
		held := func(l *LockInfo) int {
			if l.Waiting {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Ino, b.Ino), held(&a)-held(&b), cmp.Compare(a.Start, b.Start),
			cmp.Compare(a.PID, b.PID))
	})
	return out
}

// shownPath is a path of a node, as far as memory has it: directories of what is open are there. FS.mu is held.
func (f *FS) shownPath(n *node) string {
	if n.gone || n.name == "" {
		return ""
	}
	path := n.name
	for p := n.parent; p != store.RootIno; {
		d := f.nodes[p]
		if d == nil || d.name == "" || len(path) > 4096 {
			return ".../" + path
		}
		path, p = d.name+"/"+path, d.parent
	}
	return path
}
