package runner

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/internal/daemon"
)

// bind shows the tree that the daemon mounted at the target, in this namespace alone. Mounts that the machine makes later
// still arrive here, as they do elsewhere.
func bind(spec *Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make the mounts of the namespace private: %w", err)
	}
	mounts, err := daemon.Mounts()
	if err != nil {
		return err
	}
	if m := daemon.MountAt(mounts, spec.Mount); m != nil && m.Ours() {
		err = unix.Mount(spec.Mount, spec.Target, "", unix.MS_BIND, "")
	} else {
		err = fetch(spec)
	}
	if err != nil {
		return fmt.Errorf("show the workspace on %s: %w", spec.Target, err)
	}
	return nil
}

// errElsewhere is for users who run inside of a run on a machine that does not pass mounts on.
var errElsewhere = errors.New("the daemon's mount is not to be seen from here, since the daemon lives in another mount namespace, and " +
	"only root can fetch it from there; start the run from outside of this one, or `wsfs mount` the workspace there before")

// fetch takes a copy of the mount from the daemon's namespace.
func fetch(spec *Spec) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread goes with the goroutine, it has been elsewhere
		result <- fetchHere(spec)
	}()
	return <-result
}

func fetchHere(spec *Spec) error {
	here, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(here)
	there, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", spec.Daemon), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Join(errElsewhere, err)
	}
	defer unix.Close(there)
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(there, unix.CLONE_NEWNS); err != nil {
		return errors.Join(errElsewhere, err)
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, spec.Mount, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if back := unix.Setns(here, unix.CLONE_NEWNS); back != nil {
		return back
	}
	if err != nil {
		return errors.Join(errElsewhere, err)
	}
	defer unix.Close(tree)
	var st unix.Statfs_t
	const fuseMagic = 0x65735546
	if err := unix.Fstatfs(tree, &st); err != nil || st.Type != fuseMagic {
		return errors.Join(errElsewhere, err, syscall.ENOENT)
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, spec.Target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}
