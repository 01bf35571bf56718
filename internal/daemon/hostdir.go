package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// hostDir checks a directory that is to be imported. The caller knows that it is on no mount of ours.
func hostDir(dir string) error {
	st, err := os.Lstat(dir)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("import %s: there is no such directory: %w", dir, syscall.ENOENT)
	case err != nil:
		return fmt.Errorf("import: %w", err)
	case !st.IsDir():
		return fmt.Errorf("import %s: only a directory can become a workspace: %w", dir, syscall.ENOTDIR)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".wsfs")); err == nil {
		return Fail(ExitFailed, "import %s: it holds an entry named .wsfs, which is reserved; rename it first: %w", dir, syscall.EEXIST)
	}
	return nil
}
