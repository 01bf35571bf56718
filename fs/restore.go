package fs

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path"
	"strings"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// RestoreResult counts what a restore did; Seq is 0 if there was nothing to do.
type RestoreResult struct {
	Restored, Unchanged int64
	Kept                int64 // entries of restored directories that are newer than the revision: they stay
	Seq                 store.Seq
}

// Restore brings path, a file or a directory with all it held, back to its state in from, as one change. What was
// removed regains its inode if no program still holds that; a file that exists keeps its inode and gets the old bytes
// as a new version. Nothing newer is removed.
func (f *FS) Restore(ctx context.Context, who store.Attribution, name string, from *store.View) (RestoreResult, error) {
	if err := f.writable("restore", name); err != nil {
		return RestoreResult{}, err
	}
	res, ev, err := f.restore(ctx, who, name, from)
	if err != nil {
		return RestoreResult{}, err
	}
	if ev != nil { // with the gate open: a kernel may wait for requests that wait for it
		f.notifier.push(event{moved: ev})
		f.notifier.drain()
	}
	return res, nil
}

// restore makes the change and returns what to tell of it, nil if there was nothing to do. What it has loaded stays
// loaded because nobody moves the workspace behind the gate.
func (f *FS) restore(ctx context.Context, who store.Attribution, name string, from *store.View) (RestoreResult, *Moved, error) {
	f.enter(nil)
	defer f.leave()
	var none RestoreResult
	rel := strings.Trim(path.Clean("/"+name), "/")
	chain, err := pathIn(ctx, from, rel)
	if err != nil {
		return none, nil, fmt.Errorf("restore %q: %w", name, err)
	}
	tree, err := treeIn(ctx, from, chain[len(chain)-1])
	if err != nil {
		return none, nil, fmt.Errorf("restore %q: %w", name, err)
	}
	if err := f.whole(ctx, rel, tree); err != nil {
		return none, nil, fmt.Errorf("restore %q: %w", name, err)
	}
	if err := f.cutDirty(func(*node) bool { return true }); err != nil {
		return none, nil, err
	}
	pinned, err := f.loadAll(ctx)
	defer f.unpin(pinned)
	if err != nil {
		return none, nil, err
	}
	removed := map[store.Ino]bool{}
	if err := f.findRemoved(ctx, chain, removed); err != nil {
		return none, nil, fmt.Errorf("restore %q: %w", name, err)
	}
	f.mu.Lock()
	r := &restorer{f: f, ch: f.begin(nil, store.OpRestore, who), tell: newTeller(f), made: map[store.Ino]*node{}, removed: removed}
	r.ch.tell = r.tell
	err = r.path(chain, tree)
	if err != nil || len(r.ch.op.Versions) == 0 {
		f.mu.Unlock()
		return r.res, nil, err
	}
	slot, err := r.ch.commit()
	var ev *Moved
	if err == nil {
		r.res.Seq = r.ch.op.Seq
		ev = r.tell.ev()
	}
	f.mu.Unlock()
	return r.res, ev, f.finish(nil, slot, err)
}

// past is one entry as it was.
type past struct {
	name     string
	v        store.Version
	children []*past
}

// pathIn is the past state of every component of a path, the root first.
func pathIn(ctx context.Context, from *store.View, rel string) ([]*past, error) {
	v, err := from.Version(ctx, store.RootIno)
	if err != nil {
		return nil, err
	}
	chain := []*past{{v: *v}}
	if rel == "" {
		return chain, nil
	}
	for _, name := range strings.Split(rel, "/") {
		nm, err := from.Lookup(ctx, chain[len(chain)-1].v.Ino, name)
		if err != nil {
			return nil, err
		}
		v, err := from.Version(ctx, nm.Ino)
		if err != nil {
			return nil, err
		}
		chain = append(chain, &past{name: name, v: *v})
	}
	return chain, nil
}

