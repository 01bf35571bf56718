package fuse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// shutdownWait is how long Shutdown lets the users of a mount finish before it cuts them off.
const shutdownWait = 2 * time.Second

// copyWait is how long Unmount waits for the end of a mount that is gone here: the namespaces of `wsfs run`s have copies
// that the daemon takes away meanwhile, and that takes a while where the processor is busy.
const copyWait = 5 * time.Second

// Unmount takes the mount away and waits for its end; EBUSY if somebody uses it. With lazy it disappears from the tree
// at once and is served on until its last user is gone, which Wait waits for.
func (m *Mount) Unmount(ctx context.Context, lazy bool) error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	if m.ended() {
		return nil
	}
	if err := unmountPath(ctx, m.point, &m.opts, lazy); err != nil {
		if m.ended() { // somebody else was faster
			return nil
		}
		return err
	}
	if lazy {
		return nil
	}
	select {
	case <-m.done:
		return m.err
	case <-time.After(copyWait):
		// Another mount namespace holds a copy; it is served until that goes away.
		return fmt.Errorf("unmount %s: %w: it is gone here, but a copy of it lives in another mount namespace", m.point, syscall.EBUSY)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shutdown ends the mount for sure: it unmounts, gives users two seconds, and then takes it away and fails whatever
// they still do with ENOTCONN. What was acknowledged to them is safe all the same.
func (m *Mount) Shutdown(ctx context.Context) error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	limit := time.NewTimer(shutdownWait)
	defer limit.Stop()
	gone := false
	for !m.ended() {
		if !gone {
			err := unmountPath(ctx, m.point, &m.opts, false)
			gone = err == nil || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT)
		}
		select {
		case <-m.done:
			return m.err
		case <-time.After(50 * time.Millisecond):
			continue
		case <-ctx.Done():
		case <-limit.C:
		}
		break
	}
	if m.ended() {
		return m.err
	}
	m.log.Warn("mount is busy: its users are cut off")
	return m.abort()
}

// Abort ends the mount at once, whoever uses it: whatever they do there fails with ENOTCONN.
func (m *Mount) Abort() error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	return m.abort()
}

// abort has three ways to end the connection, since each is missing somewhere: /sys/fs/fuse/connections (fusectl not
// mounted, in most containers), umount -f (root, while the mount is in our tree), and closing the descriptor, which our
// own transport does when asked to stop.
func (m *Mount) abort() error {
	err := error(syscall.ENOENT)
	if m.minor != 0 {
		err = abortConnection(m.minor)
	}
	if err != nil && m.attached() {
		err = errors.Join(err, forceUnmount(m.point))
	}
	m.transport.stop()
	select {
	case <-m.done:
		return m.err
	case <-time.After(shutdownWait):
		return fmt.Errorf("end the mount on %s: %w: a handler does not return, or the connection could not be ended: %w",
			m.point, syscall.EBUSY, err)
	}
}

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
