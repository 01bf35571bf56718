package proc

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// dir is /proc/ID, opened: files opened through it belong to that very task, whatever becomes of the number.
type dir struct {
	fd int
	id int
}

func openDir(root string, id int) (dir, error) {
	fd, err := openRetry(unix.AT_FDCWD, root+"/"+strconv.Itoa(id), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return dir{}, fmt.Errorf("open process %d: %w", id, err)
	}
	return dir{fd: fd, id: id}, nil
}

func (d dir) close() { unix.Close(d.fd) }

// open returns a descriptor of one file of the task.
func (d dir) open(name string) (int, error) {
	fd, err := openRetry(d.fd, name, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open %s of process %d: %w", name, d.id, err)
	}
	return fd, nil
}

// read fills buf from the start of a file as far as it goes.
func (d dir) read(name string, buf []byte) ([]byte, error) {
	fd, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := io.ReadFull(fdReader(fd), buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read %s of process %d: %w", name, d.id, err)
	}
	return buf[:n], nil
}

// link returns the target of a symbolic link, "" if it may not be read.
func (d dir) link(name string) string {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(d.fd, name, buf[:])
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// buffer is what one goroutine reads the files of a task into.
type buffer [16 << 10]byte

const maxStat = 1024 // bytes of a stat file: 52 numbers and a name of at most 64 bytes

func openRetry(at int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(at, name, flags, 0)
		if !errors.Is(err, syscall.EINTR) {
			return fd, err
		}
	}
}

type fdReader int

func (fd fdReader) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), p)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// file is a descriptor that a cache owns and that checks use outside the lock: whoever lets go last closes it.
type file struct {
	fd   int
	refs atomic.Int32
}

func newFile(fd int) *file {
	f := &file{fd: fd}
	f.refs.Store(1)
	return f
}

func (f *file) acquire() *file {
	if f != nil {
		f.refs.Add(1)
	}
	return f
}

func (f *file) release() {
	if f != nil && f.refs.Add(-1) == 0 {
		unix.Close(f.fd)
	}
}

// pread reads from the start of the file; for comm and pagemap this never waits for the task.
func (f *file) pread(p []byte) (int, error) {
	for {
		n, err := unix.Pread(f.fd, p, 0)
		if err != syscall.EINTR { //nolint:errorlint // unwrapped, and on the path of every request
			return n, err
		}
	}
}

// sameSpace tells from a pagemap descriptor whether the address space it was opened on is still in use: the kernel looks
// at that first, and then refuses a read that is not a multiple of 8 bytes (fs/proc/task_mmu.c, pagemap_read).
func (f *file) sameSpace() bool {
	var b [1]byte
	_, err := f.pread(b[:])
	return err == syscall.EINVAL //nolint:errorlint // as above
}

// sharesSpace reports whether two processes have one address space (vfork, clone with CLONE_VM), and true if that cannot
// be found out.
func sharesSpace(pid1, pid2 int) bool {
	const kcmpVM = 1
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(pid1), uintptr(pid2), kcmpVM, 0, 0, 0)
	return errno != 0 || r == 0
}
