package fs

// Nodes is how many inodes are in memory.
func (f *FS) Nodes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.nodes)
}
