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
	ed := &editor{f: f, e: e, t: newTeller(f), made: map[store.Ino]*node{}, want: map[store.Ino]*store.Version{}, net: map[*node]int{}, free: map[*node]bool{}}
	for i := range e.Versions {
		ed.want[e.Versions[i].Ino] = &e.Versions[i]
	}
	f.mu.Lock()
	f.loads++ // nothing is dropped from memory until the end
	err := ed.load(ctx)
	if err == nil {
		err = ed.build()
	}
	var slot store.Slot
	if err == nil && len(ed.ch.op.Versions) > 0 {
		if slot, err = ed.ch.commit(); err == nil {
			for n := range ed.net {
				f.dropOrphan(n)
			}
			h.moved = append(h.moved, ed.t.ev())
		}
	}
	f.loads--
	f.mu.Unlock()
	if err == nil {
		err = f.finish(slot, nil)
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
	made map[store.Ino]*node          // inodes that get a name again, while memory has another node for them or none
	want map[store.Ino]*store.Version // of e.Versions
	net  map[*node]int                // names gained less names lost
	lost map[*node][]*store.Name      // old names of inodes, not yet matched with new ones
	free map[*node]bool               // has had no name
	also map[store.Ino][]store.Name   // the names of files that a kernel may have
}

// load brings everything that the edit touches to memory. FS.mu is held, and released meanwhile.
func (ed *editor) load(ctx context.Context) error {
	f := ed.f
	var unknown []store.Ino
	asked := map[store.Ino]bool{}
	ask := func(ino store.Ino) {
		if ino != 0 && f.nodes[ino] == nil && !asked[ino] {
			asked[ino] = true
			unknown = append(unknown, ino)
		}
	}
	for i := range ed.e.Names {
		ask(ed.e.Names[i].Ino)
		ask(ed.e.Names[i].Parent)
	}
	for i := range ed.e.Versions {
		ask(ed.e.Versions[i].Ino)
	}
	view := f.view
	f.mu.Unlock()
	versions, err := view.Versions(ctx, unknown)
	f.mu.Lock()
	if err != nil {
		return err
	}
	for i, v := range versions {
		switch {
		case v == nil && ed.want[unknown[i]] == nil:
			return fmt.Errorf("inode %d has never been in this workspace: %w", unknown[i], syscall.EINVAL)
		case v == nil: // of a timeline that the workspace has left
			ed.make(newNode(*ed.want[unknown[i]]))
		case f.nodes[v.Ino] == nil:
			n := newNode(*v)
			n.gone = v.Nlink == 0
			f.adopt(n)
		}
	}
	var known []store.Ino
	for i := range ed.e.Versions {
		if n := f.nodes[ed.e.Versions[i].Ino]; n != nil && !n.isDir() && !n.gone && n.referenced() {
			known = append(known, n.ino)
		}
	}
	f.mu.Unlock()
	ed.also, err = view.NamesOfAll(ctx, known)
	f.mu.Lock()
	if err != nil {
		return err
	}
	for i := range ed.e.Names {
		nm := &ed.e.Names[i]
		p := f.nodes[nm.Parent]
		if p == nil || p.gone {
			continue // it has to be made by this very edit
		}
		if p, err = f.directory(nil, p.id); err != nil {
			return err
		}
		old := p.dir.byName[nm.Name]
		if old == nil || old.ino == nm.Ino {
			continue
		}
		n, err := f.inode(nil, old.ino)
		if err == nil && n.isDir() {
			_, err = f.directory(nil, n.id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// build makes the op. FS.mu is held throughout.
func (ed *editor) build() error {
	f := ed.f
	ed.ch = f.begin(nil, ed.e.Kind, ed.e.Who)
	ed.ch.tell, ed.ch.op.Undoes, ed.ch.op.Contents = ed.t, ed.e.Undoes, ed.e.Contents
	ed.lost = map[*node][]*store.Name{}
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
	n := ed.f.nodes[ino]
	if ino == 0 || ed.made[ino] != nil || !n.gone {
		return nil
	}
	w := ed.want[ino]
	if w == nil {
		return fmt.Errorf("inode %d would come back without a state: %w", ino, syscall.EINVAL)
	}
	if n.opens > 0 || n.lookups > 0 {
		n = n.successor()
	}
	n.v.Mode = w.Mode
	ed.make(n)
	return nil
}

// make takes n for an inode without a name that is about to get one.
func (ed *editor) make(n *node) {
	n.v.Nlink = 0
	n.dir, n.file, n.dirtySince = nil, nil, 0
	if n.isDir() {
		n.dir = newDir()
	}
	ed.made[n.ino], ed.free[n] = n, true
}

func (ed *editor) node(ino store.Ino) *node {
	if n := ed.made[ino]; n != nil {
		return n
	}
	return ed.f.nodes[ino]
}
