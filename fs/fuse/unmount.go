package fuse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// unmountPath unmounts what is on point; lazy detaches it now and ends it when its last user is gone. EBUSY says that
// somebody uses it.
func unmountPath(ctx context.Context, point string, o *Options, lazy bool) error {
	err := error(syscall.EPERM)
	if os.Geteuid() == 0 {
		flags := unix.UMOUNT_NOFOLLOW
		if lazy {
			flags |= unix.MNT_DETACH
		}
		err = unix.Unmount(point, flags)
	}
	if errors.Is(err, syscall.EPERM) {
		var bin string
		if bin, err = findHelper(o); err == nil {
			flag := "-u"
			if lazy {
				flag = "-uz"
			}
			err = runHelper(ctx, bin, nil, flag, "--", point)
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("unmount %s: %w: a program has a file or its working directory there (fuser -vm %s lists them)", point, err, point)
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("unmount %s: %w: nothing is mounted there", point, err)
	}
	return fmt.Errorf("unmount %s: %w", point, err)
}

// UnmountPath clears a mount that has no server in this process, such as one whose daemon was killed. It never touches
// the files in it.
func UnmountPath(ctx context.Context, point string, lazy bool) error {
	return unmountPath(ctx, point, nil, lazy)
}

// forceUnmount is umount -f -l: the kernel ends the connection, whoever uses it, and the mount is gone. Root only.
func forceUnmount(point string) error {
	if err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW|unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
		return fmt.Errorf("force the unmount of %s: %w", point, err)
	}
	return nil
}

// abortPath is where writing anything ends connection n. It is there only where fusectl is mounted.
func abortPath(n uint32) string {
	return "/sys/fs/fuse/connections/" + strconv.FormatUint(uint64(n), 10) + "/abort"
}

// abortConnection makes the kernel fail everything in flight and to come on connection n, with ENOTCONN.
func abortConnection(n uint32) error {
	f, err := os.OpenFile(abortPath(n), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("abort FUSE connection %d: %w", n, err)
	}
	_, err = f.WriteString("1\n")
	return errors.Join(err, f.Close())
}
