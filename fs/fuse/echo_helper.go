package fuse

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// echoOp is one file operation by which the kernel tells watchers what has happened already. Paths are relative to the
// root of what the helper was given, "" being that root.
type echoOp struct {
	kind      echoKind
	dir, name string
	toDir, to string // of echoRename and echoExchange
}

// echoKind is one letter, as it goes over the pipe.
type echoKind byte

// What an operation raises in inotify's words.
const (
	echoCreate   echoKind = 'c' // CREATE, OPEN, CLOSE_WRITE
	echoReplace  echoKind = 'p' // CREATE, OPEN, MODIFY, CLOSE_WRITE: the second half of a file that comes back as another inode
	echoMknod    echoKind = 'n' // CREATE of a regular file, with fewer requests
	echoMkdir    echoKind = 'd'
	echoSymlink  echoKind = 'l'
	echoFIFO     echoKind = 'f'
	echoSocket   echoKind = 's'
	echoModify   echoKind = 'm' // OPEN, MODIFY, CLOSE_WRITE
	echoAttrib   echoKind = 'a' // ATTRIB
	echoUnlink   echoKind = 'u'
	echoRmdir    echoKind = 'r'
	echoRename   echoKind = 'v' // MOVED_FROM, MOVED_TO
	echoExchange echoKind = 'x'
)

// RunEchoHelper is the whole life of the helper process: it does what it reads from in and reports to out, see
// echoProcess. The process must have no /dev/fuse descriptor and one thread that does this, since the kernel names a
// caller by its thread. It never follows a symbolic link and never leaves the file system it was sent to.
func RunEchoHelper(in io.Reader, out io.Writer) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := fmt.Fprintf(out, "thread %d\n", unix.Gettid()); err != nil {
		return err
	}
	r := newEchoReader(in)
	var head [3]string
	for i := range head {
		s, err := r.ReadString(0)
		if i == 0 && s == "" && err == io.EOF { // there is nothing to tell after all
			return nil
		}
		if err != nil {
			return fmt.Errorf("echo helper: read what to do: %w", err)
		}
		head[i] = s[:len(s)-1]
	}
	dev, err1 := strconv.ParseUint(head[1], 10, 64)
	limit, err2 := strconv.ParseInt(head[2], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("echo helper: %w", err)
	}
	h := &echoHelper{dev: dev, until: time.Now().Add(time.Duration(limit))}
	if err := h.open(head[0]); err != nil {
		return err
	}
	defer h.close()
	if err := h.probe(); err != nil {
		return err
	}
	return h.all(r, out)
}

type echoHelper struct {
	dev     uint64 // of the file system to stay on
	until   time.Time
	root    int // O_PATH
	dirFd   int // O_PATH of dirName
	dirName string
}

// open refuses a directory that is not the mount any more: what would be raised events there are real changes elsewhere.
func (h *echoHelper) open(root string) error {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("echo helper: open %s: %w", root, err)
	}
	h.root, h.dirFd = fd, -1
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("echo helper: stat %s: %w", root, err)
	}
	if st.Dev != h.dev {
		_ = unix.Close(fd)
		return fmt.Errorf("echo helper: %s is not the mount any more: %w", root, unix.ESTALE)
	}
	return nil
}

// probe makes sure that the server knows this thread as its helper's, and does not take what follows for real changes.
func (h *echoHelper) probe() error {
	name := echoProbe + strconv.Itoa(unix.Getpid()) // nobody has asked for it before, so the kernel must ask the server
	fd, err := openBelow(h.root, name, unix.O_PATH)
	if err == nil {
		_ = unix.Close(fd)
	}
	if !errors.Is(err, echoKnown) {
		return fmt.Errorf("echo helper: the server does not know its helper (%v); another pid namespace?", err)
	}
	return nil
}

// echoKnown is what only a helper is answered, when it looks for a name that begins with echoProbe.
const (
	echoKnown = unix.EOWNERDEAD
	echoProbe = ".wsfs-echo-"
)

func (h *echoHelper) close() {
	h.leave()
	_ = unix.Close(h.root)
}

func (h *echoHelper) leave() {
	if h.dirFd >= 0 {
		_ = unix.Close(h.dirFd)
		h.dirFd = -1
	}
}

