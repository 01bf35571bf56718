package fs

import (
	"context"
	"fmt"
	"syscall"

	"wsfs/store"
)

// Edit brings names and inodes to wanted states, as one change; nothing is left half done. It returns the change's seq,
// 0 if everything was as wanted. It refuses, with nothing changed, what would leave the tree broken: ENOTEMPTY for a
// directory that would go with entries in it, ELOOP for one that would be inside itself.
func (h *Held) Edit(ctx context.Context, e *Edit) (store.Seq, error) {
	f := h.f
	ed := &editor{f: f, e: e, t: newTeller(f), at: make(map[store.Ino]*subject, len(e.Versions)+len(e.Names)/8)}
	for i := range e.Versions {
		ed.at[e.Versions[i].Ino] = &subject{want: &e.Versions[i]}
	}
	f.mu.Lock()
	f.loads++ // nothing is dropped from memory until the end
	err := ed.load(ctx)
	if err == nil {
		err = ed.build()
	}
	var slot store.Slot
	if err == nil && (len(ed.ch.op.Versions) > 0 || e.Merged != nil || len(e.Conflicts) > 0) {
		if slot, err = ed.ch.commit(); err == nil {
			for _, s := range ed.at {
				if s.net < 0 {
					f.dropOrphan(s.n)
				}
			}
			h.moved = append(h.moved, ed.t.ev())
		}
	}
	f.loads--
	f.mu.Unlock()
	if err == nil {
		err = f.finish(nil, slot, nil)
	}
	if err != nil || slot == 0 {
		f.blobs.Applied(e.Contents)
	}
	if err != nil {
		return 0, fmt.Errorf("change workspace %q: %w", f.ws.Name, err)
	}
	if slot == 0 {
		return 0, nil
	}
	return ed.ch.op.Seq, nil
}

// editor builds the op of an edit.
type editor struct {
	f    *FS
	e    *Edit
	ch   *change
	t    *teller
	at   map[store.Ino]*subject     // everything that the edit names, and what has names that it changes
	also map[store.Ino][]store.Name // the names of files that a kernel may have
}

// subject is one inode in an edit.
type subject struct {
	n     *node
	want  *store.Version // nil: only its names change
	row   int            // its place in the op's versions and one; 0: it has none
	net   int            // names gained less names lost
	free  bool           // it had no name
	named bool           // and has got one
	lost  []int          // changed names that it had
	left  int            // of a directory: entries gained less entries lost
	up    *subject       // of a directory that gets a name: where
}

// subject is the one of an inode; its node may not be known yet.
func (ed *editor) subject(ino store.Ino) *subject {
	s := ed.at[ino]
	if s == nil {
		s = &subject{}
		ed.at[ino] = s
	}
	return s
}

// load brings everything that the edit touches to memory. FS.mu is held, and released meanwhile.
func (ed *editor) load(ctx context.Context) error {
	f := ed.f
	for i := range ed.e.Names {
		nm := &ed.e.Names[i]
		ed.subject(nm.Parent)
		if nm.Ino != 0 {
			ed.subject(nm.Ino)
		}
	}
	var unknown, known []store.Ino
	for ino, s := range ed.at {
		n := f.nodeOf(ino)
		switch {
		case n == nil && s.want != nil && s.want.ID != 0 && s.want.Nlink == 0:
			ed.make(s, newNode(*s.want)) // whoever made the edit knows that it has no name
		case n == nil:
			unknown = append(unknown, ino)
		case s.want != nil && !n.isDir() && !n.gone && ed.f.referenced(n):
			known = append(known, ino)
		}
	}
	view := f.view
	f.mu.Unlock()
	versions, err := view.Versions(ctx, unknown)
	if err == nil {
		ed.also, err = view.NamesOfAll(ctx, known)
	}
	f.mu.Lock()
	if err != nil {
		return err
	}
	for i, v := range versions {
		s := ed.at[unknown[i]]
		switch {
		case v == nil && s.want == nil:
			return fmt.Errorf("inode %d has never been in this workspace: %w", unknown[i], syscall.EINVAL)
		case v == nil: // of a timeline that the workspace has left
			ed.make(s, newNode(*s.want))
		case f.nodeOf(v.Ino) == nil:
			n := newNode(*v)
			n.gone = v.Nlink == 0
			f.adopt(n)
		}
	}
	if err := ed.loadNames(ctx); err != nil {
		return err
	}
	for {
		var let []store.Ino // memory had them, and let them go while the database was asked: files without names
		for ino, s := range ed.at {
			if s.n == nil {
				if s.n = f.nodeOf(ino); s.n == nil {
					let = append(let, ino)
				}
			}
		}
		if len(let) == 0 {
			return ed.lineage(ctx)
		}
		f.mu.Unlock()
		versions, err := view.Versions(ctx, let)
		f.mu.Lock()
		if err != nil {
			return err
		}
		for i, v := range versions {
			s := ed.at[let[i]]
			switch {
			case v == nil && s.want == nil:
				return fmt.Errorf("inode %d has never been in this workspace: %w", let[i], syscall.EINVAL)
			case v == nil:
				ed.make(s, newNode(*s.want))
			case f.nodeOf(v.Ino) == nil:
				n := newNode(*v)
				n.gone = v.Nlink == 0
				f.adopt(n)
			}
		}
	}
}

