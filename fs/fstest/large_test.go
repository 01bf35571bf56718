package fstest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSparseHistory: a file of 1 TiB has versions like any other, which cost what is written and not what is read as zeros:
// tags, a fork, a rollback, an undo, and the past.
func TestSparseHistory(t *testing.T) {
	const tib = 1 << 40
	w, dir := newMount(t)
	file := func(dir string) *os.File {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, "s"), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	put := func(f *os.File, off int64, text string) {
		t.Helper()
		if _, err := f.WriteAt([]byte(text), off); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when, path string, size int64, at map[int64]string) {
		t.Helper()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if st, err := f.Stat(); err != nil || st.Size() != size {
			t.Errorf("%s: the size is %d (%v), want %d", when, st.Size(), err, size)
		}
		for off, want := range at {
			buf := make([]byte, len(want))
			if _, err := f.ReadAt(buf, off); err != nil || string(buf) != want {
				t.Errorf("%s: at %#x there is %q (%v), want %q", when, off, buf, err, want)
			}
		}
	}
	f := file(dir)
	if err := f.Truncate(tib); err != nil {
		t.Fatal(err)
	}
	put(f, 0, "begin")
	put(f, tib/2, "middle")
	put(f, tib-3, "end")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	first := map[int64]string{0: "begin", tib / 2: "middle", tib - 3: "end", tib / 4: "\x00\x00"}
	w.wsfs("tag", "main", "first")
	w.wsfs("fork", "main", "other")
	f = file(dir)
	put(f, tib/2, "MIDDLE")
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, tib/2+3, tib/2-10); err != nil {
		t.Fatal(err)
	}
	// More than the disk has is refused, and changes nothing (s35).
	for _, mode := range []uint32{0, unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_ZERO_RANGE} {
		if err := unix.Fallocate(int(f.Fd()), mode, 0, 15*tib); err != unix.ENOSPC {
			t.Errorf("fallocate of 15 TiB in mode %d: %v, want ENOSPC", mode, err)
		}
	}
	if err := f.Truncate(1<<63 - 1); err == nil {
		t.Error("a file of 2^63-1 bytes can be made")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	second := map[int64]string{0: "begin", tib / 2: "MID\x00\x00\x00", tib - 7: "\x00\x00\x00\x00end"}
	check("changed", filepath.Join(dir, "s"), tib, second)
	if err := unix.Truncate(filepath.Join(dir, "s"), 5*tib); err != nil {
		t.Fatal(err)
	}
	check("grown", filepath.Join(dir, "s"), 5*tib, second)
	check("in the past", filepath.Join(dir, ".wsfs/at/first/s"), tib, first)
	check("in a fork", filepath.Join(w.mount("other"), "s"), tib, first)
	w.stop() // nothing of it is in memory after that
	w.remount("main", dir)
	check("mounted again", filepath.Join(dir, "s"), 5*tib, second)
	w.wsfs("rollback", "main", "@first", "-y")
	check("rolled back", filepath.Join(dir, "s"), tib, first)
	w.wsfs("undo", "--workspace", "main")
	check("undone", filepath.Join(dir, "s"), 5*tib, second)
	// Too large for a blame, which neither the program nor the daemon tries.
	if _, errs, code := w.try("blame", filepath.Join(dir, "s")); code != 1 || !strings.Contains(errs, "are compared by lines") {
		t.Errorf("blame of 5 TiB ended with %d: %s", code, errs)
	}
	if b, err := os.ReadFile(filepath.Join(dir, ".wsfs/blame/s")); err != nil || !strings.HasPrefix(string(b), "#") {
		t.Errorf("the blame of 5 TiB is %.100q (%v)", b, err)
	}
	if _, errs, code := w.try("diff", "--workspace", "main", "@first"); code != 0 {
		t.Errorf("diff ended with %d: %s", code, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, "s"), []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.wsfs("blame", filepath.Join(dir, "s"))
	w.wsfs("undo", "--workspace", "main")
	// Out to a directory, and in again.
	out, used := filepath.Join(w.base, "out"), int64(0)
	w.wsfs("export", "main@first", out)
	check("exported", filepath.Join(out, "s"), tib, first)
	w.wsfs("import", out, "imported")
	check("imported", filepath.Join(w.mount("imported"), "s"), tib, first)
	if err := filepath.WalkDir(filepath.Join(w.store, "packs"), func(path string, d os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && !d.IsDir() {
			if err = unix.Lstat(path, &st); err == nil {
				used += st.Blocks * 512
			}
		}
		return err
	}); err != nil || used > 4<<20 {
		t.Errorf("four versions with a few bytes of data take %d bytes of packs (%v)", used, err)
	}
}

// TestLongPaths: what lies deeper than a path can name has a history, too.
func TestLongPaths(t *testing.T) {
	const levels = 100 // of 255 bytes: 25 KB of path
	w, dir := newMount(t)
	part := strings.Repeat("d", 255)
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	down := func(make bool) {
		t.Helper()
		if make {
			err = unix.Mkdirat(fd, part, 0o755)
		}
		if err == nil {
			var next int
			next, err = unix.Openat(fd, part, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			_ = unix.Close(fd)
			fd = next
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range levels {
		down(true)
	}
	n, err := unix.Openat(fd, "f", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(n), "f")
	if _, err := f.WriteString("deep\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	w.wsfs("tag", "main", "made")
	w.wsfs("log", "--workspace", "main")
	script(t, dir, 2*time.Minute, `rm -r d*; test -z "$(ls)"`, "WSFS_SESSION=remover")
	w.wsfs("undo", "--workspace", "main", "--session", "remover")
	w.stop()
	w.remount("main", dir)
	if fd, err = unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	for range levels {
		down(false)
	}
	n, err = unix.Openat(fd, "f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	_ = unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	f = os.NewFile(uintptr(n), "f")
	defer f.Close()
	buf := make([]byte, 10)
	if k, _ := f.Read(buf); string(buf[:k]) != "deep\n" {
		t.Errorf("the deepest file has %q after the undo", buf[:k])
	}
	if out, errs, code := w.try("diff", "--workspace", "main", "@made"); code != 3 {
		t.Errorf("diff with what was tagged ended with %d: %s%s", code, out, errs)
	}
}
