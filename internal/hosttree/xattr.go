package hosttree

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// onInode calls fn with a path that leads to the file or directory at p and nowhere else, whatever its name becomes.
func (t *Tree) onInode(p, what string, fn func(proc string) error) error {
	return t.in(p, what, func(fd int, name string) error {
		n, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(n)
		var st unix.Stat_t
		if err := unix.Fstat(n, &st); err != nil {
			return err
		}
		if st.Mode&syscall.S_IFMT == syscall.S_IFLNK { // the descriptor would be followed
			return syscall.ELOOP
		}
		return fn("/proc/self/fd/" + strconv.Itoa(n))
	})
}

// Xattrs reads the extended attributes of a file or directory, but access control lists, which no workspace has. able
// says whether the file system has any of users.
func (t *Tree) Xattrs(p string) (out map[string][]byte, able bool, err error) {
	err = t.onInode(p, "read the extended attributes of", func(proc string) error {
		list := make([]byte, 64<<10) // XATTR_LIST_MAX
		n, err := unix.Listxattr(proc, list)
		if err != nil {
			return err
		}
		value := make([]byte, 64<<10) // XATTR_SIZE_MAX
		_, err = unix.Getxattr(proc, "user.wsfs", value)
		able = !errors.Is(err, unix.ENOTSUP)
		for name := range strings.SplitSeq(string(list[:n]), "\x00") {
			if name == "" || strings.HasPrefix(name, "system.") {
				continue
			}
			k, err := unix.Getxattr(proc, name, value)
			if errors.Is(err, unix.ENODATA) || refused(err) {
				continue
			}
			if err != nil {
				return err
			}
			if out == nil {
				out = map[string][]byte{}
			}
			out[name] = append([]byte{}, value[:k]...)
		}
		return nil
	})
	if errors.Is(err, unix.ENOTSUP) {
		return nil, false, nil
	}
	return out, able, err
}

// SetXattrs gives a file or directory extended attributes; a nil value takes one away. no says which cannot be set there,
// and why.
func (t *Tree) SetXattrs(p string, set map[string][]byte) (no map[string]error, err error) {
	err = t.onInode(p, "set the extended attributes of", func(proc string) error {
		no, err = setXattrs(proc, set)
		return err
	})
	return no, err
}

// SetXattrs is Tree.SetXattrs for a file that is being written.
func SetXattrs(f *os.File, set map[string][]byte) (no map[string]error, err error) {
	if no, err = setXattrs("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), set); err != nil {
		return no, fmt.Errorf("set the extended attributes of %s: %w", f.Name(), err)
	}
	return no, nil
}

func setXattrs(proc string, set map[string][]byte) (map[string]error, error) {
	var no map[string]error
	for name, v := range set {
		var err error
		if v != nil {
			err = unix.Setxattr(proc, name, v, 0)
		} else if err = unix.Removexattr(proc, name); errors.Is(err, unix.ENODATA) {
			err = nil
		}
		switch {
		case err == nil:
		case !refused(err):
			return no, err
		case no == nil:
			no = map[string]error{name: err}
		default:
			no[name] = err
		}
	}
	return no, nil
}

// refused reports whether an attribute cannot be had there, by this user or on this file system.
func refused(err error) bool {
	return errors.Is(err, unix.ENOTSUP) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) ||
		errors.Is(err, syscall.ENOSPC) || errors.Is(err, unix.E2BIG) // ext4 keeps those of an inode in one block
}
