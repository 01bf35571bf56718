package fs

import "syscall"

// enter lets a change pass, or waits while somebody holds the workspace. Every call that can change the tree or a file
// enters once, before it takes a lock, and leaves when it has been acknowledged. What only makes versions of bytes that
// were written before (close, fsync) does not: there are none while the workspace is held.
func (f *FS) enter(c *Call) {
	if !f.gate.TryRLock() {
		c.yield()
		f.gate.RLock()
	}
}

// enterNamed is enter for calls that take a name away. ESTALE (with the gate passed) says that the workspace was moved or
// edited while the call waited: the kernel has looked the name up before, and would take what it has there for what is
// gone: for good, in case of a directory. On ESTALE it looks again, once, and comes back.
func (f *FS) enterNamed(c *Call) error {
	if f.gate.TryRLock() {
		return nil
	}
	before := f.released.Load()
	c.yield()
	f.gate.RLock()
	if f.released.Load() != before {
		return syscall.ESTALE
	}
	return nil
}

func (f *FS) leave() { f.gate.RUnlock() }
