package hosttree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Tree is a directory that is looked at and changed. Every path is walked from the directory's own descriptor, part by
// part and never through a symbolic link, so nothing that lies there, or is put there meanwhile, leads outside. Paths are
// relative and clean.
type Tree struct {
	dir  string
	root int
	sync map[string]bool // directories whose entries were changed

	staging string // directory in the tree for what is being written, "" none yet
	made    int    // files in it
}

// OpenTree opens a directory.
func OpenTree(dir string) (*Tree, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open directory %s: %w", dir, err)
	}
	return &Tree{dir: dir, root: fd, sync: map[string]bool{}}, nil
}

// Close lets go of the directory.
func (t *Tree) Close() error { return unix.Close(t.root) }

// open opens a directory in the tree.
func (t *Tree) open(dir string) (int, error) {
	fd, err := unix.Openat(t.root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil || dir == "" || dir == "." {
		return fd, err
	}
	for part := range strings.SplitSeq(dir, "/") {
		if part == ".." || part == "" {
			_ = unix.Close(fd)
			return -1, syscall.EINVAL
		}
		next, err := unix.Openat(fd, part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd)
		if errors.Is(err, syscall.ELOOP) {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// in calls fn with the directory that holds p and p's name there.
func (t *Tree) in(p, what string, fn func(fd int, name string) error) error {
	name := path.Base(p)
	if name == "." || name == ".." || name == "/" || name == "" {
		return fmt.Errorf("%s %q: %w", what, p, syscall.EINVAL)
	}
	fd, err := t.open(path.Dir(p))
	if err == nil {
		err = fn(fd, name)
		_ = unix.Close(fd)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, t.dir+"/"+p, err)
	}
	return nil
}

// Look says what is at a path, without the content of files. A path below something that is no directory wraps ENOTDIR;
// one that is not there is nothing, and no error.
func (t *Tree) Look(p string) (Entry, error) {
	var e Entry
	err := t.in(p, "look at", func(fd int, name string) error {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		s := sysStat(&st)
		e.stat(&s, 1<<62)
		e.Mtime, e.Ctime, e.Ino = s.Mtim.Nano(), s.Ctim.Nano(), s.Ino
		e.UID, e.GID = s.Uid, s.Gid
		if e.Type() == syscall.S_IFLNK {
			buf := make([]byte, 4096)
			n, err := unix.Readlinkat(fd, name, buf)
			if err != nil {
				return err
			}
			e.Target = string(buf[:n])
		}
		return nil
	})
	if errors.Is(err, syscall.ENOENT) {
		return Entry{}, nil
	}
	return e, err
}

// Open opens a regular file for reading.
func (t *Tree) Open(p string) (f *os.File, err error) {
	err = t.in(p, "read", func(fd int, name string) error {
		n, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			f = os.NewFile(uintptr(n), t.dir+"/"+p)
		}
		return err
	})
	return f, err
}

// Names lists a directory.
func (t *Tree) Names(p string) ([]string, error) {
	fd, err := t.open(p)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", t.dir+"/"+p, err)
	}
	f := os.NewFile(uintptr(fd), p)
	defer f.Close()
	return f.Readdirnames(-1)
}

// Attrs are what a new entry gets besides its content.
type Attrs struct {
	Mode     uint32 // permissions
	UID, GID int    // -1: as it comes
}

// StagingPrefix begins the name of the directory in which a tree keeps what has not got its place yet.
const StagingPrefix = ".wsfs-apply-"

// stage makes something in the staging directory and returns its path: what cannot be written whole, for lack of room
// say, shows before anything in the tree was changed.
func (t *Tree) stage(make func(fd int, name string) error) (string, error) {
	if t.staging == "" {
		name := StagingPrefix + strconv.Itoa(os.Getpid())
		if err := unix.Mkdirat(t.root, name, 0o700); err != nil && !errors.Is(err, syscall.EEXIST) {
			return "", fmt.Errorf("make directory %s: %w", t.dir+"/"+name, err)
		}
		var st unix.Stat_t
		err := unix.Fstatat(t.root, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && (st.Mode&(unix.S_IFMT|0o077) != unix.S_IFDIR || int(st.Uid) != os.Geteuid()) {
			err = fmt.Errorf("it is there, and is not this user's own: %w", syscall.EEXIST)
		}
		if err != nil {
			return "", fmt.Errorf("make directory %s: %w", t.dir+"/"+name, err)
		}
		t.staging = name
	}
	t.made++
	p := t.staging + "/" + strconv.Itoa(t.made)
	return p, t.in(p, "write", make)
}

// Put gives what was staged its place, instead of whatever is there that is no directory.
func (t *Tree) Put(staged, p string) error {
	from, err := t.open(t.staging)
	if err != nil {
		return fmt.Errorf("write %s: %w", t.dir+"/"+p, err)
	}
	defer unix.Close(from)
	return t.in(p, "write", func(fd int, name string) error {
		t.sync[path.Dir(p)] = true
		return unix.Renameat(from, path.Base(staged), fd, name)
	})
}

// Clean removes staging directories, this tree's and those of a process that died.
func (t *Tree) Clean() error {
	names, err := t.Names("")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, StagingPrefix) {
			continue
		}
		inner, err := t.Names(name)
		if errors.Is(err, syscall.ENOTDIR) {
			continue // somebody else's
		}
		for _, n := range inner {
			err = errors.Join(err, t.Remove(name+"/"+n, false))
		}
		if err = errors.Join(err, t.Remove(name, true)); err != nil {
			return err
		}
	}
	t.staging = ""
	return nil
}