// all performs operations until there are no more or time is up.
func (h *echoHelper) all(r *bufio.Reader, out io.Writer) error {
	n := 0
	for ; ; n++ {
		op, err := readEchoOp(r)
		if errors.Is(err, io.EOF) || n%16 == 0 && time.Now().After(h.until) {
			break
		}
		if err != nil {
			return fmt.Errorf("echo helper: read operation %d: %w", n, err)
		}
		if err := h.do(&op); err != nil {
			var errno unix.Errno
			errors.As(err, &errno)
			if _, err := fmt.Fprintf(out, "failed %d %d\n", n, int(errno)); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(out, "done %d\n", n)
	return err
}

func readEchoOp(r *bufio.Reader) (echoOp, error) {
	var f [5]string
	for i := range f {
		s, err := r.ReadString(0)
		if err != nil {
			if i > 0 || s != "" {
				err = io.ErrUnexpectedEOF
			}
			return echoOp{}, err
		}
		f[i] = s[:len(s)-1]
	}
	if len(f[0]) != 1 {
		return echoOp{}, fmt.Errorf("%w: kind %q", unix.EINVAL, f[0])
	}
	return echoOp{echoKind(f[0][0]), f[1], f[2], f[3], f[4]}, nil
}

// appendTo is what readEchoOp reads. Neither names nor paths hold a NUL.
func (op *echoOp) appendTo(b []byte) []byte {
	b = append(b, byte(op.kind), 0)
	for _, s := range [...]string{op.dir, op.name, op.toDir, op.to} {
		b = append(append(b, s...), 0)
	}
	return b
}

// how keeps every path below its directory, off links and off other mounts.
const echoResolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

func openBelow(dir int, path string, flags int) (int, error) {
	if path == "" {
		path = "."
	}
	return unix.Openat2(dir, path, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: echoResolve})
}

// enter opens the directory of an operation; the last one stays open.
func (h *echoHelper) enter(dir string) (int, error) {
	if h.dirFd >= 0 && h.dirName == dir {
		return h.dirFd, nil
	}
	h.leave()
	fd, err := openBelow(h.root, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	h.dirFd, h.dirName = fd, dir
	return fd, nil
}

func (h *echoHelper) do(op *echoOp) error {
	dir, err := h.enter(op.dir)
	if err != nil {
		return err
	}
	switch op.kind {
	case echoCreate, echoReplace:
		fd, err := unix.Openat2(dir, op.name, &unix.OpenHow{
			Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NONBLOCK | unix.O_CLOEXEC, Mode: 0o600, Resolve: echoResolve,
		})
		if err == nil {
			if op.kind == echoReplace {
				err = touchSize(fd)
			}
			err = errors.Join(err, unix.Close(fd))
		}
		return err
	case echoModify:
		fd, err := openBelow(dir, op.name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW)
		if err != nil {
			// A file that we may not write, or a program that runs: its attributes at least can be said to have changed.
			return errors.Join(err, chmodSame(dir, op.name))
		}
		return errors.Join(touchSize(fd), unix.Close(fd))
	case echoAttrib:
		return chmodSame(dir, op.name)
	case echoMkdir:
		return unix.Mkdirat(dir, op.name, 0o700)
	case echoSymlink:
		return unix.Symlinkat(".", dir, op.name) // the target is not looked at: the link is there already
	case echoMknod:
		return unix.Mknodat(dir, op.name, unix.S_IFREG|0o600, 0)
	case echoFIFO:
		return unix.Mknodat(dir, op.name, unix.S_IFIFO|0o600, 0)
	case echoSocket:
		return unix.Mknodat(dir, op.name, unix.S_IFSOCK|0o600, 0)
	case echoUnlink:
		return unix.Unlinkat(dir, op.name, 0)
	case echoRmdir:
		if err := ask(dir, op.name); err != nil {
			return err
		}
		return unix.Unlinkat(dir, op.name, unix.AT_REMOVEDIR)
	case echoRename, echoExchange:
		return h.rename(dir, op)
	}
	return unix.EINVAL
}

func (h *echoHelper) rename(dir int, op *echoOp) error {
	to, err := openBelow(h.root, op.toDir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	defer h.leave() // the path of the open directory may be another now
	flags := uint(unix.RENAME_NOREPLACE)
	if op.kind == echoExchange {
		flags = unix.RENAME_EXCHANGE
	}
	return unix.Renameat2(dir, op.name, to, op.to, flags)
}

// ask makes the kernel ask for the attributes of a directory. So the server learns which one the kernel has there.
func ask(dir int, name string) error {
	fd, err := openBelow(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	var st unix.Statx_t
	_ = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &st) // an error is an answer too
	return unix.Close(fd)                                                                            // before it is removed, or watchers of it would hear of that later
}

// touchSize truncates a file to the size that it has.
func touchSize(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return unix.Ftruncate(fd, st.Size)
}

// chmodSame sets the mode that a file or directory has.
func chmodSame(dir int, name string) error {
	fd, err := openBelow(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil // has no mode
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), st.Mode&0o7777)
}

func newEchoReader(in io.Reader) *bufio.Reader { return bufio.NewReaderSize(in, 64<<10) }
