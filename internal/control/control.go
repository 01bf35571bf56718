// Package control makes the .wsfs tree that a mounted workspace has at its root: what happened, who wrote which line, the
// past as directories, and a file to write commands to. A shell needs nothing else to use wsfs.
//
// What it keeps true:
//   - Reading changes nothing: no version is made, no row, no time. A directory of the past keeps its state by a pin for
//     as long as somebody is in it; whoever gives the Entrance sees to that.
//   - The tree is finite: at/ lists the tags and leads to every other state by name alone, blame/ has the names of the
//     workspace, tx/ the transactions that are open.
//   - Nothing grants more than the workspace: files about all of it belong to the owner of its root and have the root's
//     permissions, blame/x those of x. Nothing but ctl can be written.
//   - The text is what the command line prints elsewhere than on a terminal (package report).
package control

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/internal/ui"
	"wsfs/store"
)

// Options of a tree; all are needed.
type Options struct {
	FS    *fs.FS // the workspace, or the state of it, that the tree is in
	Store *store.Store
	Now   func() time.Time
	// View is the state that the tree is about, with everything acknowledged before in the database.
	View func(ctx context.Context) (*store.View, error)
	// Workspace is what commands and tags are listed of.
	Workspace store.WorkspaceID
	// Past leads to the state that a revision names: 5m, 1234, c12+, a time or a tag.
	Past func(ctx context.Context, rev string) (*fs.Entrance, error)
	// Status prints what `wsfs status` does.
	Status func(ctx context.Context, o *ui.Out) error
	// Tx are the open transactions; nil: none can be begun here.
	Tx *Transactions
	// Do runs a command for the thread pid; nil: nothing can be changed here.
	Do func(ctx context.Context, pid uint32, words []string) Result
}

// Result is what a command led to.
type Result struct {
	Text  string        // what it says, or why it failed
	Exit  int           // exit code of the same command on the command line
	Errno syscall.Errno // what the write of it returns; 0: it was done
}

// Tree is a .wsfs tree. It implements fs.Control.
type Tree struct {
	o    Options
	last lastResult
}

// New makes the tree of a workspace.
func New(o Options) *Tree { return &Tree{o: o} }

// The ids of what is always there. Below blame/, an id is the inode of what is blamed, marked.
const (
	idRoot = 1 + iota
	idAt
	idLog
	idLogJSON
	idBlame
	idStatus
	idCommands
	idCtl
	idResult
	idConflicts
	idTx

	blameMark = 1 << 38
)

// names is the directory itself, in the order that it is listed in.
var names = []struct {
	name string
	id   uint64
	typ  uint32
}{
	{"at", idAt, syscall.S_IFDIR},
	{"blame", idBlame, syscall.S_IFDIR},
	{"commands", idCommands, syscall.S_IFREG},
	{"conflicts", idConflicts, syscall.S_IFDIR},
	{"ctl", idCtl, syscall.S_IFREG},
	{"ctl.result", idResult, syscall.S_IFREG},
	{"log", idLog, syscall.S_IFREG},
	{"log.json", idLogJSON, syscall.S_IFREG},
	{"status", idStatus, syscall.S_IFREG},
	{"tx", idTx, syscall.S_IFDIR},
}

// staticFor is how long kernels may believe names that never change.
const staticFor = time.Hour

// Lookup implements fs.Control.
func (t *Tree) Lookup(c *fs.Call, dir uint64, name string) (fs.Found, error) {
	switch {
	case dir == idRoot:
		for _, n := range names {
			if n.name == name {
				a, err := t.GetAttr(c, n.id)
				return fs.Found{Attr: a, Valid: staticFor}, err
			}
		}
		return fs.Found{}, syscall.ENOENT
	case dir == idAt:
		c.Blocks()
		in, err := t.o.Past(context.Background(), name)
		found := fs.Found{Enter: in}
		if strings.Trim(name, "0123456789") == "" {
			found.Valid = staticFor // a seq stays what it is; ages, commands and tags move
		}
		return found, err
	case dir == idBlame || dir&blameMark != 0:
		return t.lookupBlame(c, dir, name)
	case dir == idConflicts || dir&conflictMark != 0:
		return t.lookupConflict(c, dir, name)
	case dir == idTx:
		return t.lookupTx(c, name)
	}
	return fs.Found{}, syscall.ENOTDIR
}

