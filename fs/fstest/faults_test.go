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

// TestPowerCut cuts the power below a store: the store is on an ext4 image whose kernel forgets everything that was not
// on disk yet (FS_IOC_SHUTDOWN). What was fsynced is there afterwards, with its name; what is left is a prefix.
func TestPowerCut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skipf("runs as root only: it mounts a loop device")
	}
	need(t, "mkfs.ext4")
	for _, wait := range []time.Duration{0, 300 * time.Millisecond, 10 * time.Second} {
		t.Run(fmt.Sprintf("after %v", wait), func(t *testing.T) { powerCut(t, wait) })
	}
}

func powerCut(t *testing.T, wait time.Duration) {
	base := t.TempDir()
	image, disk := filepath.Join(base, "image"), filepath.Join(base, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	script(t, base, time.Minute, "truncate -s 600M image; mkfs.ext4 -q -F image")
	up := func() {
		if out, err := exec.Command("mount", "-o", "loop", image, disk).CombinedOutput(); err != nil {
			t.Skipf("no loop device to be had: %v %s", err, out)
		}
	}
	up()
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	w := newWorldIn(t, disk)
	w.workspace("main")
	dir := w.mount("main")

	put := func(name, data string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content := func(i int) string { return strings.Repeat(fmt.Sprintf("content %d ", i), 1+i*97%3000) }
	synced := 0
	for i := range 200 {
		put(fmt.Sprintf("f%03d", i), content(i))
		if i%10 == 9 {
			// One fsync makes durable all that was acknowledged before it: what remains is a prefix.
			f, err := os.Open(filepath.Join(dir, fmt.Sprintf("f%03d", i)))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
			synced = i + 1
		}
	}
	for i := 200; i < 260; i++ { // these may be lost, from the end
		put(fmt.Sprintf("f%03d", i), content(i))
	}
	time.Sleep(wait)
	d, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	const goingDown, noLogFlush = 0x8004587d, 2 // FS_IOC_SHUTDOWN
	err = unix.IoctlSetPointerInt(int(d.Fd()), goingDown, noLogFlush)
	_ = d.Close()
	if err != nil {
		t.Skipf("this file system cannot be shut down: %v", err)
	}
	w.kill()
	tear(dir)
	if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if !waitFor(time.Minute, func() bool { return connection(disk) == "" }) {
		t.Fatal("the image stays mounted")
	}
	// The loop device goes with its last user, the daemon; only then is the image read anew.
	waitFor(time.Minute, func() bool {
		out, err := exec.Command("losetup", "-j", image).Output()
		return err == nil && len(out) == 0
	})
	up()
	w.remount("main", dir)
	gone := -1
	for i := range 260 {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("f%03d", i)))
		switch {
		case err == nil && string(b) != content(i):
			t.Errorf("file %d has %d bytes that nobody wrote as they are", i, len(b))
		case err == nil && gone >= 0:
			t.Errorf("file %d is there, file %d, which was written before it, is not", i, gone)
		case err != nil && i < synced:
			t.Errorf("file %d, which was durable, is gone: %v", i, err)
		case err != nil && gone < 0:
			gone = i
		}
	}
	if wait >= 10*time.Second && gone >= 0 {
		t.Errorf("file %d is gone, although everything was %v old when the power was cut", gone, wait)
	}
	t.Logf("%d files were durable, %d of 260 are there", synced, map[bool]int{true: 260, false: gone}[gone < 0])
	put("after", "works")
}
