package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// oddTree makes one of everything that an export must keep.
func oddTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(dir+"/sub/empty", 0o755))
	must(os.WriteFile(dir+"/f", []byte("content"), 0o640))
	must(os.Link(dir+"/f", dir+"/sub/hard"))
	must(os.Symlink("../f", dir+"/sub/soft"))
	must(os.Symlink("/etc/passwd", dir+"/abs"))
	must(os.WriteFile(dir+"/odd\n\xff", nil, 0o600))
	must(os.WriteFile(dir+"/big", []byte(strings.Repeat("line\n", 100_000)), 0o444))
	must(os.Chmod(dir+"/big", 0o4755))
	must(unix.Mkfifo(dir+"/fifo", 0o600))
	sparse, err := os.Create(dir + "/sparse")
	must(err)
	_, err = sparse.WriteAt([]byte("x"), 1<<20)
	must(err)
	must(sparse.Truncate(4 << 20))
	must(sparse.Close())
	if err := unix.Setxattr(dir+"/f", "user.note", []byte("a\x00b"), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
		t.Fatal(err)
	}
	must(os.Chmod(dir+"/sub/empty", 0o555))
	old := time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.UTC)
	ts := []unix.Timespec{unix.NsecToTimespec(old.UnixNano()), unix.NsecToTimespec(old.UnixNano())}
	for _, name := range []string{"f", "sub/soft", "sub/empty", "sub", "."} {
		must(unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(dir, name), ts, unix.AT_SYMLINK_NOFOLLOW))
	}
	return dir
}

func TestExportDir(t *testing.T) {
	src := oddTree(t)
	c := newCLI(t)
	c.want(0, "", "init")
	c.want(0, "imported", "import", src, "main")
	out := filepath.Join(t.TempDir(), "new")
	c.want(0, "exported main to", "export", "main", out)
	sameTree(t, src, out)
	c.want(1, "not empty", "export", "main", out)
	sameTree(t, src, out)
	empty := t.TempDir()
	c.want(0, "exported", "export", "main@2", empty)
	sameTree(t, src, empty)
	c.want(1, "not a directory", "export", "main", out+"/f")
	c.want(1, "no workspace", "export", "other", out+"2")
	if _, err := os.Lstat(out + "2"); !errors.Is(err, os.ErrNotExist) {
		t.Error("a refused export made the directory")
	}
}