// File stages a regular file, synced. fill writes the content, and sets what else it is to have.
func (t *Tree) File(a Attrs, fill func(f *os.File) error) (string, error) {
	return t.stage(func(fd int, name string) error {
		n, err := unix.Openat(fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(n), name)
		defer f.Close()
		if a.UID >= 0 || a.GID >= 0 { // first: it takes capabilities away
			if err := unix.Fchown(n, a.UID, a.GID); err != nil && !errors.Is(err, syscall.EPERM) {
				return err
			}
		}
		if err := fill(f); err != nil {
			return err
		}
		if err := unix.Fchmod(n, a.Mode&0o7777); err != nil {
			return err
		}
		return f.Sync()
	})
}

// Symlink stages a symbolic link.
func (t *Tree) Symlink(target string) (string, error) {
	return t.stage(func(fd int, name string) error { return unix.Symlinkat(target, fd, name) })
}

// Link stages one more name of what was staged before.
func (t *Tree) Link(staged string) (string, error) {
	return t.stage(func(fd int, name string) error { return unix.Linkat(fd, path.Base(staged), fd, name, 0) })
}

// LinkTo stages one more name of a file in the tree.
func (t *Tree) LinkTo(p string) (string, error) {
	return t.stage(func(fd int, name string) error {
		return t.in(p, "link to", func(from int, old string) error { return unix.Linkat(from, old, fd, name, 0) })
	})
}

// Node stages a FIFO, a socket or a device node.
func (t *Tree) Node(mode uint32, dev uint64) (string, error) {
	return t.stage(func(fd int, name string) error {
		if err := unix.Mknodat(fd, name, mode&syscall.S_IFMT|0o600, int(dev)); err != nil {
			return err
		}
		return chmodAt(fd, name, mode)
	})
}

// Writable reports whether entries of a directory may be made and removed.
func (t *Tree) Writable(dir string) error {
	fd, err := t.open(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Faccessat(fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}

// Mkdir makes a directory that the owner can write in; Chmod gives it its permissions once it is filled.
func (t *Tree) Mkdir(p string, uid, gid int) error {
	return t.in(p, "make directory", func(fd int, name string) error {
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			return err
		}
		t.sync[path.Dir(p)] = true
		if uid >= 0 || gid >= 0 {
			if err := unix.Fchownat(fd, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil && !errors.Is(err, syscall.EPERM) {
				return err
			}
		}
		return nil
	})
}

// Chmod sets the permissions of a file or directory, not of a symbolic link. A mode with a type is for nothing else: it wraps
// EEXIST if what is there has become something of another type.
func (t *Tree) Chmod(p string, mode uint32) error {
	return t.in(p, "set the permissions of", func(fd int, name string) error {
		return chmodAt(fd, name, mode)
	})
}

// chmodAt goes through a descriptor: the name could have become a link.
func chmodAt(fd int, name string, mode uint32) error {
	n, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(n)
	if is := mode & syscall.S_IFMT; is != 0 {
		var st unix.Stat_t
		if err := unix.Fstat(n, &st); err != nil {
			return err
		}
		if st.Mode&syscall.S_IFMT != is {
			return fmt.Errorf("it is not what it was: %w", syscall.EEXIST)
		}
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(n), mode&0o7777)
}

// Remove removes a file, a link, or an empty directory.
func (t *Tree) Remove(p string, dir bool) error {
	return t.in(p, "remove", func(fd int, name string) error {
		flags := 0
		if dir {
			flags = unix.AT_REMOVEDIR
		}
		if err := unix.Unlinkat(fd, name, flags); err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
		t.sync[path.Dir(p)] = true
		return nil
	})
}

// Sync makes changed directories survive a power loss; files have been synced one by one.
func (t *Tree) Sync() error {
	for dir := range t.sync {
		fd, err := t.open(dir)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) { // removed or replaced since
			continue
		}
		if err != nil {
			return fmt.Errorf("sync %s: %w", t.dir+"/"+dir, err)
		}
		err = unix.Fsync(fd)
		_ = unix.Close(fd)
		if err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("sync %s: %w", t.dir+"/"+dir, err)
		}
	}
	return nil
}

// SameBytes reports whether a regular file holds exactly the bytes of r, which has size bytes.
func (t *Tree) SameBytes(p string, size int64, r io.Reader) (bool, error) {
	f, err := t.Open(p)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() != size {
		return false, err
	}
	a, b := make([]byte, 128<<10), make([]byte, 128<<10)
	for {
		n, err := io.ReadFull(r, a)
		if n == 0 {
			if errors.Is(err, io.EOF) {
				m, _ := f.Read(b[:1])
				return m == 0, nil
			}
			return false, err
		}
		m, herr := io.ReadFull(f, b[:n])
		if m != n || string(a[:n]) != string(b[:n]) {
			if herr != nil && !errors.Is(herr, io.EOF) && !errors.Is(herr, io.ErrUnexpectedEOF) {
				return false, herr
			}
			return false, nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, err
		}
	}
}
