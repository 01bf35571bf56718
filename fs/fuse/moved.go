package fuse

import "wsfs/fs"

// Moved tells the kernel what an undo or a rollback changed: names first, so that nobody finds old attributes by them.
func (m *Mount) Moved(ev *fs.Moved) {
	for i := range ev.Entries {
		e := &ev.Entries[i]
		m.EntryChanged(e.Parent, e.Name)
	}
	for _, id := range ev.Inodes {
		m.InodeChanged(id)
	}
}
