package fuse

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// checkMountpoint says why point cannot be mounted on, and what to do about it. It returns the path to use.
func checkMountpoint(point string, nonEmpty bool) (string, error) {
	bad := func(e syscall.Errno, format string, a ...any) (string, error) {
		return "", fmt.Errorf("mount on %s: %w: %s", point, e, fmt.Sprintf(format, a...))
	}
	abs, err := filepath.Abs(point)
	if err != nil {
		return "", fmt.Errorf("mount on %s: %w", point, err)
	}
	// First the kernel's list: to stat a dead or hanging mount would fail or hang.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(dir, filepath.Base(abs))
	}
	e, mounted, err := mountAt(abs)
	if err != nil {
		return "", err
	}
	if mounted && strings.HasPrefix(e.Type, "fuse") {
		return bad(syscall.EBUSY, "%s (%s) is mounted there already; unmount it first: fusermount3 -u %s", e.Source, e.Type, abs)
	}
	st, err := os.Stat(abs)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return bad(syscall.ENOENT, "make the directory first: mkdir -p %s", abs)
	case errors.Is(err, syscall.ENOTCONN):
		return bad(syscall.ENOTCONN, "a mount whose server died is left there; clear it: fusermount3 -uz %s", abs)
	case err != nil:
		return "", fmt.Errorf("mount on %s: %w", point, err)
	case !st.IsDir():
		return bad(syscall.ENOTDIR, "choose a directory")
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return "", fmt.Errorf("mount on %s: %w", point, err)
	}
	if !nonEmpty {
		names, err := readSome(abs)
		if err != nil {
			return "", fmt.Errorf("mount on %s: %w", point, err)
		}
		if len(names) > 0 {
			return bad(syscall.ENOTEMPTY, "its files (%s, ...) would be hidden; choose an empty directory or allow it", names[0])
		}
	}
	return abs, nil
}

func readSome(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, _ := d.Readdirnames(1) // io.EOF of an empty one
	return names, nil
}
