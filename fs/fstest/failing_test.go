package fstest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFailingDisk has the disk below the store answer EIO: whoever changes something gets EIO from then on, also when the disk works
// again, what is there can be read, and status says why. A daemon that takes the place of that one, or comes after its death, has
// what was acknowledged, and goes on with the same mount and what is open on it.
func TestFailingDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the disk that fails is a mount of its own, which needs root")
	}
	bin := buildLoopback(t)
	for _, c := range []struct {
		name, fails string
		again       func(t *testing.T, w *world)
	}{
		{"writes, replaced", "write", func(_ *testing.T, w *world) { w.wsfs("daemon", "--replace") }},
		{"fsyncs, replaced", "fsync", func(_ *testing.T, w *world) { w.wsfs("daemon", "--replace") }},
		{"everything, killed", "read write fsync names", func(t *testing.T, w *world) {
			if err := syscall.Kill(w.pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		if c.fails != "write" && os.Getenv("WSFS_TEST_FULL") == "" {
			t.Logf("%s: only with WSFS_TEST_FULL", c.name)
			continue
		}
		t.Run(c.name, func(t *testing.T) { failing(t, bin, c.fails, c.again) })
	}
}

func failing(t *testing.T, bin, fails string, again func(*testing.T, *world)) {
	dir := t.TempDir() // not on that disk
	faults, mnt := filepath.Join(dir, "faults"), filepath.Join(dir, "mnt")
	if err := os.Mkdir(mnt, 0o755); err != nil {
		t.Fatal(err)
	}
	disk, _ := stoppable(t, bin, "-faults", faults)
	w := newWorldIn(t, disk)
	w.workspace("main")
	w.remount("main", mnt)
	at := func(name string) string { return filepath.Join(mnt, name) }
	write := func(name, text string) error { return os.WriteFile(at(name), []byte(text), 0o644) }
	if err := write("before", "before"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(at("open"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("bytes\n"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(faults, []byte(fails), 0o644); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(fails, "write") { // it reaches the memory of the daemon, and not the disk
		if err := write("lost", "lost"); !errors.Is(err, syscall.EIO) {
			t.Errorf("a file is made on a disk that fails: %v", err)
		}
		if err := write("lost", ""); !errors.Is(err, syscall.EIO) {
			t.Errorf("that file is closed with nothing new in it: %v", err)
		}
	}
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("fsync on a disk that fails: %v", err)
	}
	if err := os.Remove(faults); err != nil {
		t.Fatal(err)
	}
	if err := write("after", "after"); !errors.Is(err, syscall.EIO) {
		t.Errorf("a file is made after an fsync that failed: %v", err)
	}
	if err := os.Remove(at("before")); !errors.Is(err, syscall.EIO) {
		t.Errorf("a file is removed after an fsync that failed: %v", err)
	}
	if got, err := os.ReadFile(at("before")); err != nil || string(got) != "before" {
		t.Errorf("what was written before reads as %q, %v", got, err)
	}
	if out := w.wsfs("status"); !strings.Contains(out, "the store has stopped") {
		t.Errorf("status does not say that the store has stopped:\n%s", out)
	}
	if out, _, code := w.try("doctor"); code == 0 || !strings.Contains(out, "wsfs daemon --replace") {
		t.Errorf("doctor: exit %d\n%s", code, out)
	}
	again(t, w)
	if !waitFor(30*time.Second, func() bool { return write("after", "after") == nil }) {
		t.Fatalf("the disk works, but nothing can be written: %v", write("after", "after"))
	}
	if _, err := f.WriteString("more\n"); err != nil {
		t.Errorf("write to a file that was open all the time: %v", err)
	}
	if err := f.Sync(); err != nil {
		t.Errorf("fsync of it: %v", err)
	}
	for name, want := range map[string]string{"before": "before", "after": "after", "open": "bytes\nmore\n"} {
		if got, err := os.ReadFile(at(name)); err != nil || string(got) != want {
			t.Errorf("%s reads as %q, %v", name, got, err)
		}
	}
}
