package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/versions"
)

// treeWriter writes a tree into a directory. Everything is created relative to descriptors of directories that it made
// itself, never through a path, so nothing that others put there meanwhile can lead it outside.
type treeWriter struct {
	e     *export
	root  *os.Root
	stack []*os.File // the directories from the target down to the current one
	owner bool       // chown is possible
	odd   map[string]bool

	// Where the target lies. made: it was not there before.
	above int
	name  string
	made  bool
}

// openTree makes the directory, if there is none, and opens it.
func openTree(target string) (*treeWriter, error) {
	d := &treeWriter{name: filepath.Base(target), owner: os.Geteuid() == 0, odd: map[string]bool{}}
	fail := func(what string, err error) (*treeWriter, error) {
		return nil, &os.PathError{Op: what, Path: target, Err: err}
	}
	var err error
	if d.above, err = unix.Open(filepath.Dir(target), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fail("open the directory above", err)
	}
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	switch err = unix.Mkdirat(d.above, d.name, 0o700); {
	case err == nil:
		d.made, flags = true, flags|unix.O_NOFOLLOW
	case !errors.Is(err, unix.EEXIST):
		_ = unix.Close(d.above)
		return fail("mkdir", err)
	}
	fd, err := unix.Openat(d.above, d.name, flags, 0)
	if err != nil {
		_ = unix.Close(d.above)
		return fail("open", err)
	}
	d.stack = []*os.File{os.NewFile(uintptr(fd), target)}
	if d.root, err = os.OpenRoot(openPath(fd)); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// openPath leads to what is open, whatever its name has become.
func openPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func (d *treeWriter) top() *os.File { return d.stack[0] }

func (d *treeWriter) here() int { return int(d.stack[len(d.stack)-1].Fd()) }

func (d *treeWriter) close() {
	for _, f := range d.stack {
		_ = f.Close() // read-only
	}
	if d.root != nil {
		_ = d.root.Close()
	}
	_ = unix.Close(d.above)
}

func (d *treeWriter) enter(n versions.Node) error {
	if err := d.e.ctx.Err(); err != nil {
		return err
	}
	d.e.count++
	if n.Path == "" {
		return nil
	}
	name := path.Base(n.Path)
	var err error
	switch {
	case n.Linked:
		err = d.root.Link(n.Link, n.Path)
	case n.Version.IsDir():
		err = d.mkdir(name)
	case n.Version.Type() == syscall.S_IFREG:
		err = d.file(name, n.Version)
	case n.Version.Type() == syscall.S_IFLNK:
		if err = unix.Symlinkat(n.Version.Target, d.here(), name); err == nil {
			err = d.nameAttrs(name, n.Version)
		}
	default:
		dev := int(unix.Mkdev(n.Version.Device()))
		if err = unix.Mknodat(d.here(), name, n.Version.Mode&^0o7777|0o600, dev); err == nil {
			err = d.nameAttrs(name, n.Version)
		}
	}
	if err != nil {
		return fmt.Errorf("write %q: %w", n.Path, err)
	}
	return nil
}

func (d *treeWriter) mkdir(name string) error {
	if err := unix.Mkdirat(d.here(), name, 0o700); err != nil {
		return err
	}
	fd, err := unix.Openat(d.here(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d.stack = append(d.stack, os.NewFile(uintptr(fd), name))
	return nil
}

// leave gives a directory its attributes, after its entries so that its times stay.
func (d *treeWriter) leave(n versions.Node) error {
	f := d.stack[len(d.stack)-1]
	if err := d.fileAttrs(f, n.Version); err != nil {
		return fmt.Errorf("write %q: %w", n.Path, err)
	}
	if n.Path == "" {
		return nil
	}
	d.stack = d.stack[:len(d.stack)-1]
	return f.Close()
}

func (d *treeWriter) file(name string, v *store.Version) (err error) {
	fd, err := unix.Openat(d.here(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if v.Holes > 0 {
		d.e.bytes += v.Size
		err = d.e.st.Blobs().Data(d.e.ctx, blob.Content{Ref: v.Content, Size: v.Size}, f)
	} else {
		var n int64
		n, err = copyAll(d.e.ctx, f, d.e.content(v))
		d.e.bytes += n
	}
	if err != nil {
		return err
	}
	if v.Holes > 0 {
		if err := f.Truncate(v.Size); err != nil {
			return err
		}
	}
	return d.fileAttrs(f, v)
}

// fileAttrs sets what an open file or directory carries: the owner first, because chown clears set-user-id bits, and
// the times last, because everything else changes them.
func (d *treeWriter) fileAttrs(f *os.File, v *store.Version) error {
	fd := int(f.Fd())
	if d.owner {
		if err := unix.Fchown(fd, int(v.UID), int(v.GID)); err != nil {
			return err
		}
	}
	for name, value := range v.Xattrs {
		err := unix.Fsetxattr(fd, name, value, 0)
		if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
			d.skip(fmt.Sprintf("extended attribute %s: %v", name, err))
			continue
		}
		if err != nil {
			return fmt.Errorf("set extended attribute %s: %w", name, err)
		}
	}
	if err := unix.Fchmod(fd, v.Mode&0o7777); err != nil {
		return err
	}
	times := []unix.Timespec{unix.NsecToTimespec(v.Atime), unix.NsecToTimespec(v.Mtime)}
	return unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
}

// nameAttrs sets what a symbolic link, a FIFO, a socket or a device carries that was just made.
func (d *treeWriter) nameAttrs(name string, v *store.Version) error {
	fd, err := unix.Openat(d.here(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	// Somebody may have put another link of what lies elsewhere in its place.
	if st.Mode&syscall.S_IFMT != v.Type() || st.Nlink != 1 {
		return fmt.Errorf("it is not what was just made; somebody else changes the directory: %w", syscall.EEXIST)
	}
	if d.owner {
		if err := unix.Fchownat(fd, "", int(v.UID), int(v.GID), unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if v.Type() != syscall.S_IFLNK {
		if err := unix.Chmod(openPath(fd), v.Mode&0o7777); err != nil {
			return err
		}
	}
	if len(v.Xattrs) > 0 {
		d.skip("extended attributes of symbolic links and special files")
	}
	times := []unix.Timespec{unix.NsecToTimespec(v.Atime), unix.NsecToTimespec(v.Mtime)}
	return unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
}

// skip says once what the target cannot hold.
func (d *treeWriter) skip(what string) {
	if !d.odd[what] {
		d.odd[what] = true
		d.e.note("not exported: %s", what)
	}
}

// undo removes what was written: the target itself if it was made for this.
func (d *treeWriter) undo() error {
	if _, err := d.top().Seek(0, io.SeekStart); err != nil {
		return err
	}
	names, err := d.top().Readdirnames(-1)
	for _, name := range names {
		err = errors.Join(err, d.root.RemoveAll(name))
	}
	if d.made {
		err = errors.Join(err, unix.Unlinkat(d.above, d.name, unix.AT_REMOVEDIR))
	}
	return err
}
