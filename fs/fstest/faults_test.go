package fstest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUserKill: the life of a mount after kill -9 as an ordinary user, too: fusermount3 clears the stale one.
func TestUserKill(t *testing.T) {
	w, dir := newMount(t)
	for i := range 3 {
		name := filepath.Join(dir, fmt.Sprintf("f%d", i))
		if err := os.WriteFile(name, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		w.kill()
		if _, err := os.ReadDir(dir); err == nil {
			t.Errorf("a mount without its daemon can be read")
		}
		w.remount("main", dir)
		if b, err := os.ReadFile(name); err != nil || string(b) != name {
			t.Errorf("after kill %d: %q, %v", i, b, err)
		}
	}
}

// TestOrphans: files that were unlinked while they were open when the daemon died leave nothing behind (s17).
func TestOrphans(t *testing.T) {
	w, dir := newMount(t)
	var open []*os.File
	for i := range 100 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, f)
		if _, err := f.WriteString("orphan"); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
	}
	w.kill()
	for _, f := range open {
		_ = f.Close()
	}
	w.remount("main", dir)
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("after the kill: %d names, %v", len(list), err)
	}
	w.wsfs("check")
}

// TestTwoMounts: what one mount of a workspace does, the other one shows soon, whatever its kernel has cached (s57).
func TestTwoMounts(t *testing.T) {
	w, a := newMount(t)
	b := w.mount("main")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// soon bounds only how long a failure takes; the kernel of the other mount is told within milliseconds.
	soon := func(what string, cond func() bool) {
		t.Helper()
		if !waitFor(time.Minute, cond) {
			t.Fatalf("the other mount does not show it: %s", what)
		}
	}
	missing := func(name string) func() bool {
		return func() bool { _, err := os.Lstat(name); return os.IsNotExist(err) }
	}
	for round := range 30 {
		from, to := a, b
		if round%2 == 1 {
			from, to = to, from
		}
		name := fmt.Sprintf("f%d", round%3)
		at := func(dir, name string) string { return filepath.Join(dir, name) }
		reads := func(name, want string) func() bool {
			return func() bool { b, err := os.ReadFile(at(to, name)); return err == nil && string(b) == want }
		}
		_, _ = os.Lstat(at(to, name)) // fills the other one's cache, perhaps with "no such file"
		_, _ = os.ReadDir(to)
		want := fmt.Sprintf("round %d", round)
		check(os.WriteFile(at(from, name), []byte(want), 0o644))
		soon("a new file", reads(name, want))
		f, err := os.OpenFile(at(from, name), os.O_WRONLY|os.O_APPEND, 0)
		check(err)
		_, err = f.WriteString(" and more")
		check(err)
		soon("an append to a file that is still open", reads(name, want+" and more"))
		check(f.Close())
		check(os.Chmod(at(from, name), 0o600))
		soon("a mode and a size", func() bool {
			st, err := os.Stat(at(to, name))
			return err == nil && st.Mode().Perm() == 0o600 && st.Size() == int64(len(want)+9)
		})
		check(os.Rename(at(from, name), at(from, "moved")))
		soon("the old name gone", missing(at(to, name)))
		soon("the new name", reads("moved", want+" and more"))
		check(os.Mkdir(at(to, "d"), 0o755))
		check(os.WriteFile(at(to, "d/x"), nil, 0o644))
		from, to = to, from
		soon("a new directory", func() bool { list, err := os.ReadDir(at(to, "d")); return err == nil && len(list) == 1 })
		check(os.RemoveAll(at(from, "d")))
		soon("a removed tree", missing(at(to, "d/x")))
		check(os.Remove(at(from, "moved")))
		soon("a removed file", missing(at(to, "moved")))
	}
}

// TestTwoMountsStorm lets both mounts work on the same names at once; in the end both show the same.
func TestTwoMountsStorm(t *testing.T) {
	w, a := newMount(t)
	b := w.mount("main")
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			dir := []string{a, b}[k%2]
			for i := range 400 {
				n := filepath.Join(dir, fmt.Sprintf("n%d", (i*7+k)%8))
				m := filepath.Join(dir, fmt.Sprintf("n%d", (i*5+k)%8))
				switch i % 5 {
				case 0, 1:
					_ = os.WriteFile(n, []byte(strings.Repeat(fmt.Sprint(k), 100+i)), 0o644)
				case 2:
					_ = os.Rename(n, m)
				case 3:
					_ = os.Remove(n)
				case 4:
					_, _ = os.ReadFile(n)
					_, _ = os.ReadDir(dir)
				}
			}
		})
	}
	wg.Wait()
	var out []byte
	if !waitFor(time.Minute, func() bool {
		var err error
		out, err = exec.Command("diff", "-r", a, b).CombinedOutput()
		return err == nil
	}) {
		t.Errorf("the two mounts differ:\n%s", out)
	}
}

// TestStoppedDaemon: while the daemon does not answer, whoever asks the mount can be killed; when it goes on, all is well, and if
// it never does, it can be killed, which ends them, and the mount made again (s51).
func TestStoppedDaemon(t *testing.T) {
	w, dir := newMount(t)
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	stopped := func(fn func()) {
		t.Helper()
		pid := w.pid()
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Kill(pid, unix.SIGCONT) }()
		fn()
	}
	// asks starts programs that wait for the daemon.
	asks := func() []*exec.Cmd {
		t.Helper()
		var list []*exec.Cmd
		for _, args := range [][]string{{"df", dir}, {"ls", "-A", dir}, {"cp", "/proc/self/cmdline", filepath.Join(dir, "new")}} {
			cmd := exec.Command(args[0], args[1:]...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			list = append(list, cmd)
		}
		return list
	}
	ended := func(what string, list []*exec.Cmd) {
		t.Helper()
		for _, cmd := range list {
			end := make(chan struct{})
			go func() { _ = cmd.Wait(); close(end) }()
			select {
			case <-end:
			case <-time.After(time.Minute):
				t.Fatalf("%s: %s does not end", what, cmd.Args[0])
			}
		}
	}
	stopped(func() {
		list := asks()
		time.Sleep(50 * time.Millisecond) // some of them wait by now; it is right if none does
		for _, cmd := range list {
			_ = cmd.Process.Kill()
		}
		ended("killed", list)
	})
	if b, err := os.ReadFile(file); err != nil || string(b) != "before" {
		t.Errorf("when the daemon goes on the file has %q (%v)", b, err)
	}
	pid, list := w.pid(), []*exec.Cmd(nil)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	list = asks()
	w.kill()
	ended("the daemon was killed", list)
	tear(dir)
	if !waitFor(time.Minute, func() bool { _, _, code := w.try("mount", "main", dir); return code == 0 }) {
		t.Fatal("it cannot be mounted again")
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "before" {
		t.Errorf("mounted again, the file has %q (%v)", b, err)
	}
}
