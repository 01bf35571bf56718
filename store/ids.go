package store

import (
	"syscall"

	"wsfs/blob"
)

// The numbers that name things in a store. All are positive; zero means "none".
// Ino stays below 1<<40 because the kernel's node id is view<<40 | ino.
type (
	TimelineID  int64
	WorkspaceID int64
	Ino         uint64
	Seq         int64
	VersionID   int64
	SessionID   int64
	CommandID   int64
	ProcessID   int64
)

const (
	// RootIno is the root directory of every workspace.
	RootIno Ino = 1
	// MaxSeq is the cut of a view that follows the head of its timeline.
	MaxSeq Seq = 1<<63 - 1
	// MaxName is the longest file name in bytes (NAME_MAX on Linux).
	MaxName = 255
)

// Version is one state of one inode: attributes plus content. It is a value; nobody mutates one that was appended.
type Version struct {
	Ino      Ino
	Seq      Seq       // the change that made it
	ID       VersionID // unique in the store
	Parent   VersionID // the inode's version before this one, 0 for the first
	Replaced VersionID // last version of the holder whose name this inode took (temp+rename, unlink+create)
	Merge    VersionID // second parent of a merged version
	Origin   TimelineID
	Mode     uint32 // S_IFMT and permission bits, as in stat(2)
	UID, GID uint32
	Nlink    uint32 // directories: 2 + subdirectories; 0 after the last unlink
	Rdev     uint32 // of a device node, as the kernel encodes it in 32 bits (include/linux/kdev_t.h)
	Size     int64
	Holes    int64 // bytes of Size that are known to be holes (not allocated), for st_blocks
	Mtime    int64 // ns since the epoch
	Ctime    int64 // ns since the epoch
	Atime    int64 // ns since the epoch; equal to Mtime unless a program set it
	Content  blob.Ref
	Target   string // of a symbolic link
	Xattrs   map[string][]byte
}

// IsDir reports whether v is a directory.
func (v *Version) IsDir() bool { return v.Mode&syscall.S_IFMT == syscall.S_IFDIR }

// Device is the number of a device node.
func (v *Version) Device() (major, minor uint32) {
	return v.Rdev >> 8 & 0xfff, v.Rdev&0xff | v.Rdev>>12&0xfff00
}

// Rdev is the number of a device node as Version keeps it.
func Rdev(major, minor uint32) uint32 { return minor&0xff | major<<8 | minor&^0xff<<12 }

// Type is the S_IFMT part of the mode.
func (v *Version) Type() uint32 { return v.Mode & syscall.S_IFMT }

// Name is one change of one directory entry: from this seq on, Parent/Name is Ino, or nothing when Ino is 0.
type Name struct {
	Parent Ino
	Name   string // any bytes but '/' and NUL, 1 to MaxName of them
	Ino    Ino
	Type   uint32 // S_IFMT of the inode, 0 for a removal
}
