package fs

import (
	"syscall"

	"wsfs/store"
)

// Rename is renameat2(2) with flags 0, RenameNoReplace or RenameExchange.
func (f *FS) Rename(c *Call, parent store.Ino, name string, newParent store.Ino, newName string, flags uint32) error {
	if flags&^(RenameNoReplace|RenameExchange) != 0 || flags == RenameNoReplace|RenameExchange {
		return nameErr("rename", name, syscall.EINVAL)
	}
	if err := checkName("rename", newName); err != nil {
		return err
	}
	stale := f.enterNamed(c) != nil
	defer f.leave()
	if stale {
		return nameErr("rename", name, syscall.ESTALE)
	}
	who := c.who()
	f.joins(who.Session)
	r := rename{f: f, c: c, name: name, newName: newName}
	defer r.disjoin()
	defer r.letGo()
	for {
		// The content of a file comes before its name: what was written and not yet closed becomes a version first.
		if r.held == nil {
			if err := f.settleName(c, parent, name); err != nil {
				return err
			}
		}
		if flags&RenameExchange != 0 {
			if err := f.settleName(c, newParent, newName); err != nil {
				return err
			}
		}
		f.mu.Lock()
		done, err := r.find(parent, newParent, flags)
		if err != nil || done {
			f.mu.Unlock()
			return err
		}
		if !r.n.fresh && (flags&RenameExchange == 0 || !r.target.fresh) {
			again, err := r.meets(who, flags)
			if err != nil {
				f.mu.Unlock()
				return err
			}
			if !again && !r.holds() {
				break
			}
		}
		f.mu.Unlock() // somebody made a new file of that name meanwhile
		if r.held != nil && !r.still() {
			r.letGo()
		}
	}
	var slot store.Slot
	var err error
	if flags&RenameExchange != 0 {
		slot, err = r.exchange(who)
	} else {
		slot, err = r.move(who)
	}
	merge := err == nil && f.merges(r.n, 0)
	f.mu.Unlock()
	r.letGo()
	if err = f.finish(c, slot, err); err == nil && merge {
		f.mergeNow(c, r.n)
		f.mu.Lock()
		if f.merges(r.n, 0) {
			delete(f.tracks.unmerged, r.n) // what did not go stays a conflict
		}
		f.mu.Unlock()
	}
	return err
}

// rename holds what a rename found under the lock.
type rename struct {
	f             *FS
	c             *Call
	name, newName string
	from, to      *node // directories
	n, target     *node // target nil if newName is free

	met   *met // that n replaces; of the state asked
	asked metState
	joint *joint // what n becomes with what it meets; of the state asked
	joins int
	knows store.VersionID // of n: what that was is known, if it can be
	held  *file           // of n, if joint needs it: its lock is held
}

// find looks everything up and validates; done means there is nothing to do. Whenever the lock was released on the
// way it starts again.
func (r *rename) find(parent, newParent store.Ino, flags uint32) (done bool, err error) {
	f := r.f
	if err := f.writable("rename", r.name); err != nil {
		return false, err
	}
	for {
		if r.to, err = f.directory(r.c, newParent); err != nil {
			return false, err
		}
		if r.n, err = f.child(r.c, parent, r.name); err != nil {
			return false, err
		}
		r.from = f.known(parent)
		r.target = nil
		if r.to.dir == nil || r.from.dir == nil {
			continue
		}
		e := r.to.dir.get(r.newName)
		if e == nil {
			break
		}
		if r.target = f.nodeOf(e.ino); r.target == nil || r.target.isDir() && r.target.dir == nil {
			if r.target == nil {
				_, err = f.inode(r.c, e.ino)
			} else {
				_, err = f.directory(r.c, r.target.id)
			}
			if err != nil {
				return false, err
			}
			continue
		}
		break
	}
	return r.validate(flags)
}

func (r *rename) validate(flags uint32) (done bool, err error) {
	fail := func(errno syscall.Errno) (bool, error) { return false, nameErr("rename", r.newName, errno) }
	switch {
	case r.to.gone:
		return fail(syscall.ENOENT)
	case flags&RenameNoReplace != 0 && r.target != nil:
		return fail(syscall.EEXIST)
	case flags&RenameExchange != 0 && r.target == nil:
		return fail(syscall.ENOENT)
	case r.n == r.target:
		return true, nil
	case r.n.isDir() && r.f.within(r.to, r.n):
		return fail(syscall.EINVAL)
	}
	if flags&RenameExchange != 0 {
		if r.target.isDir() && r.f.within(r.from, r.target) {
			return fail(syscall.EINVAL)
		}
		return false, nil
	}
	if t := r.target; t != nil {
		switch {
		case t.isDir() && !r.n.isDir():
			return fail(syscall.EISDIR)
		case !t.isDir() && r.n.isDir():
			return fail(syscall.ENOTDIR)
		case t.isDir() && t.dir.live > 0:
			return fail(syscall.ENOTEMPTY)
		}
	}
	return false, nil
}

