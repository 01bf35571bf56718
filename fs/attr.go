package fs

import (
	"syscall"

	"wsfs/store"
)

// GetAttr is stat(2) of an inode, also of one without names that h holds open.
func (f *FS) GetAttr(c *Call, ino store.Ino, h *Handle) (Attr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h != nil {
		return h.n.attr(), nil
	}
	if _, r := f.coldFile(ino); r != nil {
		return r.attr(ino), nil
	}
	n, err := f.node(c, ino)
	if err != nil {
		return Attr{}, err
	}
	return n.attr(), nil
}

// SetAttr changes attributes. Permission was checked by the kernel. A new size through a handle is unsaved until the
// handle is closed; without one it is a version at once, because no close will come.
func (f *FS) SetAttr(c *Call, ino store.Ino, h *Handle, set SetAttr) (Attr, error) {
	if err := f.writable("set attributes", "a file"); err != nil {
		return Attr{}, err
	}
	f.enter(c)
	defer f.leave()
	who := c.who()
	if set.Size != nil {
		if err := f.setSize(c, ino, h, set, who); err != nil {
			return Attr{}, err
		}
	}
	f.mu.Lock()
	var n *node
	var err error
	if h != nil {
		n = h.n
	} else if n, err = f.node(c, ino); err != nil {
		f.mu.Unlock()
		return Attr{}, err
	}
	if c != nil && set == (SetAttr{KillPriv: set.KillPriv}) && n.isReg() && (c.UID == 0 || c.UID == n.v.UID) {
		// Nothing is asked for: chown(2) with -1 and -1, which takes setuid and setgid all the same. (Or a write that the kernel
		// is about to send, and which takes them anyway; that is why others get no EPERM.)
		if mode := withoutPrivileges(n.v.Mode); mode != n.v.Mode {
			set.Mode = &mode
		}
	}
	other := set.Mode != nil || set.UID != nil || set.GID != nil || set.Atime != nil || set.Mtime != nil
	if !other {
		a := n.attr()
		f.mu.Unlock()
		return a, nil
	}
	now := f.now().UnixNano()
	at := n
	if n.fresh || n.gone || n.stale {
		// In no op yet, or out of reach of any: memory is all there is.
		set.apply(&n.v, now)
		if !n.stale {
			f.ledger.node(n, c.receipt())
		}
		if n = f.live(c, n); n == nil {
			a := at.attr()
			f.mu.Unlock()
			return a, nil
		}
	}
	ch := f.begin(c, store.OpSetattr, who)
	set.apply(ch.version(n), now)
	ch.item(store.OpSetattr, n, nil, "")
	ch.receipt = c.receipt()
	slot, err := ch.commit()
	a := at.attr()
	f.mu.Unlock()
	return a, f.finish(c, slot, err)
}

// apply edits everything but the size.
func (set *SetAttr) apply(v *store.Version, now int64) {
	v.Ctime = now
	if set.Mode != nil {
		v.Mode = v.Mode&syscall.S_IFMT | *set.Mode&0o7777
	}
	if set.UID != nil {
		v.UID = *set.UID
	}
	if set.GID != nil {
		v.GID = *set.GID
	}
	if set.Atime != nil {
		v.Atime = *set.Atime
	}
	if set.Mtime != nil {
		v.Mtime = *set.Mtime
	}
	if chown := set.UID != nil || set.GID != nil; chown && !v.IsDir() {
		if set.KillPriv && set.Mode == nil {
			v.Mode = withoutPrivileges(v.Mode)
		}
		if _, ok := v.Xattrs[xattrCapability]; ok {
			v.Xattrs = withoutXattr(v.Xattrs, xattrCapability)
		}
	}
}

func (f *FS) setSize(c *Call, ino store.Ino, h *Handle, set SetAttr, who store.Attribution) error {
	owned := h != nil && h.file != nil
	if !owned {
		// truncate(2) by path: an open, a truncation and a close in one.
		var err error
		if h, err = f.open(c, ino, syscall.O_WRONLY, false); err != nil {
			return err
		}
		defer h.Release(c, 0)
	}
	n, fl := h.n, h.file
	if fl == nil {
		return inoErr("truncate", n, syscall.EINVAL)
	}
	fl.lock(c)
	defer fl.mu.Unlock()
	if err := f.cutForeign(c, h, fl, who); err != nil {
		return err
	}
	if err := f.goesOn(c, h, fl, who); err != nil {
		return err
	}
	same := *set.Size == fl.size
	if !same {
		if err := fl.truncate(f, c, *set.Size); err != nil {
			return err
		}
	}
	now := f.now().UnixNano()
	if !same {
		f.noteCut(h, fl, who, now, editDirt)
	}
	f.mu.Lock()
	fl.changed = fl.changed || !same
	f.soil(c, h, fl, now, who, !owned)
	f.clearPrivileges(n, set.KillPriv && set.UID == nil && set.GID == nil)
	f.mu.Unlock()
	if owned {
		return nil
	}
	return f.cut(c, n, fl, h)
}

// Access is access(2) by the mode bits, for transports that ask.
func (f *FS) Access(c *Call, ino store.Ino, mask uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.node(c, ino)
	if err != nil {
		return err
	}
	if mask&2 != 0 && f.opts.ReadOnly {
		return inoErr("access", n, syscall.EROFS)
	}
	mode := n.v.Mode
	if c.UID == 0 {
		if mask&1 != 0 && !n.isDir() && mode&0o111 == 0 {
			return inoErr("access", n, syscall.EACCES)
		}
		return nil
	}
	switch {
	case c.UID == n.v.UID:
		mode >>= 6
	case c.GID == n.v.GID || c.Groups != nil && c.Groups(n.v.GID):
		mode >>= 3
	}
	if mask&7&^(mode&7) != 0 {
		return inoErr("access", n, syscall.EACCES)
	}
	return nil
}
