package fstest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// powered is a store on an ext4 image whose power can be cut: its kernel forgets everything that was not on the disk yet
// (FS_IOC_SHUTDOWN).
type powered struct {
	*world
	image, disk, dir string
}

// newPowered mounts workspace main of a new store; args are those of `wsfs mount`.
func newPowered(t *testing.T, args ...string) *powered { return newPoweredOf(t, "600M", args...) }

// newPoweredOf does so on a disk of that size.
func newPoweredOf(t *testing.T, size string, args ...string) *powered {
	if os.Geteuid() != 0 {
		t.Skipf("runs as root only: it mounts a loop device")
	}
	need(t, "mkfs.ext4")
	base := t.TempDir()
	p := &powered{image: filepath.Join(base, "image"), disk: filepath.Join(base, "disk")}
	if err := os.Mkdir(p.disk, 0o755); err != nil {
		t.Fatal(err)
	}
	script(t, base, time.Minute, "truncate -s "+size+" image; mkfs.ext4 -q -F -m 0 image")
	p.up(t)
	t.Cleanup(func() { _ = unix.Unmount(p.disk, unix.MNT_DETACH) })
	p.world = newWorldIn(t, p.disk)
	p.workspace("main")
	p.dir = p.mount("main", args...)
	return p
}

func (p *powered) up(t *testing.T) {
	if out, err := exec.Command("mount", "-o", "loop", p.image, p.disk).CombinedOutput(); err != nil {
		t.Skipf("no loop device to be had: %v %s", err, out)
	}
}

func (p *powered) put(t *testing.T, name, data string) {
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cut takes the power away and mounts everything again.
func (p *powered) cut(t *testing.T) {
	d, err := os.Open(p.disk)
	if err != nil {
		t.Fatal(err)
	}
	const goingDown, noLogFlush = 0x8004587d, 2 // FS_IOC_SHUTDOWN
	err = unix.IoctlSetPointerInt(int(d.Fd()), goingDown, noLogFlush)
	_ = d.Close()
	if err != nil {
		t.Skipf("this file system cannot be shut down: %v", err)
	}
	p.kill()
	tear(p.dir)
	if err := unix.Unmount(p.disk, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if !waitFor(time.Minute, func() bool { return connection(p.disk) == "" }) {
		t.Fatal("the image stays mounted")
	}
	// The loop device goes with its last user, the daemon; only then is the image read anew.
	waitFor(time.Minute, func() bool {
		out, err := exec.Command("losetup", "-j", p.image).Output()
		return err == nil && len(out) == 0
	})
	p.up(t)
	p.remount("main", p.dir)
}

func powerContent(i int) string { return strings.Repeat(fmt.Sprintf("content %d ", i), 1+i*97%3000) }

// TestPowerCut: what was fsynced is there after a power cut, with its name; what is left is a prefix.
func TestPowerCut(t *testing.T) {
	for _, wait := range []time.Duration{0, 300 * time.Millisecond, 10 * time.Second} {
		t.Run(fmt.Sprintf("after %v", wait), func(t *testing.T) {
			t.Parallel() // each has a disk of its own, and most of it is waiting
			powerCut(t, wait)
		})
	}
}

func powerCut(t *testing.T, wait time.Duration) {
	p := newPowered(t)
	synced := 0
	for i := range 200 {
		p.put(t, fmt.Sprintf("f%03d", i), powerContent(i))
		if i%10 == 9 {
			// One fsync makes durable all that was acknowledged before it: what remains is a prefix.
			f, err := os.Open(filepath.Join(p.dir, fmt.Sprintf("f%03d", i)))
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
		p.put(t, fmt.Sprintf("f%03d", i), powerContent(i))
	}
	time.Sleep(wait)
	p.cut(t)
	gone := -1
	for i := range 260 {
		b, err := os.ReadFile(filepath.Join(p.dir, fmt.Sprintf("f%03d", i)))
		switch {
		case err == nil && string(b) != powerContent(i):
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
	p.put(t, "after", "works")
}

// TestDurableClose: on a mount with --durability=close nothing that returned is lost, although nobody calls fsync: not a
// close, not a name that was made, moved or removed, no attribute.
func TestDurableClose(t *testing.T) {
	p := newPowered(t, "--durability=close")
	at := func(name string) string { return filepath.Join(p.dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		p.put(t, fmt.Sprintf("f%03d", i), powerContent(i))
	}
	must(os.Rename(at("f000"), at("moved")))
	must(os.Remove(at("f001")))
	must(os.Mkdir(at("dir"), 0o700))
	must(os.Symlink("f002", at("dir/link")))
	must(os.Link(at("f002"), at("dir/hard")))
	must(unix.Setxattr(at("f003"), "user.x", []byte("kept"), 0))
	p.put(t, "f004", "written again")
	must(os.Chmod(at("f005"), 0o600)) // the last: nothing after it brings it to the disk
	p.cut(t)
	for i := range 60 {
		name, want := fmt.Sprintf("f%03d", i), powerContent(i)
		switch i {
		case 0:
			name = "moved"
		case 1:
			if _, err := os.Lstat(at(name)); !os.IsNotExist(err) {
				t.Errorf("%s, which was removed, is back (%v)", name, err)
			}
			continue
		case 4:
			want = "written again"
		}
		if b, err := os.ReadFile(at(name)); err != nil || string(b) != want {
			t.Errorf("%s was closed before the power was cut: %d bytes instead of %d (%v)", name, len(b), len(want), err)
		}
	}
	if to, err := os.Readlink(at("dir/link")); err != nil || to != "f002" {
		t.Errorf("the symbolic link leads to %q (%v)", to, err)
	}
	if b, err := os.ReadFile(at("dir/hard")); err != nil || string(b) != powerContent(2) {
		t.Errorf("the hard link has %d bytes (%v)", len(b), err)
	}
	x := make([]byte, 16)
	if n, err := unix.Getxattr(at("f003"), "user.x", x); err != nil || string(x[:n]) != "kept" {
		t.Errorf("the extended attribute is %q (%v)", x[:max(n, 0)], err)
	}
	if st, err := os.Stat(at("f005")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the mode that was set last is gone: %v (%v)", st, err)
	}
}
