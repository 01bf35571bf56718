package fs

import (
	"syscall"

	"wsfs/store"
)

// Call is one request to a live workspace: who asks, and how to wait.
type Call struct {
	UID, GID uint32
	PID      uint32 // thread id of the caller, 0 if unknown (writeback, RELEASE)
	// Groups reports whether the caller is in the supplementary group gid; nil: only GID counts.
	Groups func(gid uint32) bool
	// Who resolves the caller to a session, command and process. It may block for a bounded time; nil: unknown.
	Who func() store.Attribution
	// Yield is called at most once, before the call waits for a disk, the database, a lock or another process. A
	// transport hands the reader's role to somebody else in it. May be nil.
	Yield func()
	// Origin is the mount that asks: it is not told about changes of its own.
	Origin Origin
	// Durable: what changes is to survive a power loss before the call returns, not only the end of this process.
	Durable bool
	// Cancel is closed when the caller was interrupted. May be nil.
	Cancel <-chan struct{}
	// Rules say what becomes of writes over what the writer has not seen; nil: the zero Rules.
	Rules *Rules
	// Receipt is told what was done, just before it counts. May be nil.
	Receipt *Receipt
}

func (c *Call) receipt() *Receipt {
	if c == nil {
		return nil
	}
	return c.Receipt
}

// making says what a request is about to make.
func (c *Call) making(id store.Ino) {
	if r := c.receipt(); r != nil {
		r.Ino = uint64(id)
	}
}

func (c *Call) yield() {
	if c != nil && c.Yield != nil {
		c.Yield()
		c.Yield = nil
	}
}

func (c *Call) who() store.Attribution {
	if c == nil || c.Who == nil {
		return store.Attribution{}
	}
	return c.Who()
}

// Attr is what stat(2) reports about one inode.
type Attr struct {
	ID                  store.Ino // what kernels call it: Ino, unless that was taken (see Moved)
	Ino                 store.Ino
	Mode                uint32
	Nlink               uint32
	UID, GID            uint32
	Rdev                uint32
	Size                int64
	Blocks              int64 // of 512 bytes
	Atime, Mtime, Ctime int64 // ns since the epoch
	Generation          uint64
}

// SetAttr names the attributes to change; nil fields stay.
type SetAttr struct {
	Mode         *uint32 // permission bits
	UID, GID     *uint32
	Size         *int64
	Atime, Mtime *int64 // ns since the epoch
	Ctime        *int64
	// KillPriv: clear the setuid and setgid bits as write(2) and chown(2) of an unprivileged caller do.
	KillPriv bool
}

// Rename flags, as in renameat2(2).
const (
	RenameNoReplace = 1
	RenameExchange  = 2
)

// Open flags that matter here, besides the access mode.
const (
	oAccMode = syscall.O_ACCMODE
	oTrunc   = syscall.O_TRUNC
	oExcl    = syscall.O_EXCL
)

// DirEntry is one name in a listing. Cookie is the position after it: stable while the directory is open, whatever is
// created or removed meanwhile.
type DirEntry struct {
	Name   string
	Ino    store.Ino
	Type   uint32 // S_IFMT
	Cookie uint64
}

// Lock is one byte-range lock as in fcntl(2). End is inclusive; 1<<63-1 means "to the end of the file".
type Lock struct {
	Start, End uint64
	Type       uint32 // syscall.F_RDLCK, F_WRLCK, F_UNLCK
	PID        uint32
	Owner      uint64 // the kernel's lock owner
	Flock      bool   // a whole-file lock of flock(2)
}

// Statfs is what statfs(2) reports.
type Statfs struct {
	Blocks, Bfree, Bavail, Files, Ffree uint64
	Bsize, NameLen                      uint32
}

// Origin names one observer of a live workspace; 0 is nobody.
type Origin int

// Observer is told what changed by other means than its own requests (another mount, the CLI), so that it can drop
// what the kernel cached. Calls come from a worker goroutine, with no lock held, in order.
type Observer interface {
	EntryChanged(parent store.Ino, name string)
	InodeChanged(id store.Ino)
	// Foresee says that Moved is likely to come; over, that it has come or will not. It returns at once.
	Foresee() (over func())
	// Moved comes once for all that an undo or a rollback changed; nothing else tells of it.
	Moved(*Moved)
}

// Moved is what an undo, a restore or a rollback changed, as far as a kernel can know it.
type Moved struct {
	Entries []EntryChange
	Inodes  []store.Ino // ids of nodes with other attributes or content, directories whose listing changed included
}

// EntryChange is one name, in a directory that kernels have a reference to, that leads elsewhere or to something changed.
type EntryChange struct {
	Parent    store.Ino // id of the directory
	Dir, Name string    // the directory's path from the root as it was before, "" for the root; the name
	Old, New  EntryRef  // what it led to and leads to
	// Changed: it leads to the same inode as before, or to one that replaces it, with other content; ids may differ.
	Changed bool
	Attrs   bool // of a name that leads where it led: mode, owner or extended attributes differ
}

// EntryRef is what a name leads to. ID 0 means nothing.
type EntryRef struct {
	ID   store.Ino
	Ino  store.Ino
	Type uint32 // S_IFMT
}
