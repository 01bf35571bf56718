package sqlite

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// warmBytes is how much of a database is read ahead: what lies behind is read as it is needed.
const warmBytes = 256 << 20

// warm has the system read the database into memory, from front to back, while the first queries are asked: one by one its pages take
// as long again as all that is done with them. It uses a descriptor of a connection, for there must be no other; see the package's trap.
func warm(dir string) error {
	path, err := filepath.EvalSymlinks(filepath.Join(dir, File))
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return err
	}
	const fds = "/proc/self/fd"
	list, err := os.ReadDir(fds)
	if err != nil {
		return err
	}
	for _, e := range list {
		if at, err := os.Readlink(filepath.Join(fds, e.Name())); err != nil || at != path {
			continue
		}
		if fd, err := strconv.Atoi(e.Name()); err == nil { // closed meanwhile, it is another file's at worst, which is read in vain
			return unix.Fadvise(fd, 0, warmBytes, unix.FADV_WILLNEED)
		}
	}
	return os.ErrNotExist
}
