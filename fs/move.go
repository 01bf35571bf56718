package fs

import (
	"context"
	"fmt"
	"syscall"

	"wsfs/store"
)

// Move makes the workspace stand on another point, as a rollback does: one op that moves the pointer, whatever the tree
// holds. In memory only what changes between the two points touched is looked at, and of that only what memory has. The
// next change begins a timeline there.
func (h *Held) Move(ctx context.Context, m Move) error {
	f := h.f
	fail := func(err error) error {
		return fmt.Errorf("move workspace %q to seq %d of timeline %d: %w", f.ws.Name, m.Seq, m.Timeline, err)
	}
	if m.Seq == store.MaxSeq {
		return fail(syscall.EINVAL)
	}
	mv := &mover{f: f, teller: newTeller(f), states: map[store.Ino]*state{}, was: map[store.DirName]store.Name{}, leads: map[store.DirName]*lead{}}
	var err error
	if mv.to, err = f.st.ViewAt(ctx, m.Timeline, m.Seq); err != nil {
		return fail(err)
	}
	timeline, seq := h.At()
	if mv.from, err = f.st.ViewAt(ctx, timeline, seq); err != nil {
		return fail(err)
	}
	if err := mv.collect(ctx); err != nil {
		return fail(err)
	}
	f.mu.Lock()
	f.loads++ // nothing is dropped from memory until the end
	defer func() {
		f.loads--
		f.mu.Unlock()
	}()
	for {
		inos, names := mv.missing()
		if len(inos) == 0 && len(names) == 0 {
			break
		}
		f.mu.Unlock()
		err := mv.fetch(ctx, inos, names)
		f.mu.Lock()
		if err != nil {
			return fail(err)
		}
	}
	ws := f.ws
	ws.Timeline = 0
	ws.Base, ws.BaseSeq = mv.to.Head()
	ws.Generation++
	f.st.Fault("rollback")
	slot, err := f.st.Append(&store.Op{
		Kind: store.OpWorkspace, Workspace: ws.ID, At: f.now().UnixNano(), Who: m.Who,
		Pointer: &store.Pointer{Workspace: ws, Why: m.Why},
	})
	if err != nil {
		return fail(err)
	}
	f.st.Fault("rollback appended")
	f.ws, f.view = ws, mv.to
	f.moves++
	mv.apply()
	h.moved = append(h.moved, mv.ev())
	f.mu.Unlock()
	err = f.st.Wait(slot)
	f.st.Fault("rolled back")
	f.mu.Lock()
	if err != nil {
		return fail(err)
	}
	return nil
}

// mover brings memory from one point to another.
type mover struct {
	*teller
	f        *FS
	from, to *store.View
	inos     map[store.Ino]bool
	names    map[store.DirName]bool
	states   map[store.Ino]*state         // of touched inodes that memory has
	was      map[store.DirName]store.Name // what names lead to before
	leads    map[store.DirName]*lead      // of touched names in directories that memory or a kernel has
}

// state is what an inode is at the point that is moved to.
type state struct {
	v     *store.Version // nil: it does not exist there
	names []store.Name
}

func (s *state) alive() bool { return s.v != nil && s.v.Nlink > 0 }

// lead is what a name leads to at both points.
type lead struct{ old, new store.Name }