// lineage brings to memory what is above the directories that get a directory, and where each of them is: of what was
// asked for by its number, or lies below what was dropped, that is not known. FS.mu is held, and released meanwhile.
func (ed *editor) lineage(ctx context.Context) error {
	f := ed.f
	var low []*node
	for i := range ed.e.Names {
		nm := &ed.e.Names[i]
		if nm.Ino != 0 && ed.at[nm.Ino].n.isDir() {
			low = append(low, ed.at[nm.Parent].n)
		}
	}
	seen := map[*node]bool{}
	for len(low) > 0 {
		var lost []store.Ino
		for _, n := range low {
			for n.ino != store.RootIno && !n.gone && !seen[n] {
				seen[n] = true
				up := f.nodeOf(n.parent)
				if up == nil {
					lost = append(lost, n.ino)
					break
				}
				n = up
			}
		}
		low = nil
		if len(lost) == 0 {
			break
		}
		view := f.view
		f.mu.Unlock()
		names, err := view.NamesOfAll(ctx, lost)
		var above []store.Ino
		for _, ino := range lost {
			if len(names[ino]) == 1 {
				above = append(above, names[ino][0].Parent)
			}
		}
		var versions []*store.Version
		if err == nil {
			versions, err = view.Versions(ctx, above)
		}
		f.mu.Lock()
		if err != nil {
			return err
		}
		for _, v := range versions {
			if v != nil && f.nodeOf(v.Ino) == nil {
				f.adopt(newNode(*v))
			}
		}
		for _, ino := range lost {
			if n := f.nodeOf(ino); n != nil && len(names[ino]) == 1 {
				n.parent, n.name = names[ino][0].Parent, names[ino][0].Name
				if up := f.nodeOf(n.parent); up != nil {
					low = append(low, up)
				}
			}
		}
	}
	return nil
}

// build makes the op. FS.mu is held throughout.
func (ed *editor) build() error {
	ed.ch = ed.f.begin(nil, ed.e.Kind, ed.e.Who)
	ed.ch.tell, ed.ch.op.Undoes, ed.ch.op.Contents = ed.t, ed.e.Undoes, ed.e.Contents
	ed.ch.op.Merged, ed.ch.op.Pins, ed.ch.op.Conflicts, ed.ch.op.Resolves = ed.e.Merged, ed.e.Pins, ed.e.Conflicts, ed.e.Resolves
	ed.ch.op.Reviews = ed.e.Reviews
	ed.ch.reserve(len(ed.at), len(ed.e.Names))
	for i := range ed.e.Names {
		if err := ed.revive(ed.e.Names[i].Ino); err != nil {
			return err
		}
	}
	changed, err := ed.names()
	if err != nil {
		return err
	}
	if err := ed.checkTree(changed); err != nil {
		return err
	}
	ed.links(changed)
	ed.attributes()
	ed.items(changed)
	return nil
}

// revive makes the node of an inode that has no name and is about to get one: the one it had, unless a kernel or a
// handle still has that.
func (ed *editor) revive(ino store.Ino) error {
	if ino == 0 {
		return nil
	}
	s := ed.at[ino]
	if s.free || !s.n.gone {
		return nil
	}
	if s.want == nil {
		return fmt.Errorf("inode %d would come back without a state: %w", ino, syscall.EINVAL)
	}
	n := s.n
	if n.opens > 0 || n.lookups > 0 || ed.f.survived {
		n = n.successor()
	}
	n.v.Mode = s.want.Mode
	ed.make(s, n)
	return nil
}

// make takes n for an inode without a name that is about to get one.
func (ed *editor) make(s *subject, n *node) {
	n.v.Nlink = 0
	if n.dir != nil {
		ed.f.scatter(n.dir)
	}
	n.dir, n.file, n.dirtySince = nil, nil, 0
	if n.isDir() {
		n.dir = newDir()
	}
	s.n, s.free = n, true
}

// version is the row that the op gives to a subject.
func (ed *editor) version(s *subject) *store.Version {
	if s.row == 0 {
		ed.ch.addVersion(s.n)
		s.row = len(ed.ch.op.Versions)
	}
	return &ed.ch.op.Versions[s.row-1]
}
