package store

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// plainFiles refuses a store in which something is not what wsfs makes: a symbolic link, a device, a FIFO in the place of
// a file or directory. Such a store may come from somebody else, in an archive say, and opening it would write to whatever
// its links lead to. It looks at names that wsfs uses, without following them.
func plainFiles(dir string) error {
	refuse := func(path string, st iofs.FileInfo) error {
		return fmt.Errorf("open store %s: %s is %v and not what wsfs makes there; nothing was opened: %w", dir, path, st.Mode().Type(), syscall.EINVAL)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // who opens it says so
	}
	if err != nil {
		return fmt.Errorf("open store %s: %w", dir, err)
	}
	list := make([]string, 0, len(entries))
	for _, e := range entries {
		list = append(list, filepath.Join(dir, e.Name()))
		if e.Name() != "packs" && e.Name() != "journal" || !e.IsDir() {
			continue
		}
		inner, err := os.ReadDir(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("open store %s: %w", dir, err)
		}
		for _, f := range inner {
			if !f.Type().IsRegular() {
				list = append(list, filepath.Join(dir, e.Name(), f.Name()))
			}
		}
	}
	for _, path := range list {
		st, err := os.Lstat(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return fmt.Errorf("open store %s: %w", dir, err)
		case st.IsDir() || st.Mode().IsRegular():
		case st.Mode().Type() == os.ModeSocket && filepath.Dir(path) == filepath.Clean(dir):
		default:
			return refuse(path, st)
		}
	}
	return nil
}
