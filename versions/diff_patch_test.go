package versions

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
)

// patch is the whole diff of two states as a patch.
func (w *world) patch(a, b *store.View) []byte {
	w.t.Helper()
	ctx := context.Background()
	list, err := Diff(ctx, w.st, a, b, DiffOptions{Expand: true})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []byte
	for _, e := range list {
		for _, r := range e.Remarks() {
			out = append(out, "# "+e.Path+": "+r+"\n"...)
		}
		p, err := e.Patch(ctx, w.st, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, p...)
	}
	return out
}

// checkout writes what git keeps of a state into a directory.
func (w *world) checkout(v *store.View, dir string) {
	w.t.Helper()
	for path, ver := range w.full(v) {
		to := filepath.Join(dir, path)
		content, err := contentOf(context.Background(), w.st, ver)
		if err == nil && !ver.IsDir() {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		switch {
		case err != nil:
		case ver.Type() == syscall.S_IFREG:
			if err = os.WriteFile(to, content, 0o644); err == nil {
				err = os.Chmod(to, os.FileMode(gitMode(ver)&0o777))
			}
		case ver.Type() == syscall.S_IFLNK:
			err = os.Symlink(ver.Target, to)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// disk is what checkout writes, read back.
func disk(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.Type() == os.ModeSymlink {
			target, err := os.Readlink(path)
			out[rel] = "-> " + target
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		out[rel] = map[bool]string{true: "x ", false: "- "}[info.Mode()&0o100 != 0] + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// applies runs a program on a checkout of a with the patch on its standard input, and compares with a checkout of b.
func (w *world) applies(a, b *store.View, command ...string) {
	w.t.Helper()
	got, want := w.t.TempDir(), w.t.TempDir()
	w.checkout(a, got)
	w.checkout(b, want)
	p := w.patch(a, b)
	if !bytes.Contains(p, []byte("diff --git")) {
		return // nothing for git
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdin = got, bytes.NewReader(p)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES=/", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=/nonexistent")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%q: %v\n%s\nof\n%s", command, err, out, p)
	}
	if x, y := disk(w.t, got), disk(w.t, want); !maps.Equal(x, y) {
		w.t.Fatalf("%q makes\n%q\nwant\n%q\nof\n%s", command, x, y, p)
	}
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed: scripts/install-deps does it", program)
	}
}

func TestPatchByTools(t *testing.T) {
	w := newWorld(t)
	w.mkdir("dir")
	w.create("dir/plain", strings.Repeat("line\n", 20)+"end\n")
	w.create("no newline", "a\nb\nc")
	w.create("gone", "x\n")
	w.create("moved", "1\n2\n3\n4\n5\n6\n7\n8\n")
	w.create("moved2", "only moved\n")
	w.create("script", "#!/bin/sh\n")
	w.create("empty", "")
	w.symlink("link", "dir/plain")
	w.create("tab\there", "t\n")
	w.create("grüße \"q\"", "u\n")
	a := w.view()
	w.write("dir/plain", "first\n"+strings.Repeat("line\n", 20)+"END\n")
	w.write("no newline", "a\nB\nc\n")
	w.remove("gone")
	w.rename("moved", "dir/moved here")
	w.write("dir/moved here", "1\n2\n3\n4\n5\n6\n7\neight\n")
	w.rename("moved2", "dir/m2")
	w.chmod("script", 0o755)
	w.remove("empty")
	w.create("empty too", "")
	w.remove("link")
	w.symlink("link", "no newline")
	w.write("tab\there", "tt\n")
	w.write("grüße \"q\"", "uu\n")
	w.create("back\\slash\xff", "v\n")
	w.mkdir("new")
	w.create("new/file", "n")
	b := w.view()
	need(t, "git")
	w.applies(a, b, "git", "apply", "-p1", "-")
	w.applies(b, a, "git", "apply", "-p1", "-")
	w.differs(a, b, DiffOptions{Paths: []string{"script"}}, "mode script")
}

// patch(1) knows git's headers; what it cannot do (links, odd names) is left out here.
func TestPatchByPatch(t *testing.T) {
	need(t, "patch")
	w := newWorld(t)
	w.create("a", "1\n2\n3\n4\n5\n")
	w.create("with blank", "x\n")
	w.create("old", "moves\nand changes\nbut\nnot\nall\n")
	w.create("gone", "g\n")
	a := w.view()
	w.write("a", "1\n2\nthree\n4\n5")
	w.write("with blank", "y\n")
	w.rename("old", "new")
	w.write("new", "moves\nand changes\nbut\nnot\neverything\n")
	w.remove("gone")
	w.create("come", "c\n")
	w.applies(a, w.view(), "patch", "-p1", "-s")
}

func TestPatchRandom(t *testing.T) {
	need(t, "git")
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t)
		views := []*store.View{w.view()}
		for n := range 100 {
			w.random(r, n)
			if n%12 == 0 {
				views = append(views, w.view())
			}
		}
		for range 12 {
			w.applies(views[r.IntN(len(views))], views[r.IntN(len(views))], "git", "apply", "-p1", "-")
		}
	}
}

func TestPatchBinaryAndRemarks(t *testing.T) {
	w := newWorld(t)
	w.create("bin", "a\x00b")
	w.create("f", "x")
	a := w.view()
	w.write("bin", "a\x00c")
	w.chmod("f", 0o600)
	w.mkdir("d")
	got := string(w.patch(a, w.view()))
	want := "diff --git a/bin b/bin\nBinary files a/bin and b/bin differ\n# d: added directory\n# f: mode 0644 -> 0600\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
