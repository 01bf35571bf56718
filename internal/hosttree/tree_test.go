package hosttree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func openTest(t *testing.T) (*Tree, string) {
	t.Helper()
	dir := t.TempDir()
	tree, err := OpenTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree, dir
}

func fill(text string) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.WriteString(text)
		return err
	}
}

func TestTreeNeverLeaves(t *testing.T) {
	tree, dir := openTest(t)
	outside := t.TempDir()
	keep := filepath.Join(outside, "keep")
	if err := os.WriteFile(keep, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range [][2]string{{outside, "abs"}, {"../" + filepath.Base(outside), "rel"}, {keep, "file"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	staged, err := tree.File(Attrs{Mode: 0o644, UID: -1, GID: -1}, fill("new"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"abs/keep", "rel/keep", "../" + filepath.Base(outside) + "/keep", "abs/../abs/keep", "..", ".", "a/.."} {
		if err := tree.Put(staged, p); err == nil {
			t.Errorf("put to %q", p)
		}
		if err := tree.Remove(p, false); err == nil {
			t.Errorf("removed %q", p)
		}
		if err := tree.Mkdir(p+"x/y", -1, -1); err == nil {
			t.Errorf("made %q", p)
		}
	}
	if _, err := tree.Look("abs/keep"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("look through a link: %v", err)
	}
	if same, err := tree.SameBytes("file", 4, strings.NewReader("keep")); same || err != nil {
		t.Errorf("a link is the same as the file it leads to: %v, %v", same, err)
	}
	// A link is replaced itself, and chmod does not follow it.
	if err := tree.Chmod("file", 0o777); err != nil && !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Error(err)
	}
	if err := tree.Put(staged, "file"); err != nil {
		t.Fatal(err)
	}
	st, err := os.Lstat(filepath.Join(dir, "file"))
	if err != nil || !st.Mode().IsRegular() {
		t.Errorf("the link became %v, %v", st, err)
	}
	text, err := os.ReadFile(keep)
	if kst, serr := os.Stat(keep); err != nil || serr != nil || string(text) != "keep" || kst.Mode().Perm() != 0o600 {
		t.Errorf("outside: %q, %v, %v", text, kst, err)
	}
}

func TestTreeClean(t *testing.T) {
	tree, dir := openTest(t)
	if err := os.MkdirAll(filepath.Join(dir, StagingPrefix+"99999"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, StagingPrefix+"99999", "3"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.File(Attrs{Mode: 0o600, UID: -1, GID: -1}, fill("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Symlink("x"); err != nil {
		t.Fatal(err)
	}
	if err := tree.Clean(); err != nil {
		t.Fatal(err)
	}
	names, err := tree.Names("")
	if err != nil || len(names) != 0 {
		t.Errorf("left: %q, %v", names, err)
	}
	// A file that cannot be filled leaves nothing of itself in the tree.
	if _, err := tree.File(Attrs{Mode: 0o600}, func(*os.File) error { return syscall.ENOSPC }); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
}

func TestSameBytes(t *testing.T) {
	tree, dir := openTest(t)
	big := strings.Repeat("0123456789abcdef", 40_000)
	for name, text := range map[string]string{"empty": "", "small": "abc", "big": big} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{text, text + "x", "x" + text, strings.Replace(text, "a", "b", 1)} {
			same, err := tree.SameBytes(name, int64(len(other)), strings.NewReader(other))
			if err != nil || same != (other == text) {
				t.Errorf("%s against %d bytes: %v, %v", name, len(other), same, err)
			}
		}
	}
	if same, err := tree.SameBytes("none", 0, strings.NewReader("")); same || err != nil {
		t.Errorf("nothing: %v, %v", same, err)
	}
}

func TestXattrs(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "f"), nil, 0o600), os.Symlink("f", filepath.Join(dir, "l"))); err != nil {
		t.Fatal(err)
	}
	tree, err := OpenTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if _, able, err := tree.Xattrs("f"); err != nil {
		t.Fatal(err)
	} else if !able {
		t.Skip("no extended attributes here")
	}
	no, err := tree.SetXattrs("f", map[string][]byte{"user.a": []byte("1"), "user.none": nil, "nobody.knows": []byte("x")})
	if err != nil || len(no) != 1 || no["nobody.knows"] == nil {
		t.Errorf("refused: %v, %v; want nobody.knows", no, err)
	}
	if got, _, err := tree.Xattrs("f"); err != nil || string(got["user.a"]) != "1" {
		t.Errorf("after setting user.a: %q, %v", got, err)
	}
	if _, err := tree.SetXattrs("f", map[string][]byte{"user.a": nil}); err != nil {
		t.Error(err)
	}
	if got, _, err := tree.Xattrs("f"); err != nil || got["user.a"] != nil {
		t.Errorf("after removing user.a: %q, %v", got, err)
	}
	if _, err := tree.SetXattrs("l", map[string][]byte{"user.a": []byte("1")}); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("through a symbolic link: %v, want ELOOP", err)
	}
}
