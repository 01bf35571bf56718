package fstest_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStalledDisk stops the disk below the store, so that a blob that has to be read, an fsync, and a file that waits for
// its journal wait in the daemon, besides somebody who waits for a lock: whoever asks for what is in memory is answered
// all the same. The order of events shows it, since the disk goes on only after that. (Reads of /proc that wait are
// TestDeadlock's.)
func TestStalledDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the disk that can be stopped is a mount of its own, which needs root")
	}
	bin := buildLoopback(t)
	for _, tr := range transports() {
		t.Run(tr, func(t *testing.T) { stall(t, bin, tr) })
	}
}

func buildLoopback(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "loopback")
	if out, err := exec.Command("go", "build", "-o", bin, "wsfs/scripts/loopback").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// stoppable mounts a disk that resume(false) stops, by the program that buildLoopback made.
func stoppable(t *testing.T, bin string, flags ...string) (dir string, resume func(bool)) {
	t.Helper()
	base := t.TempDir()
	back, dir := filepath.Join(base, "back"), filepath.Join(base, "disk")
	for _, d := range []string{back, dir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bin, append(flags, "-passthrough=false", back, dir)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if !waitFor(time.Minute, func() bool { return connection(dir) != "" }) {
		t.Fatal("the disk was not mounted")
	}
	return dir, func(on bool) {
		sig := unix.SIGSTOP
		if on {
			sig = unix.SIGCONT
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Error(err)
		}
	}
}

func stall(t *testing.T, bin, transport string) {
	disk, resume := stoppable(t, bin)
	w := newWorldIn(t, disk)
	w.workspace("main")
	dir := filepath.Join(t.TempDir(), "mnt") // not on that disk
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.remount("main", dir, "--transport="+transport)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"cold", "warm", "locked", "other"} {
		if err := os.WriteFile(at(name), bytes.Repeat([]byte(name+"\n"), 1<<16), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.stop() // nothing of cold is in memory after that
	w.remount("main", dir, "--transport="+transport)
	holder, dirty := open(t, at("locked")), open(t, at("warm"))
	if err := unix.Flock(int(holder.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := dirty.WriteAt([]byte("dirty"), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cold", "other"} { // their attributes are in memory
		if _, err := os.Stat(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	waiter, cold := open(t, at("locked")), open(t, at("cold"))
	pid := w.pid()
	resume(false)
	t.Cleanup(func() { resume(true) })
	waits := map[string]func() error{
		"lock":   func() error { return unix.Flock(int(waiter.Fd()), unix.LOCK_EX) },
		"fsync":  dirty.Sync,
		"read":   func() error { _, err := cold.ReadAt(make([]byte, 4096), 1<<18); return err },
		"create": func() error { return os.WriteFile(at("new"), []byte("new"), 0o644) },
	}
	ended := make(chan string, len(waits))
	for name, wait := range waits {
		go func() { ended <- fmt.Sprintf("%s: %v", name, wait()) }()
	}
	answered := make(chan error, 1)
	go func() {
		for i := range 300 { // long enough for all of them to be there
			for _, name := range []string{"other", "cold", "locked"} {
				if i == 0 {
					t.Log("stat", name)
				}
				var st unix.Statx_t
				if err := unix.Statx(unix.AT_FDCWD, at(name), unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
					answered <- fmt.Errorf("%s: %w", name, err)
					return
				}
			}
			time.Sleep(time.Millisecond)
		}
		answered <- nil
	}()
	select {
	case err := <-answered:
		if err != nil {
			t.Errorf("stat: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("stat waits for the disk")
		_ = unix.Kill(pid, unix.SIGQUIT) // the log tells where
	}
	for range len(ended) {
		got := <-ended
		t.Errorf("it did not wait: %s", got)
		ended <- got
	}
	resume(true)
	if err := unix.Flock(int(holder.Fd()), unix.LOCK_UN); err != nil {
		t.Error(err)
	}
	for range waits {
		select {
		case got := <-ended:
			if !bytes.HasSuffix([]byte(got), []byte(": <nil>")) {
				t.Error(got)
			}
		case <-time.After(time.Minute):
			t.Fatal("the disk goes on, but not everybody was answered")
		}
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