// treeIn reads everything below p.
func treeIn(ctx context.Context, from *store.View, p *past) (*past, error) {
	if !p.v.IsDir() {
		return p, nil
	}
	if err := from.ReadDir(ctx, p.v.Ino, func(nm store.Name, v *store.Version) error {
		p.children = append(p.children, &past{name: nm.Name, v: *v})
		return nil
	}); err != nil {
		return nil, err
	}
	for _, child := range p.children {
		if _, err := treeIn(ctx, from, child); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// whole refuses a past tree of which the store has not all bytes any more.
func (f *FS) whole(ctx context.Context, at string, p *past) error {
	var refs []blob.Ref
	var paths []string
	var walk func(at string, p *past)
	walk = func(at string, p *past) {
		if !p.v.Content.IsZero() {
			refs, paths = append(refs, p.v.Content), append(paths, at)
		}
		for _, child := range p.children {
			walk(path.Join(at, child.name), child)
		}
	}
	walk(at, p)
	gone, err := f.st.MissingBlobs(ctx, refs)
	if err != nil || len(gone) == 0 {
		return err
	}
	if _, err = f.st.Locate(ctx, refs[gone[0]]); err == nil {
		err = &store.LetGoError{Ref: refs[gone[0]], Class: f.st.LetsGo(refs[gone[0]])}
	}
	return fmt.Errorf("%d files, %q for one: %w", len(gone), paths[gone[0]], err)
}

// restorer builds the one op of a restore, under FS.mu.
type restorer struct {
	f    *FS
	ch   *change
	tell *teller
	res  RestoreResult
	made map[store.Ino]*node // past inode -> the node it is now, for hard links inside what is restored
	// removed holds the past inodes that the database says have no name any more.
	removed map[store.Ino]bool
}

// path makes the parents that are missing, then restores the last component.
func (r *restorer) path(chain []*past, tree *past) error {
	p := r.f.nodeOf(store.RootIno)
	if len(chain) == 1 {
		return r.dir(tree, p)
	}
	for _, step := range chain[1 : len(chain)-1] {
		have := r.f.childNode(p, step.name)
		switch {
		case have == nil:
			p = r.bind(p, step)
		case !have.isDir():
			return nameErr("restore into", step.name, syscall.ENOTDIR)
		default:
			p = have
		}
	}
	return r.entry(tree, p)
}

func (r *restorer) entry(old *past, p *node) error {
	have := r.f.childNode(p, old.name)
	switch {
	case have == nil:
		n := r.bind(p, old)
		return r.dir(old, n)
	case have.v.Type() != old.v.Type():
		if have.isDir() && have.dir.live > 0 {
			return nameErr("restore: a directory with newer entries is in the way of", old.name, syscall.ENOTEMPTY)
		}
		r.tell.inode(have)
		r.ch.drop(have, p)
		return r.dir(old, r.bind(p, old))
	}
	if have.isDir() {
		return r.dir(old, have)
	}
	r.made[old.v.Ino] = have
	if sameState(&have.v, &old.v) {
		r.res.Unchanged++
		return nil
	}
	r.changes(have, &old.v, p, old.name)
	v := r.ch.version(have)
	if v.Content != old.v.Content || v.Target != old.v.Target {
		v.Mtime = r.ch.now // fresh where bytes changed, so that build tools notice
	}
	v.Ctime = r.ch.now
	v.Mode, v.UID, v.GID, v.Xattrs = old.v.Mode, old.v.UID, old.v.GID, old.v.Xattrs
	v.Content, v.Size, v.Holes, v.Target, v.Rdev = old.v.Content, old.v.Size, old.v.Holes, old.v.Target, old.v.Rdev
	r.ch.item(store.OpWrite, have, p, old.name)
	r.res.Restored++
	return nil
}

// dir restores what a directory held; what it holds now and did not then stays.
func (r *restorer) dir(old *past, n *node) error {
	if !old.v.IsDir() {
		return nil
	}
	was := map[string]bool{}
	for _, child := range old.children {
		was[child.name] = true
		if err := r.entry(child, n); err != nil {
			return err
		}
	}
	for _, name := range n.dir.names() {
		if !was[name] {
			r.res.Kept++
		}
	}
	if v := &n.v; v.Mode != old.v.Mode || v.UID != old.v.UID || v.GID != old.v.GID {
		if up := r.f.nodeOf(n.parent); up != nil && n.ino != store.RootIno {
			r.changes(n, &old.v, up, n.name)
		}
		v := r.ch.version(n)
		v.Mode, v.UID, v.GID, v.Xattrs, v.Ctime = old.v.Mode, old.v.UID, old.v.GID, old.v.Xattrs, r.ch.now
		r.ch.item(store.OpSetattr, n, nil, "")
	}
	return nil
}

// changes notes for kernels that n, under one of its names, becomes v.
func (r *restorer) changes(n *node, v *store.Version, p *node, name string) {
	r.tell.changed(n, v, []store.Name{{Parent: p.ino, Name: name, Ino: n.ino, Type: n.v.Type()}})
	r.tell.inode(n)
}

// bind re-creates a name that is free: with a link to what its inode has become already, with its own inode, or, if a
// program may still hold that inode or it lives on elsewhere, with a new one.
func (r *restorer) bind(p *node, old *past) *node {
	n := r.made[old.v.Ino]
	linked := n != nil && !old.v.IsDir()
	if !linked {
		ino := old.v.Ino
		if r.f.nodeOf(ino) != nil || old.v.IsDir() || !r.removed[ino] {
			ino = r.f.st.NewIno()
		}
		v := old.v
		v.Ino, v.Nlink = ino, 0
		n = newNode(v)
		n.replaced = old.v.ID
		if old.v.IsDir() {
			n.dir = newDir()
		}
		if ino == old.v.Ino {
			n.replaced = 0
		} else {
			n.v.ID = 0
		}
		r.made[old.v.Ino] = n
	}
	v := r.ch.version(n)
	v.Ctime = r.ch.now
	up := r.ch.touch(p)
	kind := store.OpCreate
	switch {
	case old.v.IsDir():
		r.ch.version(n).Nlink = 2
		up.Nlink++
		kind = store.OpMkdir
	case linked:
		v = r.ch.version(n)
		v.Nlink++
		kind = store.OpLink
	default:
		r.ch.version(n).Nlink = 1
		if old.v.Type() == syscall.S_IFLNK {
			kind = store.OpSymlink
		}
	}
	was := EntryRef{}
	if e := p.dir.get(old.name); e != nil {
		was = r.f.ref(&store.Name{Ino: e.ino, Type: e.typ})
	}
	r.tell.entry(p, was, &store.Name{Parent: p.ino, Name: old.name, Ino: n.ino, Type: n.v.Type()})
	r.ch.bind(p, old.name, n)
	r.ch.item(kind, n, p, old.name)
	r.res.Restored++
	return n
}

// findRemoved looks up which past inodes have no name at the head of the timeline.
func (f *FS) findRemoved(ctx context.Context, list []*past, removed map[store.Ino]bool) error {
	if err := f.st.Apply(ctx, f.st.Last()); err != nil {
		return err
	}
	f.mu.Lock()
	view := f.view
	f.mu.Unlock()
	for _, p := range list {
		v, err := view.Version(ctx, p.v.Ino)
		if err != nil {
			return err
		}
		removed[p.v.Ino] = v.Nlink == 0
		if err := f.findRemoved(ctx, p.children, removed); err != nil {
			return err
		}
	}
	return nil
}

func sameState(a, b *store.Version) bool {
	return a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.Content == b.Content && a.Size == b.Size &&
		a.Target == b.Target && a.Rdev == b.Rdev && maps.EqualFunc(a.Xattrs, b.Xattrs, bytes.Equal)
}
