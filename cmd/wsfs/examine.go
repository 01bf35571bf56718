package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/internal/daemon"
	"wsfs/internal/runner"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// examiner looks at what wsfs needs. Its paths are fields so that tests can show it other machines.
type examiner struct {
	dev, fuseConf, proc, sys string
	exe                      string // this program
}

func (x *examiner) machine() []finding {
	list := []finding{x.device(), x.helper(), x.allowOther(), x.namespaces(), x.kernel(), x.features(), x.uring(), x.limits()}
	for _, f := range []finding{x.control(), x.hidepid(), x.watches()} {
		if f.Name != "" {
			list = append(list, f)
		}
	}
	return list
}

func (x *examiner) device() finding {
	const name = "FUSE device"
	f, err := os.OpenFile(x.dev, os.O_RDWR, 0)
	switch {
	case err == nil:
		_ = f.Close() // only tried
		return ok(name, "%s can be opened", x.dev)
	case errors.Is(err, os.ErrNotExist):
		return fail(name, "modprobe fuse (in a container: start it with --device /dev/fuse --cap-add SYS_ADMIN)", "%s does not exist", x.dev)
	case errors.Is(err, os.ErrPermission):
		return fail(name, "chmod 666 "+x.dev+" (as root), or run wsfs as root", "%s may not be opened by user %d", x.dev, os.Geteuid())
	}
	return fail(name, "modprobe fuse", "%s: %v", x.dev, err)
}

func (x *examiner) helper() finding {
	const name = "fusermount3"
	path := ""
	for _, p := range []string{"/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3", "/run/wrappers/bin/fusermount3"} {
		if _, err := os.Stat(p); err == nil {
			path = p
			break
		}
	}
	root := os.Geteuid() == 0
	switch st, err := os.Stat(path); {
	case path == "" && root:
		return warn(name, "apt-get install fuse3", "not found; root mounts without it, ordinary users cannot")
	case path == "":
		return fail(name, "apt-get install fuse3 (as root)", "not found; only root can mount without it")
	case err != nil:
		return fail(name, "apt-get install --reinstall fuse3 (as root)", "%v", err)
	case st.Mode()&os.ModeSetuid == 0 || st.Sys().(*syscall.Stat_t).Uid != 0:
		f := warn(name, "chown root "+path+" && chmod 4755 "+path+" (as root)", "%s is not set-user-id root; only root can mount", path)
		if !root {
			f.State = "fail"
		}
		return f
	}
	if out, err := exec.Command(path, "--version").Output(); err == nil {
		return ok(name, "%s, %s", path, strings.TrimSpace(string(out)))
	}
	return ok(name, "%s", path)
}

func (x *examiner) allowOther() finding {
	const name = "allow_other"
	if os.Geteuid() == 0 {
		return ok(name, "root may use -o allow_other")
	}
	f, err := os.Open(x.fuseConf)
	if err == nil {
		defer f.Close()
		for sc := bufio.NewScanner(f); sc.Scan(); {
			if strings.TrimSpace(sc.Text()) == "user_allow_other" {
				return ok(name, "ordinary users may use -o allow_other")
			}
		}
	}
	return warn(name, "echo user_allow_other >> "+x.fuseConf+" (as root)", "only needed for -o allow_other: %s does not have user_allow_other", x.fuseConf)
}

// namespaces tries what `wsfs run` needs.
func (x *examiner) namespaces() finding {
	const name = "namespaces"
	err := runner.Probe(x.exe)
	var e *runner.NamespaceError
	switch {
	case err == nil:
		return ok(name, "`wsfs run` may make mount namespaces")
	case errors.As(err, &e):
		return warn(name, e.Advice(), "`wsfs run` may not make mount namespaces: %v", e.Err)
	}
	return warn(name, "", "%v", err)
}

func (x *examiner) kernel() finding {
	const name = "kernel"
	b, err := os.ReadFile(filepath.Join(x.proc, "sys/kernel/osrelease"))
	if err != nil {
		return warn(name, "", "its version is not known: %v", err)
	}
	release := strings.TrimSpace(string(b))
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return warn(name, "", "its version %q is not understood", release)
	}
	switch v := major*1000 + minor; {
	case v < 5004:
		return fail(name, "use Linux 5.4 or newer", "Linux %s is too old", release)
	case v < 5012:
		return warn(name, "use Linux 5.12 or newer", "Linux %s: every write costs one more request", release)
	}
	return ok(name, "Linux %s", release)
}

// control is the file system that ends a connection whose mount is busy.
func (x *examiner) control() finding {
	if os.Geteuid() != 0 {
		return finding{}
	}
	if entries, err := os.ReadDir(filepath.Join(x.sys, "fs/fuse/connections")); err == nil && entries != nil {
		return finding{}
	}
	if mounts, err := daemon.Mounts(); err == nil {
		for i := range mounts {
			if mounts[i].Type == "fusectl" {
				return finding{}
			}
		}
	}
	return warn("fusectl", "mount -t fusectl fusectl /sys/fs/fuse/connections", "not mounted; a hanging mount can only be ended by its daemon")
}

