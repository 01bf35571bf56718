package fs

import (
	"context"
	"time"

	"wsfs/store"
)

// Control serves a tree that is made up while it is read: directories and files that are in no workspace, and names that
// lead into workspaces or states of them. Ids are its own; 1 is its root. They are below 1 << 39 and name one thing for
// as long as the mount is there: a kernel may come back with one whenever it likes. An id that means nothing is ESTALE.
//
// Its methods are called by many goroutines at once. They call Call.Blocks before they wait for anything.
type Control interface {
	// Lookup finds name in a directory; ENOENT is not remembered by kernels.
	Lookup(c *Call, dir uint64, name string) (Found, error)
	// GetAttr is the attributes of a file or directory; ID and Ino are the id.
	GetAttr(c *Call, id uint64) (Attr, error)
	// ReadDir is all names of a directory that are listed; there may be others.
	ReadDir(c *Call, id uint64) ([]DirEntry, error)
	// Open opens a file with the flags of open(2).
	Open(c *Call, id uint64, flags uint32) (Generated, error)
	// Readlink is the target of a symbolic link.
	Readlink(c *Call, id uint64) (string, error)
	// Statfs is what df shows of it.
	Statfs() (Statfs, error)
}

// Generated is an open file of a Control. Its size is not known before it is read, so kernels keep nothing of it.
type Generated interface {
	// ReadAt fills p from off; 0 bytes are the end.
	ReadAt(c *Call, p []byte, off int64) (int, error)
	// WriteAt takes p. Nothing else may be written by it.
	WriteAt(c *Call, p []byte, off int64) (int, error)
	// Close is called once, after the last read.
	Close()
}

// Found is what a name of a Control leads to.
type Found struct {
	Attr  Attr
	Valid time.Duration // how long a kernel may believe that the name leads there
	// Enter is another tree, whose root the name leads to. Attr does not count then.
	Enter *Entrance
}

// Entrance leads into a tree that is opened when somebody goes in, and closed when nobody is in it any more.
type Entrance struct {
	// Key tells trees of one mount apart; it must be comparable. One tree has one set of inode numbers for as long as the
	// mount is there.
	Key any
	// Again says in words which tree it is, to Options.Again of a mount in another process; "": nothing does.
	Again string
	// Path is where it is, from the root of the mount: "main", ".wsfs/at/5m".
	Path string
	// Idle is how long the tree stays open although nobody looks at it.
	Idle time.Duration
	// Attr is the attributes of its root; the tree need not be open.
	Attr func(c *Call) (Attr, error)
	// Open opens the tree. An error is what programs get that go in.
	Open func(ctx context.Context) (*Tree, error)
}

// Tree is a workspace, or a state of one, as a mount shows it.
type Tree struct {
	FS *FS
	// Control is what .wsfs at its root shows; nil: no such name is reserved.
	Control Control
	// Who attributes callers as Options.Resolver of a mount does; nil: nobody can change anything.
	Who interface {
		Resolve(pid uint32, yield func(), cancel <-chan struct{}) store.Attribution
	}
	// Limit narrows attributes before a kernel sees them; nil: it sees what they are. What it goes by may change at any
	// time, so kernels keep attributes only for a second.
	Limit func(c *Call, a *Attr)
	// Close is called once, when nobody uses the tree any more.
	Close func()
}

// Blocks tells the transport that the call is about to wait, as every call to a workspace does by itself.
func (c *Call) Blocks() { c.yield() }

// AttrOf is the attributes of an inode by the number that history gives it; ID is what kernels call it.
func (f *FS) AttrOf(c *Call, ino store.Ino) (Attr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.inode(c, ino)
	if err != nil {
		return Attr{}, err
	}
	return n.attr(), nil
}

// Peek is AttrOf for who only wants to know: it keeps nothing in memory for it, and ID may be wrong.
func (f *FS) Peek(c *Call, ino store.Ino) (Attr, error) {
	f.mu.Lock()
	view := f.view
	if a, ok := f.attrInMemory(ino); ok {
		f.mu.Unlock()
		return a, nil
	}
	f.mu.Unlock()
	c.yield()
	v, err := view.Version(context.Background(), ino)
	f.mu.Lock()
	defer f.mu.Unlock()
	if a, ok := f.attrInMemory(ino); ok { // what the database does not have yet is in memory
		return a, nil
	}
	if err != nil {
		return Attr{}, err
	}
	return AttrOfVersion(v), nil
}

func (f *FS) attrInMemory(ino store.Ino) (Attr, bool) {
	if n := f.nodes[ino]; n != nil {
		return n.attr(), true
	}
	if _, r := f.coldFile(ino); r != nil {
		return r.attr(ino), true
	}
	return Attr{}, false
}

// Seal makes sure that nothing behind the point that the workspace is at is amended any more, and nothing else: what is
// dirty stays dirty. It returns that point's seq.
func (f *FS) Seal() store.Seq {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pinned = f.seq
	return f.seq
}

// AttrOfVersion is the attributes that a version shows.
func AttrOfVersion(v *store.Version) Attr { return newNode(*v).attr() }

// Disk is statfs(2) of the disk that the store is on, without a workspace.
func Disk(dir string) (Statfs, error) { return (&statfsCache{dir: dir}).get() }

// Referred calls fn with a name of each node that a kernel knows, the root excepted: the directory's id and the name that
// the node was last found by. A node may be known by other names too.
func (f *FS) Referred(fn func(parent store.Ino, name string)) {
	type entry struct {
		parent store.Ino
		name   string
	}
	var list []entry
	f.mu.Lock()
	for _, n := range f.nodes {
		if n.lookups > 0 && n.ino != store.RootIno && n.name != "" {
			list = append(list, entry{f.idOf(n.parent), n.name})
		}
	}
	for _, d := range f.coldDirs {
		if d == nil || d.cold.known == 0 {
			continue
		}
		for e := range d.entries() {
			if r := d.coldOf(e); r != nil && r.lookups > 0 {
				list = append(list, entry{f.idOf(d.cold.ino), e.name})
			}
		}
	}
	f.mu.Unlock()
	for _, e := range list {
		fn(e.parent, e.name)
	}
}
