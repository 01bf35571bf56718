package fs

import (
	"maps"
	"slices"
	"strings"
	"syscall"

	"wsfs/store"
)

const (
	xattrCapability = "security.capability"
	xattrNameMax    = 255
	xattrSizeMax    = 64 << 10 // XATTR_SIZE_MAX of Linux
	xattrTotalMax   = 1 << 20  // of one inode: every version carries them all
	xattrListMax    = 64 << 10 // XATTR_LIST_MAX: of more names nobody can get the list
	xattrCreate     = 1
	xattrReplace    = 2
)

// withoutXattr is a copy without one name: the map of a version is never edited.
func withoutXattr(m map[string][]byte, name string) map[string][]byte {
	m = maps.Clone(m)
	delete(m, name)
	if len(m) == 0 {
		return nil
	}
	return m
}

// posixACL names the attributes by which the kernel would store access control lists; mounts do not have them, and
// storing what nobody enforces would be a false promise.
func posixACL(name string) bool { return strings.HasPrefix(name, "system.posix_acl_") }

// GetXattr is getxattr(2); the value must not be changed.
func (f *FS) GetXattr(c *Call, ino store.Ino, name string) ([]byte, error) {
	if posixACL(name) {
		return nil, nameErr("getxattr", name, syscall.EOPNOTSUPP)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, r := f.coldFile(ino); r != nil { // has none
		return nil, nameErr("getxattr", name, syscall.ENODATA)
	}
	n, err := f.node(c, ino)
	if err != nil {
		return nil, err
	}
	v, ok := n.v.Xattrs[name]
	if !ok {
		return nil, nameErr("getxattr", name, syscall.ENODATA)
	}
	return v, nil
}

// ListXattr is the names in order.
func (f *FS) ListXattr(c *Call, ino store.Ino) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, r := f.coldFile(ino); r != nil {
		return nil, nil
	}
	n, err := f.node(c, ino)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(n.v.Xattrs)), nil
}

// SetXattr is setxattr(2) with XATTR_CREATE (1) or XATTR_REPLACE (2) in flags.
func (f *FS) SetXattr(c *Call, ino store.Ino, name string, value []byte, flags uint32) error {
	switch {
	case posixACL(name):
		return nameErr("setxattr", name, syscall.EOPNOTSUPP)
	case !knownSpace(name):
		return nameErr("setxattr", name, syscall.EOPNOTSUPP)
	case strings.HasSuffix(name, ".") && strings.Count(name, ".") == 1:
		return nameErr("setxattr", name, syscall.EINVAL)
	case len(name) > xattrNameMax:
		return nameErr("setxattr", name, syscall.ERANGE)
	case len(value) > xattrSizeMax:
		return nameErr("setxattr", name, syscall.E2BIG)
	}
	return f.editXattrs(c, ino, store.OpSetxattr, name, func(m map[string][]byte) error {
		_, have := m[name]
		switch {
		case have && flags&xattrCreate != 0:
			return nameErr("setxattr", name, syscall.EEXIST)
		case !have && flags&xattrReplace != 0:
			return nameErr("setxattr", name, syscall.ENODATA)
		}
		total, list := len(name)+len(value), len(name)+1
		for k, v := range m {
			if k != name {
				total += len(k) + len(v)
				list += len(k) + 1
			}
		}
		if total > xattrTotalMax || list > xattrListMax {
			return nameErr("setxattr", name, syscall.ENOSPC)
		}
		m[name] = append([]byte{}, value...)
		return nil
	})
}

// knownSpace reports whether name is in a namespace of xattr(7). The kernel asks us for every other name, too.
func knownSpace(name string) bool {
	for _, space := range []string{"user.", "trusted.", "security.", "system."} {
		if strings.HasPrefix(name, space) {
			return true
		}
	}
	return false
}

// RemoveXattr is removexattr(2).
func (f *FS) RemoveXattr(c *Call, ino store.Ino, name string) error {
	if posixACL(name) {
		return nameErr("removexattr", name, syscall.EOPNOTSUPP)
	}
	return f.editXattrs(c, ino, store.OpRemovexattr, name, func(m map[string][]byte) error {
		if _, ok := m[name]; !ok {
			return nameErr("removexattr", name, syscall.ENODATA)
		}
		delete(m, name)
		return nil
	})
}

func (f *FS) editXattrs(c *Call, ino store.Ino, kind store.OpKind, name string, edit func(map[string][]byte) error) error {
	if err := f.writable("set attribute", name); err != nil {
		return err
	}
	f.enter(c)
	defer f.leave()
	who := c.who()
	f.mu.Lock()
	n, err := f.node(c, ino)
	if err != nil {
		f.mu.Unlock()
		return err
	}
	m := maps.Clone(n.v.Xattrs)
	if m == nil {
		m = map[string][]byte{}
	}
	if err := edit(m); err != nil {
		f.mu.Unlock()
		return err
	}
	if len(m) == 0 {
		m = nil
	}
	now := f.now().UnixNano()
	if n.fresh || n.gone || n.stale {
		n.v.Xattrs, n.v.Ctime = m, now
		if !n.stale {
			f.ledger.node(n, c.receipt())
		}
		if n = f.live(c, n); n == nil {
			f.mu.Unlock()
			return nil
		}
	}
	ch := f.begin(c, kind, who)
	v := ch.version(n)
	v.Xattrs, v.Ctime = m, now
	ch.item(kind, n, nil, "")
	ch.receipt = c.receipt()
	slot, err := ch.commit()
	f.mu.Unlock()
	return f.finish(c, slot, err)
}
