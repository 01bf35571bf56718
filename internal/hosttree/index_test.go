package hosttree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
)

func TestIndexRoundTrip(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "1.index")
	for _, full := range []bool{true, false} {
		x := &Index{Full: full, Entries: map[string]Entry{}}
		for i := range 1000 {
			e := Entry{Mode: syscall.S_IFREG | 0o644, Size: int64(i), Mtime: int64(i) * 1e9, Ctime: 7, Ino: uint64(i), Ref: blob.Ref{byte(i), 1}}
			switch i % 5 {
			case 1:
				e = Entry{Mode: syscall.S_IFLNK | 0o777, Size: 3, Target: "a\xffb"}
			case 2:
				e = Entry{Mode: syscall.S_IFDIR | 0o755, Ino: 5}
			case 3:
				e = Entry{}
			}
			x.Set(fmt.Sprintf("dir%d/sub\xfe/f%d", i%7, i), e)
		}
		x.Move("moved", Entry{})
		if full { // an index of before there were any has no such part
			x.MoveXattrs("moved", map[string][]byte{"user.a": {1, 0}, "user.empty": {}})
			x.MoveXattrs("dir", map[string][]byte{"user.b": []byte("b")})
		}
		if err := x.Save(file); err != nil {
			t.Fatal(err)
		}
		got, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(x, got) {
			t.Errorf("full %v: %d entries came back as %d, or changed", full, len(x.Entries), len(got.Entries))
		}
		if _, known := got.Entries["moved"]; known == full {
			t.Errorf("full %v: what is not there: known %v", full, known)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged index: %v", err)
	}
	if x, err := LoadOrNew(file); err != nil || x.Full || len(x.Entries) != 0 {
		t.Errorf("instead of a damaged index: %+v, %v", x, err)
	}
	if _, err := Load(file + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no index: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	dir := f.TempDir()
	x := &Index{Full: true, Entries: map[string]Entry{"a": {Mode: syscall.S_IFREG | 0o644, Size: 1}, "ab": {Mode: syscall.S_IFLNK, Target: "t"}}}
	file := filepath.Join(dir, "x")
	if err := x.Save(file); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[len(magic) : len(b)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		file := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(file, seal(append([]byte(magic), body...)), 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := Load(file)
		if err != nil {
			return
		}
		if err := x.Save(file); err != nil {
			t.Fatal(err)
		}
		if again, err := Load(file); err != nil || !maps.Equal(x.Entries, again.Entries) {
			t.Fatalf("it came back as something else: %v", err)
		}
	})
}

// settle waits until what was changed is old enough to be trusted.
func settle() { time.Sleep(40 * time.Millisecond) }

func paths(t *testing.T, x *Index, dir string, skip ...string) []string {
	t.Helper()
	set := map[string]bool{}
	for _, s := range skip {
		set[s] = true
	}
	list, err := x.Changes(context.Background(), dir, set)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range list {
		p := c.Path
		if !c.Now.Exists() {
			p = "-" + p
		}
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

func TestChanges(t *testing.T) {
	dir := t.TempDir()
	put := func(p, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put("a", "1")
	put("b", "1")
	put("d/c", "1")
	put("skip/x", "1")
	put(".wsfs/y", "1")
	put(StagingPrefix+"1/z", "1")
	must(os.Symlink("a", filepath.Join(dir, "l")))
	settle()
	x := &Index{Full: true, Entries: map[string]Entry{}}
	want := []string{"a", "b", "d", "d/c", "l"}
	list, err := x.Changes(context.Background(), dir, map[string]bool{dir + "/skip": true})
	must(err)
	for _, c := range list {
		x.Set(c.Path, c.Now)
	}
	if got := slices.Sorted(maps.Keys(x.Entries)); !slices.Equal(got, want) {
		t.Fatalf("at first %q, want %q", got, want)
	}
	if got := paths(t, x, dir, dir+"/skip"); got != nil {
		t.Errorf("nothing was changed, but %q", got)
	}
	// The same size and mtime, written in place: ctime tells.
	st, err := os.Stat(filepath.Join(dir, "a"))
	must(err)
	put("a", "2")
	must(os.Chtimes(filepath.Join(dir, "a"), st.ModTime(), st.ModTime()))
	must(os.Chmod(filepath.Join(dir, "d"), 0o700))
	must(os.Remove(filepath.Join(dir, "b")))
	put("d/new", "n")
	if got, want := paths(t, x, dir, dir+"/skip"), []string{"-b", "a", "d", "d/new"}; !slices.Equal(got, want) {
		t.Errorf("changed %q, want %q", got, want)
	}
	// What was changed in the moment of the scan is not trusted the next time.
	put("d/c", "3")
	list, err = x.Changes(context.Background(), dir, nil)
	must(err)
	for _, c := range list {
		x.Set(c.Path, c.Now)
	}
	settle()
	if got := paths(t, x, dir); !slices.Contains(got, "d/c") {
		t.Errorf("trusted although too fresh: only %q", got)
	}
}