// An export that fails leaves nothing behind: here a blob is damaged.
func TestExportFails(t *testing.T) {
	src := t.TempDir()
	c := newCLI(t)
	c.file(src+"/a", "fine")
	c.file(src+"/b", strings.Repeat("some longer content that goes into a pack\n", 3000))
	c.want(0, "", "init")
	c.want(0, "imported", "import", src, "main")
	packs, err := filepath.Glob(c.env["WSFS_STORE"] + "/packs/*.pack")
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, p := range packs {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for i := 64; i < len(b); i += 16 {
			b[i] ^= 0x55
		}
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	c.want(1, `"b"`, "export", "main", out)
	if _, err := os.Lstat(out); !errors.Is(err, os.ErrNotExist) {
		t.Error("a failed export left its directory")
	}
	empty := t.TempDir()
	c.want(1, `"b"`, "export", "main", empty)
	if names, err := os.ReadDir(empty); err != nil || len(names) > 0 {
		t.Errorf("a failed export left %v, %v", names, err)
	}
	c.want(1, `"b"`, "export", "main", empty+"/x.tar")
	if names, err := os.ReadDir(empty); err != nil || len(names) > 0 {
		t.Errorf("a failed export left %v, %v", names, err)
	}
	c.want(0, "fine", "cat", "main:a") // the rest stays readable
	report := c.want(1, "damaged: main@2:b (the current version)", "check")
	if strings.Contains(report, "main@2:a") {
		t.Errorf("check names a file that is fine: %s", report)
	}
	c.want(1, `"damaged":"main@2:b"`, "check", "--json")
}

func TestExportTar(t *testing.T) {
	src := oddTree(t)
	c := newCLI(t)
	c.want(0, "", "init")
	c.want(0, "imported", "import", src, "main")
	file := filepath.Join(t.TempDir(), "x.tar")
	c.want(0, "exported", "export", "main", file)
	c.want(1, "file exists", "export", "main", file)
	c.want(0, "exported", "export", "--force", "main", file)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := map[string]*tar.Header{}
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = h
		if h.Name == "./big" {
			b, err := io.ReadAll(tr)
			if err != nil || len(b) != 500_000 {
				t.Errorf("big: %d bytes, %v", len(b), err)
			}
		}
	}
	for name, typ := range map[string]byte{
		"./": tar.TypeDir, "./f": tar.TypeReg, "./sub/": tar.TypeDir, "./sub/hard": tar.TypeLink, "./sub/soft": tar.TypeSymlink,
		"./abs": tar.TypeSymlink, "./fifo": tar.TypeFifo, "./odd\n\xff": tar.TypeReg, "./sub/empty/": tar.TypeDir,
	} {
		if got[name] == nil || got[name].Typeflag != typ {
			t.Errorf("%q: %+v", name, got[name])
		}
	}
	if h := got["./f"]; h == nil || h.ModTime.UnixNano()%1e9 != 123456789 || h.Mode != 0o640 {
		t.Errorf("%+v", h)
	}
	if h := got["./sub/hard"]; h == nil || h.Linkname != "./f" {
		t.Errorf("%+v", h)
	}
	code, out, errOut := c.run("export", "main", "-")
	if code != 0 || !strings.HasPrefix(out, "./") && !strings.Contains(out[:min(len(out), 2048)], "./") {
		t.Errorf("export to the standard output: %d, %d bytes, %s", code, len(out), errOut)
	}
}

// sameTree compares what stat(2) tells of two trees.
func sameTree(t *testing.T, a, b string) {
	t.Helper()
	seen := map[uint64]uint64{}
	err := filepath.Walk(a, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(a, path)
		other, err := os.Lstat(filepath.Join(b, rel))
		if err != nil {
			return err
		}
		x, y := info.Sys().(*syscall.Stat_t), other.Sys().(*syscall.Stat_t)
		if x.Mode != y.Mode || x.Mtim != y.Mtim || x.Uid != y.Uid || x.Gid != y.Gid || !info.IsDir() && (x.Size != y.Size || x.Nlink != y.Nlink) {
			t.Errorf("%q: %v %v %v %d %d, want %v %v %v %d %d", rel, other.Mode(), other.ModTime(), y.Uid, y.Size, y.Nlink,
				info.Mode(), info.ModTime(), x.Uid, x.Size, x.Nlink)
		}
		if want, ok := seen[x.Ino]; ok && want != y.Ino {
			t.Errorf("%q: the hard link is broken", rel)
		}
		seen[x.Ino] = y.Ino
		switch {
		case info.Mode().IsRegular():
			p, err1 := os.ReadFile(path)
			q, err2 := os.ReadFile(filepath.Join(b, rel))
			if err1 != nil || err2 != nil || string(p) != string(q) {
				t.Errorf("%q: the bytes differ (%v, %v)", rel, err1, err2)
			}
			if x.Blocks*512 < x.Size/2 && y.Blocks*512 >= y.Size {
				t.Errorf("%q: the holes are gone: %d blocks, %d before", rel, y.Blocks, x.Blocks)
			}
			var v, w [64]byte
			n, err1 := unix.Getxattr(path, "user.note", v[:])
			m, err2 := unix.Getxattr(filepath.Join(b, rel), "user.note", w[:])
			if n != m || v != w || !errors.Is(err1, err2) && err1 != err2 {
				t.Errorf("%q: xattr %q (%v), want %q (%v)", rel, w[:max(m, 0)], err2, v[:max(n, 0)], err1)
			}
		case info.Mode()&os.ModeSymlink != 0:
			p, _ := os.Readlink(path)
			if q, err := os.Readlink(filepath.Join(b, rel)); p != q || err != nil {
				t.Errorf("%q -> %q, %v; want %q", rel, q, err, p)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
