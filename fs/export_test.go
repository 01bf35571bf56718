package fs

import (
	"io"
	"os"
	"syscall"
)

// Nodes is how many inodes are in memory.
func (f *FS) Nodes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inMemory()
}

// Evict does now what is done every few seconds.
func (f *FS) Evict() { f.evict() }

// Cold is how many of the inodes in memory have no node.
func (f *FS) Cold() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.cold)
}

// SetMaxNodes sets Options.MaxNodes.
func (f *FS) SetMaxNodes(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opts.MaxNodes, f.manyNodes = n, n/manyNodes
}

// Unsettled is how many inodes have a provisional content.
func (f *FS) Unsettled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.unsettled)
}

// ReadingAhead reports whether directories are being read ahead.
func (f *FS) ReadingAhead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dirsAhead.running > 0
}

// Listed is how many directories are loaded.
func (f *FS) Listed() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, nd := range f.nodes {
		if nd.dir != nil {
			n++
		}
	}
	return n
}

// SetDirLimits sets how many entries are read with their attributes, how many names for a lookup, how many lookups ask for one name, and
// whether the rest is read behind a listing. Nothing else may be running.
func (f *FS) SetDirLimits(whole, large int, asks uint16, fill bool) {
	f.limits = dirLimits{whole, large, asks, fill}
}

// ReadBeneath reads a file below dir as an import does; step: as on kernels without openat2(2).
func ReadBeneath(dir, rel string, step bool) ([]byte, error) {
	b, err := openBeneath(dir)
	if err != nil {
		return nil, err
	}
	defer b.close()
	b.step = step
	fd, err := b.open(rel, syscall.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	return io.ReadAll(f)
}
