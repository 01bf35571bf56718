package fs

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// beneath is a host directory whose owner may change it while it is read. Nothing that is opened through it lies outside:
// no symbolic link is followed, also none that takes the place of a directory between two looks.
type beneath struct {
	root int
	step bool // the kernel has no openat2(2) (before 5.6), or somebody forbids it
}

func openBeneath(dir string) (*beneath, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	b := &beneath{root: fd}
	if probe, err := b.resolve(".", unix.O_PATH); err == nil {
		_ = unix.Close(probe) // nothing was written
	} else {
		b.step = true
	}
	return b, nil
}

func (b *beneath) close() { _ = unix.Close(b.root) } // read-only

// open opens rel, which is "" for the directory itself.
func (b *beneath) open(rel string, flags int) (int, error) {
	if rel == "" {
		rel = "."
	}
	if b.step {
		return b.walk(rel, flags)
	}
	return b.resolve(rel, flags)
}

func (b *beneath) resolve(rel string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(b.root, rel, &how)
		if err != unix.EINTR && err != unix.EAGAIN { // EAGAIN: something was renamed meanwhile
			return fd, err
		}
	}
}

// walk is resolve, one name after the other.
func (b *beneath) walk(rel string, flags int) (int, error) {
	at := b.root
	names := strings.Split(rel, "/")
	for i, name := range names {
		fl := flags
		if i < len(names)-1 {
			fl = unix.O_PATH | unix.O_DIRECTORY
		}
		fd, err := unix.Openat(at, name, fl|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		for errors.Is(err, unix.EINTR) {
			fd, err = unix.Openat(at, name, fl|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		if at != b.root {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = fd
	}
	return at, nil
}

// at is a path to name in an open directory for calls that know no descriptors.
func at(dir int, name string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name }

// readlinkat is os.Readlink in an open directory.
func readlinkat(dir int, name string) (string, error) {
	for n := 256; ; n *= 2 {
		buf := make([]byte, n)
		k, err := unix.Readlinkat(dir, name, buf)
		if err != nil || k < n {
			return string(buf[:max(k, 0)]), err
		}
	}
}

// lstatat is syscall.Lstat in an open directory.
func lstatat(dir int, name string, st *syscall.Stat_t) error {
	var u unix.Stat_t
	err := unix.Fstatat(dir, name, &u, unix.AT_SYMLINK_NOFOLLOW)
	*st = hostStat(&u)
	return err
}

func hostStat(u *unix.Stat_t) syscall.Stat_t {
	return syscall.Stat_t{
		Dev: u.Dev, Ino: u.Ino, Nlink: u.Nlink, Mode: u.Mode, Uid: u.Uid, Gid: u.Gid, Rdev: u.Rdev, Size: u.Size,
		Blksize: u.Blksize, Blocks: u.Blocks, Atim: syscall.Timespec(u.Atim), Mtim: syscall.Timespec(u.Mtim), Ctim: syscall.Timespec(u.Ctim),
	}
}
