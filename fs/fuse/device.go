package fuse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

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
