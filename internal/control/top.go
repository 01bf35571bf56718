package control

import (
	"context"
	"syscall"

	"wsfs/fs"
	"wsfs/store"
)

// Top is a directory with every workspace of a store in it. It implements fs.Control.
type Top struct {
	Dir      string // of the store: df shows its disk
	UID, GID uint32
	Since    int64 // ns; its times
	// List is the names of all workspaces.
	List func(ctx context.Context) ([]string, error)
	// Enter leads into the workspace of that name; ENOENT if there is none.
	Enter func(ctx context.Context, name string) (*fs.Entrance, error)
}

// Lookup implements fs.Control. Who drops a workspace tells the kernel that its name leads nowhere any more.
func (t *Top) Lookup(c *fs.Call, _ uint64, name string) (fs.Found, error) {
	c.Blocks()
	in, err := t.Enter(context.Background(), name)
	return fs.Found{Enter: in, Valid: staticFor}, err
}

// GetAttr implements fs.Control.
func (t *Top) GetAttr(_ *fs.Call, id uint64) (fs.Attr, error) {
	if id != idRoot {
		return fs.Attr{}, syscall.ESTALE
	}
	return fs.Attr{
		ID: idRoot, Ino: idRoot, Mode: syscall.S_IFDIR | 0o555, Nlink: 2, Size: 4096, UID: t.UID, GID: t.GID,
		Atime: t.Since, Mtime: t.Since, Ctime: t.Since, Generation: 1,
	}, nil
}

// ReadDir implements fs.Control. No workspace is opened for it.
func (t *Top) ReadDir(c *fs.Call, _ uint64) ([]fs.DirEntry, error) {
	c.Blocks()
	names, err := t.List(context.Background())
	if err != nil {
		return nil, err
	}
	list := make([]fs.DirEntry, len(names))
	for i, name := range names {
		// The number is that of no file: which one it gets is decided when somebody looks at it.
		list[i] = fs.DirEntry{Name: name, Ino: store.Ino(blameMark + i), Type: syscall.S_IFDIR}
	}
	return list, nil
}

// Open implements fs.Control.
func (t *Top) Open(*fs.Call, uint64, uint32) (fs.Generated, error) { return nil, syscall.EISDIR }

// Readlink implements fs.Control.
func (t *Top) Readlink(*fs.Call, uint64) (string, error) { return "", syscall.EINVAL }

// Statfs implements fs.Control.
func (t *Top) Statfs() (fs.Statfs, error) { return fs.Disk(t.Dir) }
