package hosttree

import (
	"syscall"

	"wsfs/blob"
)

// Entry is what lies at one path. The zero value is nothing.
type Entry struct {
	Mode   uint32 // type and permissions
	Size   int64
	Ref    blob.Ref // of a regular file
	Target string   // of a symbolic link
	// The rest says when the entry was seen in the directory: zero if it was not, or too late to be trusted.
	Mtime, Ctime int64 // ns
	Ino          uint64

	UID, GID uint32 // set by Tree.Look alone, and never compared
}

// Exists reports whether anything is there.
func (e *Entry) Exists() bool { return e.Mode != 0 }

// Type is the S_IFMT part of the mode.
func (e *Entry) Type() uint32 { return e.Mode & syscall.S_IFMT }

// IsDir reports whether it is a directory.
func (e *Entry) IsDir() bool { return e.Type() == syscall.S_IFDIR }

// Same reports whether two entries hold the same, whatever their times: type, permissions, content. Permissions of
// symbolic links mean nothing.
func (e *Entry) Same(o *Entry) bool {
	switch {
	case e.Type() != o.Type():
		return false
	case !e.Exists():
		return true
	case e.Type() == syscall.S_IFLNK:
		return e.Target == o.Target
	case e.Mode != o.Mode:
		return false
	case e.Type() == syscall.S_IFREG:
		return e.Size == o.Size && (e.Size == 0 || e.Ref == o.Ref)
	}
	return true
}

// stat fills in what stat(2) says. now is when the scan began: what was changed about then may be changed again without
// any of its times showing it.
func (e *Entry) stat(st *syscall.Stat_t, now int64) {
	e.Mode, e.Size = st.Mode, st.Size
	if e.Mtime, e.Ctime, e.Ino = st.Mtim.Nano(), st.Ctim.Nano(), st.Ino; st.Ctim.Nano() >= now-racy || st.Mtim.Nano() >= now-racy {
		e.Mtime, e.Ctime, e.Ino = 0, 0, 0
	}
}

// racy is how coarse the clock of file times may be: a tick of the kernel is at most 10 ms.
const racy = int64(20e6)

// unchanged reports whether a file is surely what it was.
func (e *Entry) unchanged(st *syscall.Stat_t) bool {
	if e.Mode != st.Mode {
		return false
	}
	return e.IsDir() || e.Size == st.Size && e.Mtime == st.Mtim.Nano() && e.Ctime == st.Ctim.Nano() && e.Ino == st.Ino
}
