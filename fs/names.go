package fs

import (
	"fmt"
	"syscall"

	"wsfs/store"
)

// checkName refuses what cannot be a directory entry.
func checkName(op, name string) error {
	switch {
	case len(name) > store.MaxName:
		return nameErr(op, name, syscall.ENAMETOOLONG)
	case name == "" || name == "." || name == "..":
		return nameErr(op, name, syscall.EINVAL)
	}
	return nil
}

// writable refuses changes of a read-only workspace.
func (f *FS) writable(op, name string) error {
	if f.opts.ReadOnly || f.closed {
		return nameErr(op, name, syscall.EROFS)
	}
	return nil
}

// Lookup finds name in a directory and counts one reference to it.
func (f *FS) Lookup(c *Call, parent store.Ino, name string) (Attr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readsName(parent, name)
	if p := f.known(parent); p != nil && p.dir == nil && p.loading == nil && p.isDir() && len(name) <= store.MaxName && p.ino == p.id {
		switch n, ok, err := f.ask(c, p, name); {
		case err != nil:
			return Attr{}, err
		case ok && n == nil:
			return Attr{}, nameErr("lookup", name, syscall.ENOENT)
		case ok:
			n.lookups++
			return n.attr(), nil
		case p.dir != nil && p.dir.unused:
			f.used(p)
		}
	}
	if p := f.known(parent); p != nil && p.dir != nil {
		at := p.dir.find(name)
		if at >= 0 && p.dir.order[at].cold == 0 && !f.has(p.dir.order[at].ino) {
			if err := f.attributes(c, p, at, 1); err != nil {
				return Attr{}, err
			}
		}
	}
	if p := f.known(parent); p != nil && p.dir != nil {
		if e := p.dir.get(name); e != nil && e.cold != 0 {
			r := p.dir.coldOf(e)
			p.dir.cold.refer(r, 1)
			return r.attr(e.ino), nil
		}
	}
	n, err := f.child(c, parent, name)
	if err != nil {
		return Attr{}, err
	}
	n.lookups++
	return n.attr(), nil
}

// child is the node that name leads to. It may release FS.mu on the way.
func (f *FS) child(c *Call, parent store.Ino, name string) (*node, error) {
	if len(name) > store.MaxName {
		return nil, nameErr("lookup", name, syscall.ENAMETOOLONG)
	}
	for {
		p, err := f.directory(c, parent)
		if err != nil {
			return nil, err
		}
		at := p.dir.find(name)
		if at < 0 {
			return nil, nameErr("lookup", name, syscall.ENOENT)
		}
		if n := f.nodeOf(p.dir.order[at].ino); n != nil {
			n.found(p, name)
			return n, nil
		}
		if err := f.attributes(c, p, at, 1); err != nil {
			return nil, err
		}
	}
}

// found notes where an inode is that was loaded by its number alone.
func (n *node) found(p *node, name string) {
	if n.name == "" && !n.gone && n.ino != store.RootIno {
		n.parent, n.name = p.ino, name
	}
}

// newEntry is the common start of what makes a name: the loaded parent, with name free in it. who is resolved before
// the lock is taken, since that may wait for the caller's process.
func (f *FS) newEntry(c *Call, op string, parent store.Ino, name string) (*node, error) {
	if err := f.writable(op, name); err != nil {
		return nil, err
	}
	if err := checkName(op, name); err != nil {
		return nil, err
	}
	p, err := f.directory(c, parent)
	if err != nil {
		return nil, err
	}
	if p.gone {
		return nil, nameErr(op, name, syscall.ENOENT)
	}
	if p.dir.get(name) != nil {
		return nil, nameErr(op, name, syscall.EEXIST)
	}
	return p, nil
}

// newNode is an inode that nothing names yet, with owner and setgid as mkdir(2) and open(2) inherit them.
func (f *FS) newNode(c *Call, p *node, mode uint32, now int64) *node {
	n := newNode(store.Version{
		Ino: f.st.NewIno(), Mode: mode, UID: c.UID, GID: c.GID, Nlink: 1,
		Mtime: now, Ctime: now, Atime: now,
	})
	if p.v.Mode&syscall.S_ISGID != 0 {
		n.v.GID = p.v.GID
		if mode&syscall.S_IFMT == syscall.S_IFDIR {
			n.v.Mode |= syscall.S_ISGID
		}
	}
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		n.v.Nlink = 2
		n.dir = newDir()
	}
	return n
}

