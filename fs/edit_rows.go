package fs

import (
	"fmt"
	"syscall"

	"wsfs/store"
)

// rebound is a name that changes.
type rebound struct {
	to       *store.Name
	p        *node
	old, new *node // nil: nothing
}

// names finds which names change and puts them into the op.
func (ed *editor) names() ([]rebound, error) {
	var list []rebound
	for i := range ed.e.Names {
		nm := &ed.e.Names[i]
		r := rebound{to: nm, p: ed.node(nm.Parent)}
		if r.p.gone && ed.made[nm.Parent] == nil || !r.p.isDir() {
			return nil, fmt.Errorf("the directory of %q is not there: %w", nm.Name, syscall.ENOENT)
		}
		if d := r.p.dir.byName[nm.Name]; d != nil {
			if d.ino == nm.Ino {
				continue
			}
			r.old = ed.f.nodes[d.ino]
			ed.net[r.old]--
			ed.lost[r.old] = append(ed.lost[r.old], nm)
		}
		if nm.Ino != 0 {
			r.new = ed.node(nm.Ino)
			ed.net[r.new]++
		}
		list = append(list, r)
		ref := EntryRef{}
		if r.old != nil {
			ref = EntryRef{ID: r.old.id, Ino: r.old.ino, Type: r.old.v.Type()}
		}
		ed.t.entry(r.p, ref, &store.Name{Parent: nm.Parent, Name: nm.Name, Ino: nm.Ino, Type: typeOf(r.new)})
		if r.new == nil {
			ed.ch.unbind(r.p, nm.Name)
		} else {
			ed.ch.bind(r.p, nm.Name, r.new)
		}
	}
	return list, nil
}

func typeOf(n *node) uint32 {
	if n == nil {
		return 0
	}
	return n.v.Type()
}

// checkTree refuses what would leave entries out of reach.
func (ed *editor) checkTree(changed []rebound) error {
	left := map[*node]int{}
	up := map[*node]*node{} // new parents of directories
	for i := range changed {
		r := &changed[i]
		if r.old != nil {
			left[r.p]--
		}
		if r.new != nil {
			left[r.p]++
			if r.new.isDir() {
				up[r.new] = r.p
			}
		}
	}
	for i := range changed {
		if p := changed[i].p; ed.free[p] && ed.net[p] == 0 {
			return fmt.Errorf("the directory of %q would have no name: %w", changed[i].to.Name, syscall.ENOENT)
		}
		n := changed[i].old
		if n != nil && n.isDir() && ed.net[n] < 0 && len(n.dir.byName)+left[n] > 0 {
			return fmt.Errorf("directory %q has entries that would go with it: %w", changed[i].to.Name, syscall.ENOTEMPTY)
		}
		if n := changed[i].new; n != nil && n.isDir() {
			if ed.net[n] > 1 || ed.net[n] == 1 && !ed.free[n] {
				return fmt.Errorf("directory %q would have two names: %w", changed[i].to.Name, syscall.EINVAL)
			}
		}
	}
	for d := range up {
		steps := 0
		for at := d; at.ino != store.RootIno; steps++ {
			p := up[at]
			if p == nil {
				p = ed.f.nodes[at.parent]
			}
			if p == nil || steps > 1<<16 || p == d {
				return fmt.Errorf("directory %q would be inside itself: %w", d.name, syscall.ELOOP)
			}
			at = p
		}
	}
	return nil
}

// links sets link counts, and the times of directories whose entries change.
func (ed *editor) links(changed []rebound) {
	for i := range changed {
		r := &changed[i]
		up := ed.ch.touch(r.p)
		if r.old != nil && r.old.isDir() {
			up.Nlink--
		}
		if r.new != nil && r.new.isDir() {
			up.Nlink++
		}
	}
	done := map[*node]bool{}
	for i := range changed {
		for _, n := range []*node{changed[i].old, changed[i].new} {
			if n == nil || done[n] {
				continue
			}
			done[n] = true
			v := ed.ch.version(n)
			v.Ctime = ed.ch.now
			switch {
			case n.isDir() && ed.net[n] < 0:
				v.Nlink = 0
			case n.isDir() && ed.free[n]:
				v.Nlink += 2 // it counts its subdirectories already
			case !n.isDir():
				v.Nlink = uint32(int(v.Nlink) + ed.net[n])
			}
		}
	}
}

