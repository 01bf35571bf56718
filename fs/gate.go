package fs

// enter lets a change pass, or waits while somebody holds the workspace. Every call that can change the tree or a file
// enters once, before it takes a lock, and leaves when it has been acknowledged. What only makes versions of bytes that
// were written before (close, fsync) does not: there are none while the workspace is held.
func (f *FS) enter(c *Call) {
	if !f.gate.TryRLock() {
		c.yield()
		f.gate.RLock()
	}
}

func (f *FS) leave() { f.gate.RUnlock() }
