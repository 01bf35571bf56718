package fuse

import (
	"syscall"

	"wsfs/fs"
	"wsfs/store"
)

// privileged reports whether a file has setuid or setgid.
func (r *rawFS) privileged(c *caller, h *fs.Handle) bool {
	a, err := r.fs.GetAttr(&c.Call, h.ID(), h)
	return err == nil && a.Mode&(syscall.S_ISUID|syscall.S_ISGID) != 0
}

// dropPrivileges takes setuid and setgid from a file that an unprivileged caller changed, and reports whether it had any.
// Setgid without execution by the group stays with members of the group.
func (r *rawFS) dropPrivileges(c *caller, h *fs.Handle, a *fs.Attr) bool {
	mode := a.Mode &^ syscall.S_ISUID
	if mode&syscall.S_ISGID != 0 && (mode&syscall.S_IXGRP != 0 || a.GID != c.GID && !c.inGroup(a.GID)) {
		mode &^= syscall.S_ISGID
	}
	if mode == a.Mode {
		return false
	}
	perm := mode & 0o7777
	b, err := r.fs.SetAttr(&c.Call, h.ID(), h, fs.SetAttr{Mode: &perm})
	if err == nil {
		*a = b
	}
	return err == nil
}

// changedBy drops setuid and setgid after fallocate and copy_file_range, whose requests have no flag that says whether the
// caller may keep them, as writes have. Whoever is not root may not.
func (r *rawFS) changedBy(c *caller, h *fs.Handle, node uint64) {
	if c.UID == 0 || !r.privileged(c, h) {
		return
	}
	a, err := r.fs.GetAttr(&c.Call, h.ID(), h)
	if err == nil && r.dropPrivileges(c, h, &a) {
		r.tellMode(c, node)
	}
}

// tellMode makes the kernel ask for the mode again. After a write, an open that truncates, fallocate and copy_file_range it
// asks for size and times and goes on believing the mode, also when it executes the file. It has to be told before the reply, or the caller's next stat is sooner.
// Dropping attributes takes no lock of the kernel's, so this message alone may be sent from within a request, by a
// goroutine that has given the reader's role away.
func (r *rawFS) tellMode(c *caller, node uint64) {
	c.yield()
	told := notifier{write: r.transport.notify}
	if err := told.attributes(store.Ino(node)); err != nil {
		r.opts.Log.Warn("the kernel refused a notification", "what", "mode", "err", err)
	}
}
