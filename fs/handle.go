package fs

import (
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// Handle is one open regular file (or FIFO or socket node, which the kernel serves itself).
type Handle struct {
	f     *FS
	n     *node
	read  bool
	write bool

	// Guarded by FS.mu.
	who  store.Attribution // of the opener; replaced by the first writer after each cut
	file *file             // nil for handles that cannot write
	past bool              // writes past the pages of kernels; counted in node.past

	rules   *Rules          // for its session and the mount that it came by; nil: see rulesOf
	seen    store.VersionID // the version that its session was last seen reading; guarded by FS.mu
	refused bool            // what it wrote was refused: it writes nothing more; guarded by file.mu
	apart   *blob.Content   // what it wrote, if the file has become more than that with it; guarded by file.mu

	mount, fh uint64 // what it is called in the ledger; set once, before anybody else knows it; mount 0: it is not there
}

// ID is what kernels call the file behind the handle.
func (h *Handle) ID() store.Ino { return h.n.id }

// Open opens an inode with the flags of open(2).
func (f *FS) Open(c *Call, ino store.Ino, flags uint32) (*Handle, error) {
	return f.open(c, ino, flags, true)
}

// open is Open. waits: the kernel holds no directory meanwhile.
func (f *FS) open(c *Call, ino store.Ino, flags uint32, waits bool) (*Handle, error) {
	acc := flags & oAccMode
	write := acc != syscall.O_RDONLY || flags&oTrunc != 0
	read := acc != syscall.O_WRONLY && flags&oTrunc == 0
	asked := write || read && !f.opts.ReadOnly // a reader, too: what it saw decides what its session's writes mean
	var who store.Attribution
	if write {
		if err := f.writable("open", "a file for writing"); err != nil {
			return nil, err
		}
	}
	if asked {
		who = c.who()
		f.joins(who.Session)
	}
	f.mu.Lock()
	n, err := f.openable(c, ino)
	for err == nil && waits && f.hears(c, n) {
		n, err = f.openable(c, ino)
	}
	if err != nil {
		f.mu.Unlock()
		return nil, err
	}
	if write || asked && n.young(f.now()) {
		n.met(who)
	}
	f.readsContent(n, flags)
	h := f.newHandle(c, n, flags, who)
	if read && f.tracks.on.Load() {
		f.reads(n, who.Session)
		h.seen = n.v.ID
	}
	f.mu.Unlock()
	if flags&oTrunc != 0 && h.file != nil {
		if err := f.truncateOpen(c, h); err != nil {
			h.Release(c, 0)
			return nil, err
		}
	}
	return h, nil
}

// openable finds what Open may open. FS.mu is held, and may be released on the way.
func (f *FS) openable(c *Call, ino store.Ino) (*node, error) {
	n, err := f.node(c, ino)
	switch {
	case err != nil:
		return nil, err
	case n.isDir():
		return nil, inoErr("open", n, syscall.EISDIR)
	case n.v.Mode&syscall.S_IFMT == syscall.S_IFLNK:
		return nil, inoErr("open", n, syscall.ELOOP)
	}
	return n, nil
}

// newHandle counts an open of n. FS.mu is held.
func (f *FS) newHandle(c *Call, n *node, flags uint32, who store.Attribution) *Handle {
	acc := flags & oAccMode
	h := &Handle{
		f: f, n: n, who: who,
		read: acc != syscall.O_WRONLY, write: acc != syscall.O_RDONLY,
	}
	if c != nil {
		h.rules = f.rulesFor(who, c.Rules)
	}
	n.opens++
	if (h.write || flags&oTrunc != 0) && n.isReg() {
		h.file = n.content()
		h.file.writers++
	}
	return h
}

// truncateOpen is O_TRUNC: the file is empty from now on, but no version says so until it is written or closed.
func (f *FS) truncateOpen(c *Call, h *Handle) error {
	f.enter(c)
	defer f.leave()
	fl := h.file
	fl.lock(c)
	defer fl.mu.Unlock()
	if fl.size == 0 {
		f.mu.Lock()
		now := f.now().UnixNano()
		f.soil(c, h, fl, now, h.who, false)
		f.mu.Unlock()
		return nil
	}
	if err := f.cutForeign(c, h, fl, h.who); err != nil {
		return err
	}
	if err := f.mayTruncate(c, h, fl); err != nil {
		return err
	}
	if err := fl.truncate(f, c, 0); err != nil {
		return err
	}
	now := f.now().UnixNano()
	f.noteCut(h, fl, h.who, now, editDirt)
	f.mu.Lock()
	fl.changed = true
	f.soil(c, h, fl, now, h.who, false)
	f.mu.Unlock()
	return nil
}

// soil records that the file has bytes that no version has. Both locks are held.
func (f *FS) soil(c *Call, h *Handle, fl *file, now int64, who store.Attribution, written bool) {
	n := h.n
	n.v.Size, n.v.Mtime, n.v.Ctime, n.v.Holes = fl.size, now, now, fl.holes()
	if n.dirtySince == 0 {
		n.dirtySince = now
		f.dirty[n] = struct{}{}
	}
	fl.who, fl.by = who, h
	fl.written = fl.written || written
	f.announceInode(c, h.n)
}

// cutForeign makes a version of what another session or command has in the buffer. A daemon that died knew the same program's command by
// another number than this one does: what comes first from the same handle goes on, or there would be half of what it writes, and an open
// that truncated and is asked for again truncates once.
// fl.mu is held.
func (f *FS) cutForeign(c *Call, h *Handle, fl *file, who store.Attribution) error {
	f.mu.Lock()
	foreign := h.n.dirtySince != 0 && fl.changed && (!sameCommand(fl.who.Command, who.Command) || fl.who.Session != who.Session)
	by, goesOn := fl.by, fl.restored && (fl.by == h || !fl.written) && sameSession(fl.who.Session, who.Session)
	fl.restored = false
	f.mu.Unlock()
	if !foreign || goesOn {
		return nil
	}
	return f.cut(c, h.n, fl, by)
}

// Create makes and opens a regular file. It gets its row with its first version: at close, fsync, or before its name
// changes.
func (f *FS) Create(c *Call, parent store.Ino, name string, mode, flags uint32) (Attr, *Handle, error) {
	a, h, err := f.create(c, parent, name, mode, flags)
	if err != nil && flags&oExcl == 0 && Errno(err) == syscall.EEXIST {
		return f.openExisting(c, parent, name, flags)
	}
	return a, h, err
}

func (f *FS) create(c *Call, parent store.Ino, name string, mode, flags uint32) (Attr, *Handle, error) {
	f.enter(c)
	defer f.leave()
	who := c.who()
	f.joins(who.Session)
	f.mu.Lock()
	p, err := f.newEntry(c, "create", parent, name)
	if err != nil {
		f.mu.Unlock()
		return Attr{}, nil, err
	}
	now := f.now().UnixNano()
	n := f.newNode(c, p, syscall.S_IFREG|mode&0o7777, now)
	n.fresh, n.parent, n.name, n.replaced = true, p.ino, name, p.dir.ghosts[name]
	n.dirtySince = now
	f.adopt(n)
	f.dirty[n] = struct{}{}
	p.dir.set(name, n.ino, syscall.S_IFREG)
	p.dir.fresh++
	p.v.Mtime, p.v.Ctime = now, now
	f.dirTimes[p] = struct{}{}
	h := f.newHandle(c, n, flags, who)
	fl := n.content()
	fl.who, fl.by = who, h
	n.lookups++
	c.making(n.id)
	f.ledger.node(n, c.receipt())
	n.kept = true
	a := n.attr()
	f.announceEntry(c, parent, name)
	f.mu.Unlock()
	return a, h, nil
}

// openExisting is Create when somebody else made the file first.
func (f *FS) openExisting(c *Call, parent store.Ino, name string, flags uint32) (Attr, *Handle, error) {
	a, err := f.Lookup(c, parent, name)
	if err != nil {
		return Attr{}, nil, err
	}
	h, err := f.open(c, a.ID, flags, false)
	if err != nil {
		f.Forget(a.ID, 1)
		return Attr{}, nil, err
	}
	a, err = f.GetAttr(c, a.ID, h)
	return a, h, err
}

// Tmpfile is O_TMPFILE: a file without a name, gone with its last handle unless Link names it.
func (f *FS) Tmpfile(c *Call, parent store.Ino, mode, flags uint32) (Attr, *Handle, error) {
	f.enter(c)
	defer f.leave()
	who := c.who()
	if err := f.writable("create", "a file without a name"); err != nil {
		return Attr{}, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.directory(c, parent)
	if err != nil {
		return Attr{}, nil, err
	}
	now := f.now().UnixNano()
	n := f.newNode(c, p, syscall.S_IFREG|mode&0o7777, now)
	n.fresh, n.gone, n.v.Nlink, n.dirtySince = true, true, 0, now
	f.adopt(n)
	h := f.newHandle(c, n, flags, who)
	fl := n.content()
	fl.who, fl.by = who, h
	n.lookups++
	c.making(n.id)
	f.ledger.node(n, c.receipt())
	n.kept = true
	return n.attr(), h, nil
}

// linkFresh names an O_TMPFILE: one op with its first version and its first name.
func (f *FS) linkFresh(c *Call, n *node, parent store.Ino, name string, who store.Attribution) (Attr, error) {
	f.mu.Lock()
	fl := n.content()
	f.mu.Unlock()
	fl.lock(c)
	defer fl.mu.Unlock()
	f.mu.Lock()
	p, err := f.newEntry(c, "link", parent, name)
	if err == nil && !n.fresh {
		err = nameErr("link", name, syscall.EAGAIN)
	}
	if err != nil {
		f.mu.Unlock()
		return Attr{}, err
	}
	now := f.now().UnixNano()
	n.gone, n.v.Nlink, n.v.Ctime = false, 1, now
	n.parent, n.name, n.replaced = p.ino, name, p.dir.ghosts[name]
	p.dir.set(name, n.ino, syscall.S_IFREG)
	p.dir.fresh++
	p.v.Mtime, p.v.Ctime = now, now
	fl.who, fl.naming = who, c.receipt()
	c.making(n.id)
	n.dirtySince = now
	f.dirty[n] = struct{}{}
	f.mu.Unlock()
	err = f.cut(c, n, fl, nil)
	fl.naming = nil
	if err != nil {
		f.mu.Lock()
		if n.fresh {
			f.unlinkFresh(p, n, name, nil)
		}
		f.mu.Unlock()
		return Attr{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n.lookups++
	f.announceEntry(c, parent, name)
	return n.attr(), nil
}

// unlinkFresh takes the name of a file that no op knows. FS.mu is held.
func (f *FS) unlinkFresh(p, n *node, name string, r *Receipt) {
	p.dir.remove(name)
	p.dir.fresh--
	if n.replaced != 0 {
		p.dir.remember(name, n.replaced)
	}
	now := f.now().UnixNano()
	n.v.Nlink, n.v.Ctime, n.gone = 0, now, true
	p.v.Mtime, p.v.Ctime = now, now
	f.dirTimes[p] = struct{}{}
	f.ledger.node(n, r)
	if n.opens == 0 {
		f.ledger.ofNode(noteForget, n.id)
	}
	delete(f.dirty, n)
	f.dropOrphan(n)
}

// Release ends a handle: the last close of its open file description. What came after the last Flush (pages of a
// mapping, a truncation) becomes a version here.
func (h *Handle) Release(c *Call, _ uint64) {
	f, n := h.f, h.n
	f.locks.dropHandle(n.ino, h)
	f.mu.Lock()
	fl := n.file
	if fl == nil {
		n.opens--
		f.noteClosed(h)
		f.dropOrphan(n)
		f.rest(n)
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	fl.lock(c)
	defer fl.mu.Unlock()
	f.mu.Lock()
	mine := h.file == fl && n.dirtySince != 0 && (fl.by == h || fl.writers == 1)
	by := fl.by
	f.mu.Unlock()
	if mine {
		if err := f.cut(c, n, fl, by); err != nil {
			f.log.Error("make a version at the last close; the bytes stay in memory and are tried again", "error", err)
		}
	}
	f.mu.Lock()
	if h.file == fl && f.tracks.on.Load() && f.merges(n, 1) {
		f.mu.Unlock()
		fl.mu.Unlock()
		f.enter(c)
		f.mergeNow(c, n)
		f.leave()
		fl.lock(c)
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	if h.file == fl {
		if fl.writers--; fl.writers == 0 {
			delete(f.tracks.unmerged, n) // what did not go stays a conflict
		}
	}
	if fl.by == h {
		fl.by = nil
	}
	if n.draft.by == h {
		n.draft = draft{}
	}
	f.pastReleased(h)
	n.opens--
	f.noteClosed(h)
	f.leaveFile(n, fl)
	f.removeScratch(fl)
	f.dropOrphan(n)
	f.rest(n)
}

// leaveFile frees the buffers of a file that nobody may write any more, once its bytes are safe or out of reach. Both
// locks are held.
func (f *FS) leaveFile(n *node, fl *file) {
	unreachable := n.gone && n.opens == 0
	if n.file != fl || fl.writers > 0 || n.dirtySince != 0 && !unreachable {
		return
	}
	n.file, n.dirtySince = nil, 0
	// Of a file out of reach the rest is lost: what goes by its number finds the last that was made safe, and whole.
	n.v.Content, n.v.Size, n.v.Holes = fl.committed.Ref, fl.committed.Size, fl.committedHoles
	delete(f.dirty, n)
	fl.drop()
}

// Flush is close(2) of one descriptor. It returns when what the closer wrote would survive the end of this process.
//
// A version is made only when the process that opened the file closes it: a child that inherited a descriptor is not
// done with it. Its bytes are made safe all the same, as a draft that the opener's close amends. A truncation alone
// makes none, because `echo x > f` closes a duplicate before it writes.
func (h *Handle) Flush(c *Call, owner uint64) error {
	f, n, fl := h.f, h.n, h.file
	if f.locks.dropOwner(n.ino, owner) && h.mount != 0 {
		f.ledger.unlocked(n.ino, owner)
	}
	if fl == nil {
		return nil
	}
	f.mu.Lock()
	dirty := n.dirtySince != 0 && (!n.gone || n.stale) && (n.fresh || !fl.changed || fl.written)
	late := n.dirtySince == 0 && f.merges(n, 1)
	f.mu.Unlock()
	if late {
		f.enter(c)
		f.mergeNow(c, n)
		f.leave()
	}
	if !dirty {
		return f.flushed(c, n)
	}
	fl.lock(c)
	defer fl.mu.Unlock()
	f.mu.Lock()
	by := fl.by
	f.mu.Unlock()
	return f.cut(c, n, fl, by)
}

// flushed waits for the version that has what was written already: the timer's, or another closer's, who may be waiting for it still.
// If that one was told that it failed, so is this one: the file is in memory and nowhere else.
func (f *FS) flushed(c *Call, n *node) error {
	f.mu.Lock()
	slot := n.slot
	f.mu.Unlock()
	return f.finish(c, slot, nil)
}

// Fsync returns when the file's bytes, attributes and name would survive a power loss.
func (h *Handle) Fsync(c *Call, _ bool) error {
	f, n := h.f, h.n
	if f.opts.ReadOnly {
		return nil
	}
	f.mu.Lock()
	fl := n.file
	f.mu.Unlock()
	if fl != nil {
		fl.lock(c)
		f.mu.Lock()
		by := fl.by
		f.mu.Unlock()
		err := f.cut(c, n, fl, by)
		fl.mu.Unlock()
		if err != nil {
			return err
		}
	}
	f.mu.Lock()
	slot := n.slot
	n.met(store.Attribution{}) // somebody wants to find it, come what may
	f.mu.Unlock()
	c.yield()
	return f.st.Sync(slot)
}
