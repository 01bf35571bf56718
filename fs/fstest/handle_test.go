package fstest_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFileHandles opens by handle (open_by_handle_at, as a server of NFS does) what no kernel has in memory: the handles
// were made in a mount that is gone, and what was removed since is stale.
func TestFileHandles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skipf("open_by_handle_at is for root")
	}
	w, dir := newMount(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"d", "d/e", "gone"} {
		if err := os.Mkdir(at(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"f", "d/e/g", "linked", "moved", "removed"} {
		if err := os.WriteFile(at(f), []byte(f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	handles := map[string]unix.FileHandle{}
	for _, name := range []string{"f", "d", "d/e", "d/e/g", "linked", "moved", "removed", "gone"} {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, at(name), 0)
		if err != nil {
			t.Fatalf("name_to_handle_at %s: %v", name, err)
		}
		handles[name] = h
	}
	for _, err := range []error{
		os.Link(at("linked"), at("d/other")), os.Remove(at("linked")), os.Rename(at("moved"), at("d/e/moved")),
		os.Remove(at("removed")), os.Remove(at("gone")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, when := range []string{"known", "mounted again"} {
		if when != "known" {
			w.stop()
			w.remount("main", dir)
		}
		mount, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, h := range handles {
			fd, err := unix.OpenByHandleAt(mount, h, unix.O_RDONLY|unix.O_CLOEXEC)
			if name == "removed" || name == "gone" {
				if err == nil {
					_ = unix.Close(fd)
				}
				if err != unix.ESTALE {
					t.Errorf("%s: open_by_handle_at of %s, which was removed: %v, want ESTALE", when, name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: open_by_handle_at of %s: %v", when, name, err)
				continue
			}
			checkHandle(t, fd, dir, name, when)
			_ = unix.Close(fd)
		}
		_ = unix.Close(mount)
	}
}

// checkHandle looks whether fd is what name was.
func checkHandle(t *testing.T, fd int, dir, name, when string) {
	t.Helper()
	if name == "d" || name == "d/e" {
		inner := map[string]string{"d": "e/g", "d/e": "g"}[name]
		var a, b unix.Stat_t
		if err := unix.Fstatat(fd, inner, &a, 0); err != nil {
			t.Errorf("%s: stat of %s below the handle of %s: %v", when, inner, name, err)
		}
		// Up from there is the way that the names tell.
		if err := unix.Fstatat(fd, "../", &a, 0); err != nil {
			t.Errorf("%s: stat of the directory above the handle of %s: %v", when, name, err)
		}
		if err := unix.Stat(filepath.Dir(filepath.Join(dir, name)), &b); err != nil || a.Ino != b.Ino {
			t.Errorf("%s: above %s is inode %d, want %d (%v)", when, name, a.Ino, b.Ino, err)
		}
		return
	}
	buf := make([]byte, 64)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil || string(buf[:n]) != name {
		t.Errorf("%s: the handle of %s reads %q, %v", when, name, buf[:n], err)
	}
}