// attributes sets the wanted states of inodes.
func (ed *editor) attributes() {
	for i := range ed.e.Versions {
		w := &ed.e.Versions[i]
		n := ed.node(w.Ino)
		if n.gone && ed.made[w.Ino] == nil || ed.free[n] && ed.net[n] == 0 {
			continue // it has no name, and gets none
		}
		same := sameState(&n.v, w) && (w.Mtime == 0 || w.Mtime == n.v.Mtime)
		if same && ed.ch.find(n) < 0 {
			continue
		}
		v := ed.ch.version(n)
		if !n.isDir() && !same {
			ed.noteNames(n, w)
		}
		v.Mode, v.UID, v.GID, v.Xattrs = w.Mode, w.UID, w.GID, w.Xattrs
		v.Content, v.Size, v.Holes, v.Target, v.Rdev = w.Content, w.Size, w.Holes, w.Target, w.Rdev
		if v.Mtime = w.Mtime; w.Mtime == 0 {
			v.Mtime = ed.ch.now
		}
		v.Ctime = ed.ch.now
		if w.Replaced != 0 {
			v.Replaced = w.Replaced
		}
		if w.Merge != 0 {
			v.Merge = w.Merge
		}
		if !ed.free[n] {
			ed.t.inode(n)
		}
	}
}

// noteNames tells of a file that changes under the names it has.
func (ed *editor) noteNames(n *node, w *store.Version) {
	if !ed.free[n] {
		ed.t.changed(n, w, ed.also[n.ino])
	}
}

// items says what happened, name by name in the order of the edit, then what only changed.
func (ed *editor) items(changed []rebound) {
	came := map[*store.Name]store.DirName{} // wanted name -> where a renamed inode comes from
	left := map[*store.Name]bool{}          // names whose holder went to one of those
	for i := range changed {
		r := &changed[i]
		if r.new == nil || len(ed.lost[r.new]) == 0 {
			continue
		}
		from := ed.lost[r.new][0]
		ed.lost[r.new] = ed.lost[r.new][1:]
		came[r.to], left[from] = store.DirName{Parent: from.Parent, Name: from.Name}, true
	}
	named := map[*node]bool{}
	for i := range changed {
		r := &changed[i]
		if from, ok := came[r.to]; ok {
			it := ed.ch.item(store.OpRename, r.new, r.p, r.to.Name)
			it.FromParent, it.FromName = from.Parent, from.Name
		} else if r.new != nil {
			ed.ch.item(ed.birth(r.new, named), r.new, r.p, r.to.Name)
		}
		if r.old != nil && !left[r.to] {
			ed.ch.item(dropKind(r.old), r.old, r.p, r.to.Name)
		}
		if r.old != nil && r.new != nil && r.old.isReg() && r.new.isReg() {
			if v := ed.ch.version(r.new); v.Replaced == 0 {
				v.Replaced = r.old.v.ID
			}
		}
	}
	for i := range ed.e.Versions {
		n := ed.node(ed.e.Versions[i].Ino)
		at := ed.ch.find(n)
		if at < 0 || ed.free[n] {
			continue
		}
		v := &ed.ch.op.Versions[at]
		switch {
		case v.Content != n.v.Content || v.Target != n.v.Target:
			ed.ch.item(store.OpWrite, n, nil, "")
		case !sameState(v, &n.v) || v.Mtime != n.v.Mtime && !n.isDir():
			ed.ch.item(store.OpSetattr, n, nil, "")
		}
	}
}

// birth is how a name came to be: with its inode, or as one more.
func (ed *editor) birth(n *node, named map[*node]bool) store.OpKind {
	if !ed.free[n] || named[n] {
		return store.OpLink
	}
	named[n] = true
	switch n.v.Type() {
	case syscall.S_IFDIR:
		return store.OpMkdir
	case syscall.S_IFLNK:
		return store.OpSymlink
	case syscall.S_IFREG:
		return store.OpCreate
	}
	return store.OpMknod
}

// dropKind is the item of an inode that loses a name.
func dropKind(n *node) store.OpKind {
	if n.isDir() {
		return store.OpRmdir
	}
	return store.OpUnlink
}
