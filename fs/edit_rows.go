package fs

import (
	"fmt"
	"syscall"

	"wsfs/store"
)

// rebound is a name that changes.
type rebound struct {
	to       *store.Name
	p        *subject
	old, new *subject    // nil: nothing
	from     *store.Name // of a rename: the name that new had
	left     bool        // old has gone to another name
}

// names finds which names change and puts them into the op.
func (ed *editor) names() ([]rebound, error) {
	list := make([]rebound, 0, len(ed.e.Names))
	for i := range ed.e.Names {
		nm := &ed.e.Names[i]
		r := rebound{to: nm, p: ed.at[nm.Parent]}
		if p := r.p.n; p.gone && !r.p.free || !p.isDir() {
			return nil, fmt.Errorf("the directory of %q is not there: %w", nm.Name, syscall.ENOENT)
		}
		var ref EntryRef
		if d := r.p.n.dir.get(nm.Name); d != nil {
			if d.ino == nm.Ino {
				continue
			}
			r.old = ed.at[d.ino]
			r.old.net--
			r.old.lost = append(r.old.lost, len(list))
			r.p.left--
			ref = EntryRef{ID: r.old.n.id, Ino: r.old.n.ino, Type: r.old.n.v.Type()}
		} else if nm.Ino == 0 {
			continue // it leads nowhere already, and an op removes only what is there
		}
		to := store.Name{Parent: nm.Parent, Name: nm.Name, Ino: nm.Ino}
		if nm.Ino != 0 {
			r.new = ed.at[nm.Ino]
			r.new.net++
			r.p.left++
			if to.Type = r.new.n.v.Type(); r.new.n.isDir() {
				r.new.up = r.p
			}
		}
		list = append(list, r)
		ed.t.entry(r.p.n, ref, &to)
		ed.ch.op.Names = append(ed.ch.op.Names, to)
	}
	return list, nil
}

// checkTree refuses what would leave entries out of reach.
func (ed *editor) checkTree(changed []rebound) error {
	for i := range changed {
		r := &changed[i]
		if r.p.free && r.p.net == 0 {
			return fmt.Errorf("the directory of %q would have no name: %w", r.to.Name, syscall.ENOENT)
		}
		if s := r.old; s != nil && s.n.isDir() && s.net < 0 && s.n.dir.live+s.left > 0 {
			return fmt.Errorf("directory %q has entries that would go with it: %w", r.to.Name, syscall.ENOTEMPTY)
		}
		s := r.new
		if s == nil || !s.n.isDir() {
			continue
		}
		if s.net > 1 || s.net == 1 && !s.free {
			return fmt.Errorf("directory %q would have two names: %w", r.to.Name, syscall.EINVAL)
		}
		if !ed.reaches(s) {
			return fmt.Errorf("directory %q would be inside itself: %w", r.to.Name, syscall.ELOOP)
		}
	}
	return nil
}

// reaches reports whether the parents of a directory lead to the root.
func (ed *editor) reaches(d *subject) bool {
	at := d.n
	for range 1 << 16 {
		if at.ino == store.RootIno {
			return true
		}
		s := ed.at[at.ino]
		switch {
		case s != nil && s.up != nil:
			at = s.up.n
		default:
			at = ed.f.nodeOf(at.parent)
		}
		if at == nil || at == d.n {
			return false
		}
	}
	return false
}

// links sets link counts, and the times of directories whose entries change.
func (ed *editor) links(changed []rebound) {
	for i := range changed {
		r := &changed[i]
		up := ed.version(r.p)
		up.Mtime, up.Ctime = ed.ch.now, ed.ch.now
		if r.old != nil && r.old.n.isDir() {
			up.Nlink--
		}
		if r.new != nil && r.new.n.isDir() {
			up.Nlink++
		}
	}
	for i := range changed {
		for _, s := range []*subject{changed[i].old, changed[i].new} {
			if s == nil {
				continue
			}
			v := ed.version(s)
			v.Ctime = ed.ch.now
			switch {
			case s.n.isDir() && s.net < 0:
				v.Nlink = 0
			case s.n.isDir() && s.free:
				v.Nlink += 2 // it counts its subdirectories already
			case !s.n.isDir(): // once for each of its names
				v.Nlink = uint32(int(s.n.v.Nlink) + s.net)
			}
		}
	}
}

// attributes sets the wanted states of inodes.
func (ed *editor) attributes() {
	for i := range ed.e.Versions {
		w := &ed.e.Versions[i]
		s := ed.at[w.Ino]
		if s.n.gone && !s.free || s.free && s.net == 0 {
			continue // it has no name, and gets none
		}
		same := sameState(&s.n.v, w) && (w.Mtime == 0 || w.Mtime == s.n.v.Mtime)
		if same && s.row == 0 {
			continue
		}
		v := ed.version(s)
		if !s.free {
			if !same {
				ed.t.changed(s.n, w, ed.also[w.Ino])
			}
			ed.t.inode(s.n)
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
	}
}

// items says what happened, name by name in the order of the edit, then what only changed.
func (ed *editor) items(changed []rebound) {
	for i := range changed {
		if r := &changed[i]; r.new != nil && len(r.new.lost) > 0 {
			from := &changed[r.new.lost[0]]
			r.new.lost = r.new.lost[1:]
			r.from, from.left = from.to, true
		}
	}
	for i := range changed {
		r := &changed[i]
		switch {
		case r.from != nil:
			it := ed.ch.item(store.OpRename, r.new.n, r.p.n, r.to.Name)
			it.FromParent, it.FromName = r.from.Parent, r.from.Name
		case r.new != nil:
			ed.ch.item(r.new.birth(), r.new.n, r.p.n, r.to.Name)
		}
		if r.old == nil {
			continue
		}
		if !r.left {
			ed.ch.item(dropKind(r.old.n), r.old.n, r.p.n, r.to.Name)
		}
		if r.new != nil && r.old.n.isReg() && r.new.n.isReg() {
			if v := ed.version(r.new); v.Replaced == 0 {
				v.Replaced = r.old.n.v.ID
			}
		}
	}
	for i := range ed.e.Versions {
		s := ed.at[ed.e.Versions[i].Ino]
		if s.row == 0 || s.free {
			continue
		}
		v, was := &ed.ch.op.Versions[s.row-1], &s.n.v
		switch {
		case v.Content != was.Content || v.Target != was.Target:
			ed.ch.item(store.OpWrite, s.n, nil, "")
		case !sameState(v, was) || v.Mtime != was.Mtime && !s.n.isDir():
			ed.ch.item(store.OpSetattr, s.n, nil, "")
		}
	}
}

// birth is how a name came to be: with its inode, or as one more.
func (s *subject) birth() store.OpKind {
	if !s.free || s.named {
		return store.OpLink
	}
	s.named = true
	switch s.n.v.Type() {
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
