package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
)

// uring is the transport over io_uring, which is off by default in the kernel.
func (x *examiner) uring() finding {
	const name = "io_uring"
	b, err := os.ReadFile(filepath.Join(x.sys, "module/fuse/parameters/enable_uring"))
	switch {
	case err != nil:
		return ok(name, "this kernel has no FUSE over io_uring; the default transport does not need it")
	case strings.TrimSpace(string(b)) == "Y":
		return ok(name, "`wsfs mount --transport=uring` is possible")
	}
	return ok(name, "`wsfs mount --transport=uring` is not possible; `echo Y > /sys/module/fuse/parameters/enable_uring` (as root) allows it")
}

// features are calls of the kernel that something is done without, slower or with less certainty.
func (x *examiner) features() finding {
	const name = "kernel features"
	var missing []string
	if fd, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}); err == nil {
		_ = unix.Close(fd) // only tried
	} else {
		missing = append(missing, "openat2 (imports walk name by name)")
	}
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_MNT_ID_UNIQUE, &st) != nil || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		missing = append(missing, "unique mount ids (a torn journal is judged as after a power cut)")
	}
	if fd, err := unix.PidfdOpen(os.Getpid(), 0); err == nil {
		_ = unix.Close(fd) // only tried
	} else {
		missing = append(missing, "pidfd_open (processes are recognised by their start time alone)")
	}
	if len(missing) > 0 {
		return warn(name, "use a newer kernel, or allow the calls in the container's seccomp profile", "without %s", strings.Join(missing, ", "))
	}
	return ok(name, "all that is used")
}

// limits are those that a daemon started from here would have.
func (x *examiner) limits() finding {
	const name = "limits"
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return warn(name, "", "%v", err)
	}
	if files.Max < 4096 {
		return warn(name, "raise it, in /etc/security/limits.conf or with LimitNOFILE= of a unit", "a daemon may open %d files; large trees of open files need more", files.Max)
	}
	var size unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &size); err == nil && size.Max != unix.RLIM_INFINITY && size.Max < 1<<30 {
		return warn(name, "ulimit -f unlimited", "files may have at most %s: packs and the database grow beyond that", ui.Bytes(int64(size.Max)))
	}
	return ok(name, "%d open files", files.Max)
}

// health is how a running daemon says that it is.
func (x *examiner) health(dir string) []finding {
	c, err := daemon.Dial(dir)
	if err != nil || c == nil {
		return nil // running says so
	}
	const name = "health"
	st, err := c.Status(context.Background())
	var list []finding
	switch {
	case err != nil:
		return []finding{fail(name, "", "%v", err)}
	case st.Stopped != "":
		list = append(list, fail(name, "mend the disk, then `wsfs daemon --replace`: mounts and what is open go on", "%s", st.Stopped))
	case st.Stalled != "":
		list = append(list, fail(name, "free space, or end the program that has the database; what was acknowledged is in the journal", "the database takes no changes: %s", st.Stalled))
	case st.LastError != "":
		list = append(list, warn(name, "look at "+ui.Quote(daemon.LogFile(dir)), "the last error in the log: %s", st.LastError))
	default:
		list = append(list, ok(name, "%s in the journal that the database does not have yet", ui.Plural(st.Ops-st.Applied, "change")))
	}
	return list
}

// backup says if the directory is a backup, which opens as a store only once.
func (x *examiner) backup(dir string) []finding {
	m, err := store.ReadBackup(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []finding{fail("backup", "make a new one", "%v", err)}
	}
	return []finding{warn("backup", "copy it back with `wsfs --store "+ui.Quote(dir)+" backup DIR`", "this is a backup of %s; opened for writing it becomes a store, and no further backup is written to it", m.Source)}
}

// space is how much of the store is what.
func (x *examiner) space(dir string) []finding {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil || s.Blocks == 0 {
		return nil
	}
	var used int64
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error { // what cannot be seen counts nothing
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				if st, ok := info.Sys().(*syscall.Stat_t); ok {
					used += st.Blocks * 512
				}
			}
		}
		return nil
	})
	total := int64(s.Blocks) * s.Bsize
	return []finding{ok("space", "%s", fmt.Sprintf("the store has %s of the %s of its disk", ui.Bytes(used), ui.Bytes(total)))}
}
