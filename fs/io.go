package fs

import (
	"fmt"
	"io"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// ReadAt reads up to len(p) bytes from off; fewer only at the end of the file, where the error is nil too.
func (h *Handle) ReadAt(c *Call, p []byte, off int64) (int, error) {
	f, n := h.f, h.n
	f.mu.Lock()
	fl := n.file
	content := blob.Content{Ref: n.v.Content, Size: n.v.Size}
	if h.seen != n.v.ID && f.tracks.on.Load() {
		f.reads(n, h.who.Session)
		h.seen = n.v.ID
	}
	f.mu.Unlock()
	if fl == nil {
		if off >= content.Size {
			return 0, nil
		}
		p = p[:min(int64(len(p)), content.Size-off)]
		if content.Size <= blob.MaxBlob && !f.blobs.Cached(content, off, len(p)) {
			c.yield()
			f.expect(n)
		}
		if err := f.readContent(c, content, p, off); err != nil {
			return 0, fmt.Errorf("read %q: %w", f.label(n), err)
		}
		return len(p), nil
	}
	fl.lock(c)
	defer fl.mu.Unlock()
	h.rejoins() // it goes on from what it reads
	k, err := fl.readAt(f, c, p, off)
	if err == io.EOF {
		err = nil
	}
	return k, err
}

// WriteAt writes p at off. killPriv: the writer may not keep the setuid and setgid bits.
func (h *Handle) WriteAt(c *Call, p []byte, off int64, killPriv bool) (int, error) {
	return h.put(c, p, off, killPriv, false)
}

// Append writes p at the end, wherever that is by now. O_APPEND is a flag of the moment, not of the open: fcntl(2) turns
// it on and off.
func (h *Handle) Append(c *Call, p []byte, killPriv bool) (int, error) {
	return h.put(c, p, 0, killPriv, true)
}

// WriteCached writes back pages of a shared mapping: always at off, by nobody in particular.
func (h *Handle) WriteCached(c *Call, p []byte, off int64) (int, error) {
	return h.put(c, p, off, false, false)
}

func (h *Handle) put(c *Call, p []byte, off int64, killPriv, atEnd bool) (int, error) {
	f, n, fl := h.f, h.n, h.file
	if fl == nil {
		return 0, inoErr("write", n, syscall.EBADF)
	}
	f.enter(c)
	defer f.leave()
	who := f.writer(c, h)
	f.joins(who.Session)
	fl.lock(c)
	defer fl.mu.Unlock()
	if h.refused {
		return 0, inoErr("write", n, syscall.EBUSY)
	}
	if err := f.cutForeign(c, h, fl, who); err != nil {
		return 0, err
	}
	if err := f.goesOn(c, h, fl, who); err != nil {
		return 0, err
	}
	if atEnd {
		off = fl.size
	}
	if err := fl.write(f, c, p, off); err != nil {
		return 0, fmt.Errorf("write %q: %w", f.label(n), err)
	}
	now := f.now().UnixNano()
	if f.ledger != nil {
		n.kept = true
		f.ledger.wrote(h, who, now, off, p, c.receipt())
	}
	f.mu.Lock()
	fl.changed = true
	f.soil(c, h, fl, now, who, true)
	f.clearPrivileges(n, killPriv)
	f.mu.Unlock()
	return len(p), nil
}

// writer is whose bytes a write brings: the opener's, unless another process image or session uses the descriptor.
func (f *FS) writer(c *Call, h *Handle) store.Attribution {
	if c == nil || c.PID == 0 {
		f.mu.Lock()
		defer f.mu.Unlock()
		return h.who
	}
	who := c.who()
	if who.Session == nil && who.Process == nil {
		who = h.who
	}
	return who
}

// clearPrivileges is what write(2) and truncate(2) take from a file: file capabilities always, setuid and setgid if
// the writer may not keep them. FS.mu is held; the change becomes part of the version that the write leads to.
func (f *FS) clearPrivileges(n *node, kill bool) {
	mode, lost := n.v.Mode, false
	if kill {
		n.v.Mode = withoutPrivileges(n.v.Mode)
	}
	if _, ok := n.v.Xattrs[xattrCapability]; ok {
		n.v.Xattrs, lost = withoutXattr(n.v.Xattrs, xattrCapability), true
	}
	if (lost || mode != n.v.Mode) && !n.stale {
		f.ledger.node(n, nil)
	}
}

// withoutPrivileges drops setuid, and setgid where it means that and not mandatory locking.
func withoutPrivileges(mode uint32) uint32 {
	mode &^= syscall.S_ISUID
	if mode&syscall.S_IXGRP != 0 {
		mode &^= syscall.S_ISGID
	}
	return mode
}

// Flags of fallocate(2).
const (
	fallocKeepSize  = 0x01
	fallocPunchHole = 0x02
	fallocZeroRange = 0x10
)

// Fallocate reserves, punches or zeroes a range. Space is not reserved: a later write may still find the disk full.
func (h *Handle) Fallocate(c *Call, off, length uint64, mode uint32) error {
	f, n, fl := h.f, h.n, h.file
	if fl == nil {
		return inoErr("fallocate", n, syscall.EBADF)
	}
	if mode&^(fallocKeepSize|fallocPunchHole|fallocZeroRange) != 0 {
		return inoErr("fallocate", n, syscall.EOPNOTSUPP)
	}
	if length == 0 || off+length < off {
		return inoErr("fallocate", n, syscall.EINVAL)
	}
	to := off + length
	if to > maxSize {
		return inoErr("fallocate", n, syscall.EFBIG)
	}
	if mode&fallocPunchHole == 0 {
		if st, err := f.Statfs(); err == nil && length > st.Bavail*uint64(st.Bsize) {
			return inoErr("fallocate", n, syscall.ENOSPC)
		}
	}
	f.enter(c)
	defer f.leave()
	who := f.writer(c, h)
	fl.lock(c)
	defer fl.mu.Unlock()
	if err := f.cutForeign(c, h, fl, who); err != nil {
		return err
	}
	if err := f.goesOn(c, h, fl, who); err != nil {
		return err
	}
	grows := mode&fallocKeepSize == 0 && int64(to) > fl.size
	if mode&(fallocPunchHole|fallocZeroRange) == 0 && !grows {
		return nil
	}
	if mode&(fallocPunchHole|fallocZeroRange) != 0 {
		if err := fl.zero(f, c, int64(off), int64(length)); err != nil {
			return err
		}
	}
	if grows {
		if err := fl.truncate(f, c, int64(to)); err != nil {
			return err
		}
	}
	now := f.now().UnixNano()
	if mode&(fallocPunchHole|fallocZeroRange) != 0 {
		f.ledger.zeroed(h, who, now, int64(off), max(0, min(int64(length), fl.size-int64(off))))
	}
	f.noteCut(h, fl, who, now, editDirt|editWrote)
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.changed = true
	f.soil(c, h, fl, now, who, true)
	return nil
}

// CopyRange copies up to n bytes between open files and returns how many; fewer at the end of the source.
func (f *FS) CopyRange(c *Call, src *Handle, srcOff int64, dst *Handle, dstOff int64, n uint64) (uint32, error) {
	if n > blob.MaxBlob {
		c.yield()
	}
	if c != nil { // many writes: who asks again has all of them done again, at the same places
		c.Receipt = nil
	}
	buf := make([]byte, min(n, 1<<20))
	var done uint64
	limit := min(n, 64<<20)
	for done < limit {
		k, err := src.ReadAt(c, buf[:min(uint64(len(buf)), limit-done)], srcOff+int64(done))
		if err != nil {
			return uint32(done), err
		}
		if k == 0 {
			break
		}
		// Never through O_APPEND: copy_file_range(2) refuses such descriptors and names its offset. Setuid and setgid are
		// taken by who knows whether the caller may keep them.
		if k, err = dst.put(c, buf[:k], dstOff+int64(done), false, false); err != nil {
			return uint32(done), err
		}
		done += uint64(k)
	}
	return uint32(done), nil
}

// Seek is lseek(2) with SEEK_DATA (3) or SEEK_HOLE (4); other ways of seeking are the kernel's.
func (h *Handle) Seek(c *Call, off int64, whence uint32) (int64, error) {
	const seekData, seekHole = 3, 4
	f, n := h.f, h.n
	if whence != seekData && whence != seekHole {
		return 0, inoErr("lseek", n, syscall.EINVAL)
	}
	f.mu.Lock()
	fl, content := n.file, blob.Content{Ref: n.v.Content, Size: n.v.Size}
	f.mu.Unlock()
	var valid extents
	size, limit := content.Size, content.Size
	if fl != nil {
		fl.lock(c)
		valid, size, limit, content = fl.unpunched(), fl.size, fl.limit, fl.base
		if fl.inMem && fl.changed {
			valid = extents{{Off: 0, Len: size}}
		}
		fl.mu.Unlock()
	}
	if off < 0 || off >= size {
		return 0, inoErr("lseek", n, syscall.ENXIO)
	}
	data := valid
	if limit > 0 && content.Size > 0 {
		c.yield()
		var err error
		if data, err = f.dataOf(content, min(limit, size), valid); err != nil {
			return 0, err
		}
	}
	e, ok := data.next(off)
	switch {
	case whence == seekData && !ok:
		return 0, inoErr("lseek", n, syscall.ENXIO)
	case whence == seekData:
		return e.Off, nil
	case !ok || e.Off > off:
		return off, nil
	}
	return min(end(e), size), nil
}
