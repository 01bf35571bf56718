package fs

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"wsfs/blob"
)

// Errno is the one translation from an error to what a program gets. Errors that name no errno are EIO: they come
// from the disk or the database and are logged where they arise.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var errno syscall.Errno
	switch {
	case errors.Is(err, blob.ErrCorrupt):
		return syscall.EIO
	case errors.As(err, &errno):
		return errno
	case errors.Is(err, context.Canceled):
		return syscall.EINTR
	}
	return syscall.EIO
}

func nameErr(op, name string, errno syscall.Errno) error {
	return &opError{op: op, name: name, errno: errno}
}

func inoErr(op string, n *node, errno syscall.Errno) error {
	return &opError{op: op, name: fmt.Sprintf("inode %d", n.ino), errno: errno}
}

// opError defers formatting: most of these errors are answers such as ENOENT that nobody prints.
type opError struct {
	op, name string
	errno    syscall.Errno
}

func (e *opError) Error() string { return fmt.Sprintf("%s %q: %v", e.op, e.name, e.errno) }
func (e *opError) Unwrap() error { return e.errno }