// collect finds what changed between the two points.
func (mv *mover) collect(ctx context.Context) error {
	mv.inos, mv.names = map[store.Ino]bool{}, map[store.DirName]bool{}
	spans, err := mv.f.st.Apart(ctx, mv.from, mv.to)
	if err != nil {
		return err
	}
	for _, sp := range spans {
		err := mv.f.st.StepItems(ctx, sp, false, func(_ *store.Step, it *store.Item, _ *store.Version) error { // on all processors
			mv.inos[it.Ino] = true
			if it.Parent != 0 {
				mv.inos[it.Parent] = true
			}
			if it.Name != "" {
				mv.names[store.DirName{Parent: it.Parent, Name: it.Name}] = true
			}
			if it.FromName != "" {
				mv.inos[it.FromParent] = true
				mv.names[store.DirName{Parent: it.FromParent, Name: it.FromName}] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// missing is what memory has by now and the database was not asked about. FS.mu is held.
func (mv *mover) missing() (inos []store.Ino, names []store.DirName) {
	for ino := range mv.inos {
		if n := mv.f.nodeOf(ino); n != nil && mv.states[ino] == nil && !n.gone {
			inos = append(inos, ino)
		}
	}
	for key := range mv.names {
		if p := mv.f.nodeOf(key.Parent); p != nil && !p.gone && (p.dir != nil || mv.f.referenced(p)) && mv.leads[key] == nil {
			if _, ok := mv.was[key]; !ok && p.dir != nil {
				was := store.Name{Parent: key.Parent, Name: key.Name}
				if e := p.dir.get(key.Name); e != nil {
					was.Ino, was.Type = e.ino, e.typ
				}
				mv.was[key] = was // memory knows what it leads to, and the database might not know it yet
			}
			names = append(names, key)
		}
	}
	return inos, names
}

func (mv *mover) fetch(ctx context.Context, inos []store.Ino, names []store.DirName) error {
	versions, err := mv.to.Versions(ctx, inos)
	if err != nil {
		return err
	}
	named, err := mv.to.NamesOfAll(ctx, inos)
	if err != nil {
		return err
	}
	for i, ino := range inos {
		mv.states[ino] = &state{versions[i], named[ino]}
	}
	var ask []store.DirName
	for _, key := range names {
		if _, ok := mv.was[key]; !ok {
			ask = append(ask, key)
		}
	}
	was, err := mv.from.Lookups(ctx, ask)
	if err != nil {
		return err
	}
	for i, key := range ask {
		mv.was[key] = was[i]
	}
	is, err := mv.to.Lookups(ctx, names)
	if err != nil {
		return err
	}
	for i, key := range names {
		mv.leads[key] = &lead{mv.was[key], is[i]}
		// Older imports did not tell which inodes lost a name to what they brought.
		for _, ino := range []store.Ino{mv.was[key].Ino, is[i].Ino} {
			if ino != 0 {
				mv.inos[ino] = true
			}
		}
	}
	return nil
}

// apply changes memory. FS.mu is held.
func (mv *mover) apply() {
	f := mv.f
	for key, l := range mv.leads {
		if l.old.Ino != l.new.Ino {
			mv.entry(f.nodeOf(key.Parent), f.ref(&l.old), &l.new)
		}
	}
	for ino, s := range mv.states {
		if n := f.nodeOf(ino); n != nil && s.alive() && !n.gone {
			mv.changed(n, s.v, s.names)
		}
	}
	for ino := range mv.inos {
		if n := f.nodeOf(ino); n == nil {
			continue // forgotten meanwhile, or never known: it is loaded when somebody looks
		} else if n.gone {
			f.retire(n) // should the inode be there again, that is another node
		} else if s := mv.states[ino]; s != nil {
			mv.node(ino, s)
		}
	}
	for key, l := range mv.leads {
		p := f.nodeOf(key.Parent)
		if p == nil || p.dir == nil || p.gone {
			continue
		}
		delete(p.dir.ghosts, key.Name)
		if l.new.Ino == 0 {
			p.dir.remove(key.Name)
		} else {
			p.dir.set(key.Name, l.new.Ino, l.new.Type)
		}
	}
}

// node brings one inode of memory to what it is now.
func (mv *mover) node(ino store.Ino, s *state) {
	f := mv.f
	n := f.nodeOf(ino)
	switch {
	case !s.alive():
		mv.inode(n)
		n.gone, n.v.Nlink = true, 0
		n.empty()
		f.dropOrphan(n)
		return
	case n.isReg() && n.opens > 0 && (n.v.Content != s.v.Content || n.v.Size != s.v.Size):
		n = newNode(*s.v)
		f.adopt(n)
	default:
		mv.inode(n)
		n.v, n.replaced, n.draft = *s.v, 0, draft{}
		if n.opens == 0 {
			n.file = nil
		}
	}
	if len(s.names) > 0 {
		n.parent, n.name = s.names[0].Parent, s.names[0].Name
	}
}

// empty takes all names from a directory that is no more. FS.mu is held.
func (n *node) empty() {
	if !n.isDir() {
		return
	}
	if n.dir == nil {
		n.dir = newDir()
	}
	for _, name := range n.dir.names() {
		n.dir.remove(name)
	}
}