// hidepid keeps other users' processes from being recognised.
func (x *examiner) hidepid() finding {
	b, err := os.ReadFile(filepath.Join(x.proc, "self/mountinfo"))
	if err != nil || os.Geteuid() == 0 {
		return finding{}
	}
	for _, line := range strings.Split(string(b), "\n") {
		if strings.Contains(line, " /proc ") && strings.Contains(line, "hidepid=") && !strings.Contains(line, "hidepid=0") {
			return warn("attribution", "mount -o remount,hidepid=0 /proc (as root)", "/proc hides other users' processes; what they change has no command")
		}
	}
	return finding{}
}

func (x *examiner) watches() finding {
	b, err := os.ReadFile(filepath.Join(x.proc, "sys/fs/inotify/max_user_watches"))
	if err != nil {
		return finding{}
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n < 65536 {
		return warn("inotify", "sysctl fs.inotify.max_user_watches=524288 (as root)", "programs that watch large trees may watch only %d directories", n)
	}
	return finding{}
}

func (x *examiner) store(dir string) []finding {
	st, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return []finding{warn("store", "wsfs init --store "+ui.Quote(dir), "there is none in %s", dir)}
	}
	if err != nil {
		return []finding{fail("store", "", "%v", err)}
	}
	if _, err := os.Stat(filepath.Join(dir, sqlite.File)); err != nil {
		return []finding{warn("store", "wsfs init --store "+ui.Quote(dir), "%s holds no store", dir)}
	}
	var list []finding
	err = peek(context.Background(), dir)
	switch {
	case err != nil:
		return []finding{fail("store", "wsfs check --store "+ui.Quote(dir)+" says more; restore a backup", "%v", err)}
	case unix.Access(dir, unix.W_OK) != nil:
		list = append(list, fail("store", "run as the owner of "+ui.Quote(dir)+", or chown it", "%s may not be written by user %d", dir, os.Geteuid()))
	case st.Mode().Perm()&0o077 != 0:
		list = append(list, warn("store", "chmod 700 "+ui.Quote(dir), "%s may be read by others (mode %04o): it holds every version of every file", dir, st.Mode().Perm()))
	default:
		list = append(list, ok("store", "%s", dir))
	}
	list = append(list, x.disk(dir), x.running(dir), x.stale(dir))
	list = append(list, x.health(dir)...)
	list = append(list, x.backup(dir)...)
	list = append(list, x.history(dir)...)
	return append(list, x.space(dir)...)
}

func (x *examiner) disk(dir string) finding {
	const name = "disk"
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fail(name, "", "%v", err)
	}
	free := int64(s.Bavail) * s.Bsize
	switch {
	case s.Type == unix.NFS_SUPER_MAGIC || s.Type == unix.SMB_SUPER_MAGIC || s.Type == unix.SMB2_SUPER_MAGIC || s.Type == unix.CIFS_SUPER_MAGIC:
		return fail(name, "move the store to a local disk", "%s is on a network file system, where SQLite's log is not safe", dir)
	case s.Type == unix.FUSE_SUPER_MAGIC:
		return warn(name, "move the store to a local disk", "%s is on a FUSE file system", dir)
	case free < 64<<20:
		return fail(name, "free space on the disk of "+ui.Quote(dir), "only %s are free", ui.Bytes(free))
	case free < 1<<30:
		return warn(name, "free space on the disk of "+ui.Quote(dir), "only %s are free", ui.Bytes(free))
	case s.Files > 0 && s.Ffree < 1000:
		return warn(name, "remove files from the disk of "+ui.Quote(dir), "only %d inodes are free", s.Ffree)
	}
	return ok(name, "%s free", ui.Bytes(free))
}

func (x *examiner) running(dir string) finding {
	const name = "daemon"
	c, err := daemon.Dial(dir)
	if err != nil {
		return fail(name, "run as the user who runs the daemon", "%v", err)
	}
	if c != nil {
		return ok(name, "answers on %s", daemon.SocketPath(dir))
	}
	info, err := store.ReadLock(dir)
	if err == nil && info.Socket != "" && unix.Kill(info.PID, 0) == nil {
		return warn(name, fmt.Sprintf("kill %d, then `wsfs mount` again", info.PID), "process %d was the last to serve the store and exists, but does not answer", info.PID)
	}
	return ok(name, "none is running; `wsfs mount` starts one")
}

func (x *examiner) stale(dir string) finding {
	const name = "mounts"
	left, err := daemon.StaleMounts(dir)
	if err != nil {
		return fail(name, "", "%v", err)
	}
	c, err := daemon.Dial(dir)
	if len(left) == 0 || err != nil {
		return ok(name, "none is dead")
	}
	if c != nil {
		return ok(name, "%d, none is dead", len(left))
	}
	return fail(name, "wsfs umount "+ui.Quote(left[0].Point), "%s: its daemon died", left[0].Point)
}