// make appends the op that gives birth to an inode other than a regular file.
func (f *FS) make(c *Call, kind store.OpKind, parent store.Ino, name string, mode uint32, fill func(*store.Version)) (Attr, error) {
	f.enter(c)
	defer f.leave()
	who := c.who()
	f.mu.Lock()
	p, err := f.newEntry(c, "make", parent, name)
	if err != nil {
		f.mu.Unlock()
		return Attr{}, err
	}
	ch := f.begin(c, kind, who)
	n := f.newNode(c, p, mode, ch.now)
	fill(&n.v)
	n.replaced = p.dir.ghosts[name]
	ch.version(n)
	up := ch.touch(p)
	if n.isDir() {
		up.Nlink++
	}
	ch.bind(p, name, n)
	ch.item(kind, n, p, name)
	ch.receipt, ch.made = c.receipt(), n.id
	slot, err := ch.commit()
	if err == nil {
		n.lookups++
	}
	a := n.attr()
	f.mu.Unlock()
	return a, f.finish(c, slot, err)
}

// Mkdir makes a directory.
func (f *FS) Mkdir(c *Call, parent store.Ino, name string, mode uint32) (Attr, error) {
	return f.make(c, store.OpMkdir, parent, name, syscall.S_IFDIR|mode&0o7777, func(*store.Version) {})
}

// Mknod makes a FIFO, a socket, an empty regular file or a device node. The kernel lets only privileged callers make
// device nodes, and a mount opens none unless it was mounted with `-o dev`.
func (f *FS) Mknod(c *Call, parent store.Ino, name string, mode, rdev uint32) (Attr, error) {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFREG, 0, syscall.S_IFIFO, syscall.S_IFSOCK, syscall.S_IFCHR, syscall.S_IFBLK:
	default:
		return Attr{}, nameErr("mknod", name, syscall.EINVAL)
	}
	if mode&syscall.S_IFMT == 0 {
		mode |= syscall.S_IFREG
	}
	kind := store.OpMknod
	if mode&syscall.S_IFMT == syscall.S_IFREG {
		kind = store.OpCreate
	}
	return f.make(c, kind, parent, name, mode&(syscall.S_IFMT|0o7777), func(v *store.Version) { v.Rdev = rdev })
}

// Symlink makes a symbolic link.
func (f *FS) Symlink(c *Call, parent store.Ino, name, target string) (Attr, error) {
	switch { // as the kernel says by itself: POSIX has no empty links, and Linux no path of more than a page
	case target == "":
		return Attr{}, fmt.Errorf("make a symbolic link to nothing: %w", syscall.ENOENT)
	case len(target) > 4095:
		return Attr{}, fmt.Errorf("make a symbolic link to a path of %d bytes: %w", len(target), syscall.ENAMETOOLONG)
	}
	return f.make(c, store.OpSymlink, parent, name, syscall.S_IFLNK|0o777, func(v *store.Version) {
		v.Target, v.Size = target, int64(len(target))
	})
}

// Readlink is the target of a symbolic link.
func (f *FS) Readlink(c *Call, ino store.Ino) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.node(c, ino)
	if err != nil {
		return "", err
	}
	if n.v.Mode&syscall.S_IFMT != syscall.S_IFLNK {
		return "", inoErr("readlink", n, syscall.EINVAL)
	}
	f.readsContent(n, syscall.O_RDONLY)
	return n.v.Target, nil
}

// Link gives an inode one more name. An O_TMPFILE gets its first, and with it its first version.
func (f *FS) Link(c *Call, ino, parent store.Ino, name string) (Attr, error) {
	f.enter(c)
	defer f.leave()
	who := c.who()
	if err := f.settle(c, ino); err != nil {
		return Attr{}, err
	}
	f.joins(who.Session)
	f.mu.Lock()
	n, p, m, err := f.linkMeets(c, who, ino, parent, name)
	if err != nil {
		f.mu.Unlock()
		return Attr{}, err
	}
	if n.fresh {
		f.mu.Unlock()
		return f.linkFresh(c, n, parent, name, who)
	}
	ch := f.begin(c, store.OpLink, who)
	v := ch.version(n)
	v.Nlink++
	v.Ctime = ch.now
	if v.Replaced == 0 && !f.goesBack(n) {
		v.Replaced = p.dir.ghosts[name]
	}
	ch.touch(p)
	ch.bind(p, name, n)
	ch.item(store.OpLink, n, p, name)
	if m != nil {
		f.clashes(ch, m, n, who, n.head(), nil)
		k := &ch.op.Conflicts[len(ch.op.Conflicts)-1]
		k.Parent, k.Name = p.ino, name
	}
	ch.receipt, ch.made = c.receipt(), n.id
	slot, err := ch.commit()
	if err == nil {
		n.lookups++
		if m != nil {
			delete(f.tracks.unmerged, n) // its other name has the content, too: it stays a conflict
		}
	}
	a := n.attr()
	f.mu.Unlock()
	return a, f.finish(c, slot, err)
}

