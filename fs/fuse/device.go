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

// mountDevice mounts on point and returns the connection's descriptor.
func mountDevice(ctx context.Context, point string, o *Options, source string) (int, error) {
	if os.Geteuid() != 0 {
		return mountHelper(ctx, point, o, source)
	}
	fd, err := mountDirect(point, o, source)
	if errors.Is(err, syscall.EPERM) { // root without CAP_SYS_ADMIN, as in most containers
		var herr error
		if fd, herr = mountHelper(ctx, point, o, source); herr != nil {
			return -1, errors.Join(err, herr)
		}
		err = nil
	}
	return fd, err
}

// mountDirect is mount(2), for those who may.
func mountDirect(point string, o *Options, source string) (int, error) {
	fd, err := unix.Open(o.DevFuse, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, explainDevice(o.DevFuse, err)
	}
	opts := []string{
		fmt.Sprintf("fd=%d", fd), "rootmode=40000", fmt.Sprintf("user_id=%d", os.Geteuid()),
		fmt.Sprintf("group_id=%d", os.Getegid()), "default_permissions", fmt.Sprintf("max_read=%d", o.MaxWrite),
	}
	if o.AllowOther {
		opts = append(opts, "allow_other")
	}
	var flags uintptr
	for _, f := range []struct {
		on   bool
		flag uintptr
	}{{!o.Suid, unix.MS_NOSUID}, {!o.Dev, unix.MS_NODEV}, {o.NoExec, unix.MS_NOEXEC}, {o.ReadOnly, unix.MS_RDONLY}} {
		if f.on {
			flags |= f.flag
		}
	}
	if err := unix.Mount(source, point, "fuse."+subtype, flags, strings.Join(opts, ",")); err != nil {
		_ = unix.Close(fd)
		return -1, explainMount(point, err)
	}
	return fd, nil
}

func explainDevice(dev string, err error) error {
	hint := "check the device"
	switch {
	case errors.Is(err, syscall.ENOENT):
		hint = "load the kernel's fuse module (modprobe fuse), or give the container the device (--device /dev/fuse)"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		hint = "run as root, or make it writable for you (chmod 666 " + dev + "; most systems have it so)"
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		hint = "this kernel has no FUSE: load the module (modprobe fuse)"
	}
	return fmt.Errorf("open %s: %w: %s", dev, err, hint)
}

func explainMount(point string, err error) error {
	hint := "see the kernel's log (dmesg)"
	switch {
	case errors.Is(err, syscall.EPERM):
		hint = "mounting needs CAP_SYS_ADMIN: run as root, or install fuse3 and mount as a user"
	case errors.Is(err, syscall.ENODEV):
		hint = "this kernel has no FUSE: load the module (modprobe fuse)"
	case errors.Is(err, syscall.EBUSY):
		hint = "the directory is in use as a mountpoint"
	}
	return fmt.Errorf("mount on %s: %w: %s", point, err, hint)
}

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