// within reports whether directory d is top or lies below it.
func (f *FS) within(d, top *node) bool {
	for d != nil {
		if d == top {
			return true
		}
		if d.v.Ino == store.RootIno {
			return false
		}
		d = f.nodeOf(d.parent)
	}
	return false
}

// move gives n its new name; a target loses it.
func (r *rename) move(who store.Attribution) (store.Slot, error) {
	f := r.f
	if r.target != nil && r.target.fresh {
		// A file that was never closed has no row to remove.
		f.unlinkFresh(r.to, r.target, r.newName, nil)
		r.target = nil
	}
	ch := f.begin(r.c, store.OpRename, who)
	born, ghost := r.n.birth, r.to.dir.ghosts[r.newName]
	if !r.n.isDir() {
		ch.op.Elide = f.temp(r.n, r.from, r.name, who, ch.now)
	}
	v := ch.version(r.n)
	v.Ctime = ch.now
	backup := r.n.isReg() && r.n.v.Nlink > 1 && f.goesBack(r.n) // ln -f
	switch {
	case backup:
	case r.target != nil:
		v.Replaced = r.target.v.ID
	case ghost != 0 && v.Replaced == 0:
		v.Replaced = ghost
	}
	ch.touch(r.from)
	ch.touch(r.to)
	if r.target != nil {
		ch.drop(r.target, r.to)
	}
	if r.n.isDir() && r.from != r.to {
		ch.version(r.from).Nlink--
		ch.version(r.to).Nlink++
	}
	ch.unbind(r.from, r.name)
	ch.bind(r.to, r.newName, r.n)
	it := ch.item(store.OpRename, r.n, r.to, r.newName)
	it.FromParent, it.FromName = r.from.v.Ino, r.name
	if r.target != nil {
		kind := store.OpUnlink
		if r.target.isDir() {
			kind = store.OpRmdir
		}
		ch.item(kind, r.target, r.to, r.newName)
	}
	target := r.target
	wrote, j := r.n.head(), r.joint
	if r.met != nil {
		f.clashes(ch, r.met, r.n, who, wrote, j)
		k := &ch.op.Conflicts[len(ch.op.Conflicts)-1]
		k.Parent, k.Name = r.to.ino, r.newName
	}
	if j != nil {
		j.puts(ch, ch.version(r.n))
	}
	ch.receipt = r.c.receipt()
	held := r.held != nil && j != nil && j.mixed // somebody has open what becomes something else
	if held {
		ch.apart, ch.wrote = r.held.by, wrote
	}
	was, had := r.n.v.ID, f.tracks.files[r.n.ino].known()
	slot, err := ch.commit()
	if err == nil && j != nil && j.mixed && ch.op.Elide == nil {
		f.leftName(r.n, r.from.dir, r.name, was, wrote, had, who)
	}
	if err == nil && (target != nil || r.met != nil) && f.tracks.on.Load() && who.Session != nil && r.n.isReg() {
		e := f.tracks.files[r.n.ino].of(who.Session.ID)
		knows := !backup && (e == nil && !f.foreign(r.n, who.Session.ID) || e != nil && e.content == wrote) // who moves what others wrote has not read that
		if knows {
			f.sees(r.n.ino, who.Session, r.n.v.ID, wrote)
		}
		if j != nil {
			f.joined(r.n, j, who, knows)
		}
		f.mergeLater(r.n, f.tracks.unmerged[target]...)
		delete(f.tracks.unmerged, target)
	}
	if err == nil && j != nil {
		if r.joint = nil; held {
			r.held.becomes(j.content, wrote)
		}
	}
	if err == nil && ch.op.Elide != nil {
		r.n.renamedTemp(born, ch.op, r.from, r.to, r.newName, ghost, target != nil, slot)
	}
	if err == nil && r.met != nil {
		r.n.birth = nil // a conflict names its bytes: from now on it is no temporary
	}
	if err == nil && target != nil {
		f.noteOrphan(target)
		f.dropOrphan(target)
	}
	return slot, err
}

// exchange swaps two names.
func (r *rename) exchange(who store.Attribution) (store.Slot, error) {
	ch := r.f.begin(r.c, store.OpExchange, who)
	for _, side := range [][2]*node{{r.n, r.target}, {r.target, r.n}} {
		v := ch.version(side[0])
		v.Ctime = ch.now
		if side[0].isReg() && side[1].isReg() { // each takes the name that the other had
			v.Replaced = side[1].v.ID
		}
	}
	ch.touch(r.from)
	ch.touch(r.to)
	if r.from != r.to && r.n.isDir() != r.target.isDir() {
		gain, lose := r.to, r.from
		if r.target.isDir() {
			gain, lose = r.from, r.to
		}
		ch.version(gain).Nlink++
		ch.version(lose).Nlink--
	}
	ch.bind(r.from, r.name, r.target)
	ch.bind(r.to, r.newName, r.n)
	it := ch.item(store.OpExchange, r.n, r.to, r.newName)
	it.FromParent, it.FromName = r.from.v.Ino, r.name
	it = ch.item(store.OpExchange, r.target, r.from, r.name)
	it.FromParent, it.FromName = r.to.v.Ino, r.newName
	ch.receipt = r.c.receipt()
	return ch.commit()
}