// GetAttr implements fs.Control.
func (t *Tree) GetAttr(c *fs.Call, id uint64) (fs.Attr, error) {
	if id&blameMark != 0 {
		return t.blameAttr(c, id)
	}
	root, err := t.o.FS.AttrOf(c, store.RootIno)
	if err != nil {
		return fs.Attr{}, err
	}
	a := fs.Attr{
		ID: store.Ino(id), Ino: store.Ino(id), UID: root.UID, GID: root.GID, Nlink: 1,
		Atime: root.Mtime, Mtime: root.Mtime, Ctime: root.Mtime, Generation: 1,
	}
	if id&conflictMark != 0 {
		a.Mode = syscall.S_IFREG | root.Mode&0o444
		if id&(1<<conflictShift-1) == conflictDir {
			a.Mode, a.Nlink, a.Size = syscall.S_IFDIR|root.Mode&0o555, 2, 4096
		}
		return a, nil
	}
	if id&txMark != 0 {
		a.Mode = syscall.S_IFLNK | 0o777
		return a, nil
	}
	switch id {
	case idRoot, idAt, idBlame, idConflicts, idTx:
		a.Mode, a.Nlink, a.Size = syscall.S_IFDIR|root.Mode&0o555, 2, 4096
	case idCtl:
		a.Mode = syscall.S_IFREG | root.Mode&0o666
		if t.o.Do == nil {
			a.Mode &^= 0o222
		}
	case idLog, idLogJSON, idStatus, idCommands, idResult:
		a.Mode = syscall.S_IFREG | root.Mode&0o444
	default:
		return fs.Attr{}, fmt.Errorf("node %d of .wsfs: %w", id, syscall.ESTALE)
	}
	return a, nil
}

// ReadDir implements fs.Control. at/ lists the tags.
func (t *Tree) ReadDir(c *fs.Call, id uint64) ([]fs.DirEntry, error) {
	switch {
	case id == idRoot:
		list := make([]fs.DirEntry, len(names))
		for i, n := range names {
			list[i] = fs.DirEntry{Name: n.name, Ino: store.Ino(n.id), Type: n.typ}
		}
		return list, nil
	case id == idAt:
		c.Blocks()
		if _, err := t.o.View(context.Background()); err != nil { // a tag that was just made is in the database
			return nil, err
		}
		tags, err := t.o.Store.Tags(context.Background(), t.o.Workspace)
		if err != nil {
			return nil, err
		}
		list := make([]fs.DirEntry, len(tags))
		for i := range tags {
			// The number is that of no file: which one it gets is decided when somebody goes in.
			list[i] = fs.DirEntry{Name: tags[i].Name, Ino: store.Ino(blameMark>>1 + i), Type: syscall.S_IFDIR}
		}
		return list, nil
	case id == idBlame || id&blameMark != 0:
		return t.readBlame(c, id)
	case id == idConflicts || id&conflictMark != 0:
		return t.readConflicts(c, id)
	case id == idTx:
		return t.readTx(c)
	}
	return nil, syscall.ENOTDIR
}

// Open implements fs.Control. The content is made at the first read.
func (t *Tree) Open(c *fs.Call, id uint64, flags uint32) (fs.Generated, error) {
	if id == idCtl {
		return t.openCtl(flags)
	}
	if flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		return nil, syscall.EPERM
	}
	switch {
	case id == idLog:
		return t.openLog(false), nil
	case id == idLogJSON:
		return t.openLog(true), nil
	case id == idCommands:
		return whole(t.commands), nil
	case id == idStatus:
		return whole(func(ctx context.Context) ([]byte, error) {
			return t.print(func(o *ui.Out) error { return t.o.Status(ctx, o) })
		}), nil
	case id == idResult:
		return whole(func(context.Context) ([]byte, error) { return t.last.text(), nil }), nil
	case id&blameMark != 0:
		return t.openBlame(c, id)
	case id&conflictMark != 0:
		return t.openConflict(id)
	}
	return nil, syscall.EISDIR
}

// Readlink implements fs.Control: links below blame/ lead where those of the workspace do, those below tx/ to workspaces.
func (t *Tree) Readlink(c *fs.Call, id uint64) (string, error) {
	switch {
	case id&blameMark != 0:
	case id&conflictMark == 0 && id&txMark != 0:
		return t.readTxLink(c, id)
	default:
		return "", syscall.EINVAL
	}
	a, err := t.o.FS.AttrOf(c, store.Ino(id&^blameMark))
	if err != nil {
		return "", err
	}
	return t.o.FS.Readlink(c, a.ID)
}

// Statfs implements fs.Control.
func (t *Tree) Statfs() (fs.Statfs, error) { return t.o.FS.Statfs() }