// linkMeets is linkable, and whom a temporary meets that gets a name which its session has taken from something. FS.mu is held, and
// released meanwhile.
func (f *FS) linkMeets(c *Call, who store.Attribution, ino, parent store.Ino, name string) (n, p *node, m *met, err error) {
	var asked metState
	var knows store.VersionID
	for {
		if n, p, err = f.linkable(c, ino, parent, name); err != nil || n.fresh || p.dir.ghosts[name] == 0 {
			return n, p, nil, err
		}
		if knows != n.v.ID {
			knows = n.v.ID
			if again, err := f.knowPast(c, n); err != nil {
				return nil, nil, nil, err
			} else if again {
				continue
			}
		}
		w := f.nameWrite(c, who, n, nil, p, name)
		if w == nil || n.birth == nil || n.v.Nlink > 1 { // another name for what is there (a backup) is no save
			return n, p, nil, nil
		}
		state := metState{nil, n, w.version, n.v.ID, w.head, w.content}
		if asked == state {
			break
		}
		asked = state
		if m, _, err = f.meets(c, w); err != nil {
			return nil, nil, nil, err
		}
	}
	if m == nil || m.policy != PolicyReject {
		return n, p, m, nil
	}
	n.birth, n.shared = nil, true // its bytes stay
	k := f.clash(m, n, n.head())
	k.Parent, k.Name = p.ino, name
	return nil, nil, nil, f.keepNameless(c, who, "link", m, k)
}

// linkable finds the inode that is to get a name, and the directory of that. FS.mu is held.
func (f *FS) linkable(c *Call, ino, parent store.Ino, name string) (n, p *node, err error) {
	if n, err = f.node(c, ino); err != nil {
		return nil, nil, err
	}
	if n.stale {
		if n = f.live(c, n); n == nil {
			return nil, nil, fmt.Errorf("link: the file is no more: %w", syscall.ENOENT)
		}
	}
	if p, err = f.newEntry(c, "link", parent, name); err != nil {
		return nil, nil, err
	}
	switch {
	case n.isDir():
		err = inoErr("link", n, syscall.EPERM)
	case n.gone && (!n.fresh || n.opens == 0): // what nobody holds open any more has lost its bytes
		err = inoErr("link", n, syscall.ENOENT)
	case n.v.Nlink >= 65000: // LINK_MAX of ext4
		err = inoErr("link", n, syscall.EMLINK)
	}
	return n, p, err
}

// Unlink removes a name that is not a directory. The inode lives on while it has names or open handles.
func (f *FS) Unlink(c *Call, parent store.Ino, name string) error {
	return f.remove(c, parent, name, store.OpUnlink)
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(c *Call, parent store.Ino, name string) error {
	return f.remove(c, parent, name, store.OpRmdir)
}

func (f *FS) remove(c *Call, parent store.Ino, name string, kind store.OpKind) error {
	err := f.enterNamed(c)
	defer f.leave()
	if err != nil {
		return nameErr("remove", name, syscall.ESTALE)
	}
	who := c.who()
	f.mu.Lock()
	p, n, err := f.victim(c, parent, name, kind == store.OpRmdir)
	if err != nil {
		f.mu.Unlock()
		return err
	}
	if n.fresh {
		f.unlinkFresh(p, n, name, c.receipt())
		f.mu.Unlock()
		return nil
	}
	ch := f.begin(c, kind, who)
	var ended func(temporary bool)
	ch.op.Elide, ended = f.removeTemp(n, p, name, who, ch.now)
	ch.drop(n, p)
	ch.unbind(p, name)
	ch.item(kind, n, p, name)
	ch.receipt = c.receipt()
	slot, err := ch.commit()
	ended(err == nil && ch.op.Elide != nil)
	if err == nil {
		f.noteOrphan(n)
		f.dropOrphan(n)
	}
	f.mu.Unlock()
	return f.finish(c, slot, err)
}

// victim finds what is about to lose its name and checks that it may.
func (f *FS) victim(c *Call, parent store.Ino, name string, wantDir bool) (p, n *node, err error) {
	if err := f.writable("remove", name); err != nil {
		return nil, nil, err
	}
	for {
		if n, err = f.child(c, parent, name); err != nil {
			return nil, nil, err
		}
		if n.isDir() != wantDir {
			if wantDir {
				return nil, nil, nameErr("rmdir", name, syscall.ENOTDIR)
			}
			return nil, nil, nameErr("unlink", name, syscall.EISDIR)
		}
		if n.isDir() && n.dir == nil {
			if _, err = f.directory(c, n.id); err != nil {
				return nil, nil, err
			}
			continue // the lock was released: look again
		}
		if n.isDir() && n.dir.live > 0 {
			return nil, nil, nameErr("rmdir", name, syscall.ENOTEMPTY)
		}
		return f.known(parent), n, nil
	}
}

// drop takes one name from n, whose directory p is.
func (ch *change) drop(n, p *node) {
	up := ch.touch(p)
	if n.isDir() {
		up.Nlink--
	}
	v := ch.version(n)
	v.Ctime = ch.now
	v.Nlink--
	if n.isDir() {
		v.Nlink = 0
	}
}
