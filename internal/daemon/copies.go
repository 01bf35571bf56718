package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// KeeperName is what the processes call themselves that `wsfs run` keeps in the namespaces of its programs.
const KeeperName = "wsfs-keeper"

// detachCopies takes the mount that was on point, and is gone here, out of the namespaces of running `wsfs run`s: they
// have a copy of every mount that was there when they began, and would keep it alive for as long as they run. What a
// program there has open in it stays usable. Only root can, and copies elsewhere, of containers say, are left alone.
func detachCopies(point string, minor int) {
	if os.Geteuid() != 0 || minor == 0 {
		return
	}
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return
	}
	for _, file := range names {
		// Unlike its command line, the name of a process can be read without waiting for it.
		if b, err := os.ReadFile(file); err != nil || string(bytes.TrimSpace(b)) != KeeperName {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || !hasCopy(pid, point, minor) {
			continue
		}
		onThreadOfItsOwn(func() { detachIn(pid, point) })
	}
}

// onThreadOfItsOwn runs fn on a thread that ends with it, because it may have been elsewhere. That is not the first thread of the process:
// that would not end, and /proc/self is what it sees.
func onThreadOfItsOwn(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onThreadOfItsOwn(fn) // on another, while this one is held
			runtime.UnlockOSThread()
			return
		}
		fn() // and never unlocked
	}()
	<-done
}

func hasCopy(pid int, point string, minor int) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return false
	}
	defer f.Close()
	mounts, err := parseMounts(f)
	if err != nil {
		return false
	}
	m := MountAt(mounts, point)
	return m != nil && m.Ours() && m.Minor == minor
}

func detachIn(pid int, point string) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it has just ended
	}
	defer unix.Close(fd)
	if unix.Unshare(unix.CLONE_FS) == nil && unix.Setns(fd, unix.CLONE_NEWNS) == nil {
		_ = unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // or it stays until the run ends
	}
}

// deviceOf is the minor number of the mount on point, 0 if there is none of ours.
func deviceOf(point string) int {
	mounts, err := Mounts()
	if err != nil {
		return 0
	}
	if m := MountAt(mounts, point); m != nil && m.Ours() {
		return m.Minor
	}
	return 0
}

// detachLater calls detachCopies once the mount is gone here, unless stop is called before.
func detachLater(point string, minor int) (stop func()) {
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if deviceOf(point) != minor {
				detachCopies(point, minor)
				return
			}
		}
	}()
	return func() { close(ended) }
}
