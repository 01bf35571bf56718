package fuse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// helperPlaces is where distributions put fusermount3; the environment's PATH is not ours to read.
func helperPlaces() []string {
	return []string{"/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3", "/run/wrappers/bin/fusermount3"}
}

func findHelper(o *Options) (string, error) {
	places := helperPlaces()
	if o != nil && o.Fusermount != "" {
		places = []string{o.Fusermount}
	}
	for _, p := range places {
		if st, err := os.Stat(p); err == nil && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("find fusermount3 (looked at %s): %w: install the package fuse3, or run as root",
		strings.Join(places, ", "), iofs.ErrNotExist)
}

const helperTimeout = 20 * time.Second

// runHelper runs fusermount3 and returns what it complained of as the error.
func runHelper(ctx context.Context, bin string, extra *os.File, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if extra != nil {
		cmd.ExtraFiles = []*os.File{extra} // becomes descriptor 3
		cmd.Env = append(cmd.Env, "_FUSE_COMMFD=3")
	}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		msg := strings.TrimSpace(complaint.String())
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if msg == "" {
			return fmt.Errorf("%s %s: %w", filepath.Base(bin), strings.Join(args, " "), err)
		}
		return fmt.Errorf("%w: %s", helperErrno(msg, err), msg)
	}
	return nil
}

// helperErrno finds the errno behind fusermount3's words, so that callers can test for it; else err.
func helperErrno(msg string, err error) error {
	for _, e := range []syscall.Errno{
		syscall.EBUSY, syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.EINVAL, syscall.ENODEV, syscall.ENOTDIR, syscall.ENOTCONN,
	} {
		if strings.Contains(strings.ToLower(msg), e.Error()) {
			return e
		}
	}
	return err
}

// mountHelper lets the setuid program fusermount3 mount and send the descriptor back over a socket.
func mountHelper(ctx context.Context, point string, o *Options, source string) (int, error) {
	bin, err := findHelper(o)
	if err != nil {
		return -1, fmt.Errorf("mount on %s: %w", point, err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("mount on %s: make a socket pair: %w", point, err)
	}
	local, remote := os.NewFile(uintptr(pair[0]), "fusermount"), os.NewFile(uintptr(pair[1]), "fusermount")
	defer local.Close()
	escape := strings.NewReplacer(`\`, `\\`, ",", `\,`)
	opts := []string{
		"fsname=" + escape.Replace(source), "subtype=" + subtype, "default_permissions", fmt.Sprintf("max_read=%d", o.MaxWrite),
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{o.AllowOther, "allow_other"}, {o.ReadOnly, "ro"}, {o.NoExec, "noexec"}, {o.Suid, "suid"}, {o.Dev, "dev"}} {
		if f.on {
			opts = append(opts, f.name)
		}
	}
	err = runHelper(ctx, bin, remote, "-o", strings.Join(opts, ","), "--", point)
	_ = remote.Close()
	if err != nil {
		if strings.Contains(err.Error(), "user_allow_other") {
			err = fmt.Errorf("%w (add the line user_allow_other to /etc/fuse.conf as root, or mount without it)", err)
		}
		return -1, fmt.Errorf("mount on %s: %w", point, err)
	}
	fd, err := receiveFd(int(local.Fd()))
	if err != nil {
		return -1, fmt.Errorf("mount on %s: get the descriptor from fusermount3: %w", point, err)
	}
	return fd, nil
}

// receiveFd reads the one descriptor that was sent with SCM_RIGHTS.
func receiveFd(sock int) (int, error) {
	data, oob := make([]byte, 4), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(sock, data, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return -1, err
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err == nil && len(fds) == 1 {
			return fds[0], nil
		}
	}
	return -1, errors.New("it sent none")
}
