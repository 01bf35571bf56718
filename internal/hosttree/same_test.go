package hosttree

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// indexOf is a saved and loaded index of dir.
func indexOf(t *testing.T, dir string) *Index {
	t.Helper()
	now := time.Now().UnixNano()
	var top syscall.Stat_t
	if err := syscall.Lstat(dir, &top); err != nil {
		t.Fatal(err)
	}
	x := &Index{Full: true, Entries: map[string]Entry{}}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(p, &st); err != nil {
			return err
		}
		e := FromStat(&st, now)
		if e.Type() == syscall.S_IFLNK {
			e.Target, err = os.Readlink(p)
		}
		x.Set(rel, e)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	x.SetState(3, 7, &top, now)
	file := filepath.Join(t.TempDir(), "index")
	if err := x.Save(file); err != nil {
		t.Fatal(err)
	}
	y, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// Any change is noticed, one that only a time of change tells too.
func TestSame(t *testing.T) {
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour)
	changes := map[string]func(dir string) error{
		"a file of the same size and time": func(d string) error {
			if err := os.WriteFile(d+"/a/f", []byte("yy"), 0o644); err != nil {
				return err
			}
			return os.Chtimes(d+"/a/f", long, long)
		},
		"a longer file":    func(d string) error { return os.WriteFile(d+"/a/f", []byte("longer"), 0o644) },
		"a mode":           func(d string) error { return os.Chmod(d+"/a/f", 0o600) },
		"a time":           func(d string) error { return os.Chtimes(d+"/a/b/g", long, long) },
		"a new file":       func(d string) error { return os.WriteFile(d+"/a/b/new", nil, 0o644) },
		"a new file above": func(d string) error { return os.WriteFile(d+"/new", nil, 0o644) },
		"a removed file":   func(d string) error { return os.Remove(d + "/a/b/g") },
		"a removed tree":   func(d string) error { return os.RemoveAll(d + "/a/b") },
		"a moved file":     func(d string) error { return os.Rename(d+"/a/f", d+"/a/b/f") },
		"a replaced file": func(d string) error {
			if err := os.WriteFile(d+"/a/new", []byte("xx"), 0o644); err != nil {
				return err
			}
			return os.Rename(d+"/a/new", d+"/a/f")
		},
		"another target": func(d string) error {
			if err := os.Remove(d + "/l"); err != nil {
				return err
			}
			return os.Symlink("b", d+"/l")
		},
		"a mode of a directory":    func(d string) error { return os.Chmod(d+"/a/b", 0o700) },
		"the directory's own mode": func(d string) error { return os.Chmod(d, 0o700) },
		"the directory's own time": func(d string) error { return os.Chtimes(d, long, long) },
		"one more name":            func(d string) error { return os.Link(d+"/a/f", d+"/a/b/h") },
		"a directory for a file": func(d string) error {
			if err := os.Remove(d + "/a/f"); err != nil {
				return err
			}
			return os.Mkdir(d+"/a/f", 0o755)
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(os.MkdirAll(dir+"/a/b", 0o755))
			must(os.WriteFile(dir+"/a/f", []byte("xx"), 0o644))
			must(os.Chtimes(dir+"/a/f", long, long))
			must(os.WriteFile(dir+"/a/b/g", []byte("g"), 0o644))
			must(os.Symlink("a", dir+"/l"))
			if indexOf(t, dir).Same(ctx, dir) {
				t.Error("what was changed just now is taken for sure")
			}
			time.Sleep(3 * time.Duration(racy))
			x := indexOf(t, dir)
			if x.Loaded.Timeline != 3 || x.Loaded.Seq != 7 {
				t.Fatalf("the state is %+v", x.Loaded)
			}
			for range 2 {
				if !x.Same(ctx, dir) {
					t.Fatal("nothing was changed")
				}
			}
			must(change(dir))
			if x.Same(ctx, dir) {
				t.Error("not noticed")
			}
			file := filepath.Join(t.TempDir(), "index")
			must(x.Save(file))
			if y, err := Load(file); err != nil || y.Loaded != (State{}) {
				t.Errorf("what is saved anew has the state %+v, %v", y.Loaded, err)
			}
		})
	}
}
