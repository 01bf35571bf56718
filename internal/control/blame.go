package control

import (
	"context"
	"errors"
	"syscall"

	"wsfs/fs"
	"wsfs/internal/report"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// blame/ has the directories, files and links of the workspace, as they are now. An id is the inode's number, marked; the
// root is idBlame.

// blameFor is how long kernels may believe a name below blame/: who renames in the workspace is not heard of here.
const blameFor = 0

func inodeOf(id uint64) store.Ino {
	if id == idBlame {
		return store.RootIno
	}
	return store.Ino(id &^ blameMark)
}

func (t *Tree) lookupBlame(c *fs.Call, dir uint64, name string) (fs.Found, error) {
	d, err := t.o.FS.AttrOf(c, inodeOf(dir))
	if err != nil {
		return fs.Found{}, err
	}
	a, err := t.o.FS.Lookup(c, d.ID, name)
	if err != nil {
		return fs.Found{}, err
	}
	t.o.FS.Forget(a.ID, 1)
	if !blamed(a.Mode) {
		return fs.Found{}, syscall.ENOENT
	}
	return fs.Found{Attr: blameOf(a), Valid: blameFor}, nil
}

func blamed(mode uint32) bool {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR, syscall.S_IFREG, syscall.S_IFLNK:
		return true
	}
	return false
}

func (t *Tree) blameAttr(c *fs.Call, id uint64) (fs.Attr, error) {
	a, err := t.o.FS.AttrOf(c, inodeOf(id))
	return blameOf(a), err
}

// blameOf is the attributes below blame/ of what has the attributes a.
func blameOf(a fs.Attr) fs.Attr {
	a.ID, a.Ino, a.Generation = a.Ino|blameMark, a.Ino|blameMark, 1
	switch a.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		a.Mode &= syscall.S_IFDIR | 0o555
	case syscall.S_IFREG:
		a.Mode &= syscall.S_IFREG | 0o444
		a.Size, a.Blocks, a.Nlink = 0, 0, 1
	}
	return a
}

func (t *Tree) readBlame(c *fs.Call, id uint64) ([]fs.DirEntry, error) {
	a, err := t.o.FS.AttrOf(c, inodeOf(id))
	if err != nil {
		return nil, err
	}
	d, err := t.o.FS.OpenDir(c, a.ID)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var list []fs.DirEntry
	err = d.Read(c, 0, func(e fs.DirEntry) bool {
		if e.Name != "." && e.Name != ".." && blamed(e.Type) {
			e.Ino |= blameMark
			list = append(list, e)
		}
		return true
	})
	return list, err
}

func (t *Tree) openBlame(c *fs.Call, id uint64) (fs.Generated, error) {
	a, err := t.o.FS.AttrOf(c, inodeOf(id))
	if err != nil {
		return nil, err
	}
	if a.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, syscall.EISDIR
	}
	return whole(func(ctx context.Context) ([]byte, error) { return t.blame(ctx, a.Ino) }), nil
}

// blame is what `wsfs blame` prints of a file's newest version. What has no lines, or no version yet, says so in a line
// that no blame begins with.
func (t *Tree) blame(ctx context.Context, ino store.Ino) ([]byte, error) {
	view, err := t.o.View(ctx)
	if err != nil {
		return nil, err
	}
	ver, err := view.Version(ctx, ino)
	if errors.Is(err, syscall.ENOENT) {
		return []byte("# it has no version yet: it is open, and nothing of it was closed\n"), nil
	}
	if err != nil {
		return nil, err
	}
	b, err := versions.Blame(ctx, t.o.Store, ver, versions.BlameRange{})
	if errors.Is(err, syscall.EINVAL) {
		return []byte("# it is no text; its newest version is @" + report.Itoa(int64(ver.Seq)) + "\n"), nil
	}
	if err != nil {
		return nil, err
	}
	return t.print(func(o *ui.Out) error {
		notes, err := report.Blame(o, b, false)
		for _, n := range notes {
			_, _ = o.Writer().WriteString("# " + n + "\n") // fails again at the flush
		}
		return err
	})
}
