package fs

import (
	"slices"
	"syscall"

	"wsfs/store"
)

// maxReads is how much of what was read is remembered. Whoever reads more counts as having read everything.
const maxReads = 1 << 20

// Reads is what was read of a live workspace, by whomever, since WatchReads.
type Reads struct {
	Contents []store.Ino     // files opened for reading, links whose target was asked for
	Listings []store.Ino     // directories that were opened
	Names    []store.DirName // names that were looked up, whether or not they were there
	All      bool            // it was more than can be remembered
}

// reading remembers reads. Kernels ask once and answer from their caches from then on, so only one that is mounted after it began makes
// it whole. FS.mu guards it.
type reading struct {
	contents, listings map[store.Ino]struct{}
	names              map[store.DirName]struct{}
	all                bool
}

// WatchReads begins to remember what is read. It is to be called before the workspace is mounted.
func (f *FS) WatchReads() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reading == nil {
		f.reading = &reading{contents: map[store.Ino]struct{}{}, listings: map[store.Ino]struct{}{}, names: map[store.DirName]struct{}{}}
	}
}

// Reads is what was read since WatchReads; false if that was never called in this process.
func (f *FS) Reads() (Reads, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.reading
	if r == nil {
		return Reads{}, false
	}
	out := Reads{All: r.all}
	for ino := range r.contents {
		out.Contents = append(out.Contents, ino)
	}
	for ino := range r.listings {
		out.Listings = append(out.Listings, ino)
	}
	for k := range r.names {
		out.Names = append(out.Names, k)
	}
	slices.Sort(out.Contents)
	slices.Sort(out.Listings)
	return out, true
}

// room makes sure that there is place for one more. FS.mu is held.
func (r *reading) room() bool {
	if len(r.contents)+len(r.listings)+len(r.names) >= maxReads {
		r.all = true
	}
	return !r.all
}

// readsName notes a lookup. FS.mu is held.
func (f *FS) readsName(parent store.Ino, name string) {
	if r := f.reading; r != nil && r.room() {
		if p := f.known(parent); p != nil {
			parent = p.ino
		}
		r.names[store.DirName{Parent: parent, Name: name}] = struct{}{}
	}
}

// readsContent notes that a file is opened in a way that lets its content be read, or a link asked where it leads. FS.mu is held.
func (f *FS) readsContent(n *node, flags uint32) {
	if r := f.reading; r != nil && flags&oAccMode != syscall.O_WRONLY && flags&oTrunc == 0 && r.room() {
		r.contents[n.ino] = struct{}{}
	}
}

// readsListing notes that a directory is opened. FS.mu is held.
func (f *FS) readsListing(n *node) {
	if r := f.reading; r != nil && r.room() {
		r.listings[n.ino] = struct{}{}
	}
}
