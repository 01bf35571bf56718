package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// runDir is the directory for mounts of runs, made if there is none. Only we may look into it.
func (d *Daemon) runDir() (string, error) {
	dir := d.o.RuntimeDir
	if dir == "" {
		return "", Fail(ExitFailed, "this daemon has no directory for mounts of runs: %w", syscall.ENOENT)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make a directory for mounts of runs: %w", err)
	}
	return dir, ownDir(dir)
}

// ownDir refuses a directory that is not one, or not ours alone.
func ownDir(dir string) error {
	var st syscall.Stat_t
	if err := syscall.Lstat(dir, &st); err != nil {
		return fmt.Errorf("look at the directory for mounts of runs: %w", err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return Fail(ExitFailed, "%s is not a directory that only we may use; remove it, or set XDG_RUNTIME_DIR: %w", dir, syscall.EPERM)
	}
	return nil
}

// runPoint makes an empty directory to mount on. As long as held is open nobody takes it for a leftover.
func (d *Daemon) runPoint(workspace string) (point string, held *os.File, err error) {
	dir, err := d.runDir()
	if err != nil {
		return "", nil, fmt.Errorf("mount %s for a run: %w", workspace, err)
	}
	d.clearRunPoints(dir)
	for range 100 {
		if point, err = os.MkdirTemp(dir, filepath.Base(workspace)+"."); err != nil {
			return "", nil, fmt.Errorf("mount %s for a run: %w", workspace, err)
		}
		if held, err = lockDir(point, unix.LOCK_SH); err == nil {
			if now, err := os.Lstat(point); err == nil && isDir(held, now) {
				return point, held, nil
			}
			_ = held.Close()
		}
		// Between the two calls somebody took it for a leftover.
	}
	return "", nil, fmt.Errorf("mount %s for a run: hold %s: %w", workspace, point, errors.Join(err, syscall.EBUSY))
}

func isDir(f *os.File, now os.FileInfo) bool {
	st, err := f.Stat()
	return err == nil && os.SameFile(st, now)
}

// lockDir opens a directory and locks it, without waiting. The lock ends with the process, however that ends.
func lockDir(dir string, how int) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	if err := unix.Flock(fd, how|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// clearRunPoints removes the empty directories that daemons left which were killed. It enters none: what is a mount, or is
// held by another daemon (whose mount may be in a namespace of its own), or holds anything, stays.
func (d *Daemon) clearRunPoints(dir string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	mounts, err := Mounts()
	if err != nil {
		return
	}
	for _, e := range list {
		point := filepath.Join(dir, e.Name())
		if !e.IsDir() || !isRunPoint(e.Name()) || MountAt(mounts, point) != nil {
			continue
		}
		f, err := lockDir(point, unix.LOCK_EX)
		if err != nil {
			continue
		}
		if err := unix.Rmdir(point); err == nil {
			d.log.Info("removed the mount point that a killed daemon left", "mountpoint", point)
		}
		_ = f.Close()
	}
}

// isRunPoint reports whether a name is one that runPoint makes: a workspace's, and a number.
func isRunPoint(name string) bool {
	i := strings.LastIndexByte(name, '.')
	return i > 0 && i+1 < len(name) && strings.Trim(name[i+1:], "0123456789") == ""
}
