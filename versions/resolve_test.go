package versions

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
)

func (w *world) read(rev, path string) (string, error) {
	w.t.Helper()
	r, err := Parse(rev, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx := context.Background()
	res, err := Resolve(ctx, w.st, r, w.now)
	if err != nil {
		return "", err
	}
	rd, _, err := Open(ctx, w.st, res.View, path)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(rd)
	return string(b), err
}

func (w *world) expectContent(rev, path, want string) {
	w.t.Helper()
	if got, err := w.read(rev, path); err != nil || got != want {
		w.t.Errorf("%s:%s = %q, %v; want %q", rev, path, got, err, want)
	}
}

func (w *world) expectError(rev, path string, is error, part string) {
	w.t.Helper()
	if got, err := w.read(rev, path); !errors.Is(err, is) || !strings.Contains(err.Error(), part) {
		w.t.Errorf("%s:%s = %q, %v; want an error with %q", rev, path, got, err, part)
	}
}

func TestResolve(t *testing.T) {
	w := newWorld(t)
	c1 := w.command("s", "1")
	w.create("f", "one") // 10:02, seq 2
	c2 := w.command("s", "2")
	w.write("f", "two")   // 10:03, seq 3
	w.write("f", "three") // 10:04, seq 4
	w.expectContent("main", "f", "three")
	w.expectContent("main@2", "f", "one")
	w.expectContent("main@3", "f", "two")
	w.expectContent("main@0s", "f", "three")
	w.expectContent("main@90s", "f", "one")
	w.expectContent("main@1m", "f", "two")
	w.expectContent("main@2026-11-29T10:03:30Z", "f", "two")
	w.expectContent("main@2026-11-29T11:00:00Z", "f", "three")
	w.expectContent("main@"+Point{Kind: BeforeCommand, Command: c2}.String(), "f", "one")
	w.expectContent("main@"+Point{Kind: AfterCommand, Command: c2}.String(), "f", "three")
	w.expectContent("main@"+Point{Kind: AfterCommand, Command: c1}.String(), "f", "one")
	w.expectError("main@1", "f", syscall.ENOENT, "no such file")
	w.expectError("main@5", "f", syscall.ENOENT, "newest change is 4")
	w.expectError("main@1h", "f", syscall.ENOENT, "it was made at")
	w.expectError("main@nope", "f", syscall.ENOENT, "it has no tags")
	w.expectError("main@c99999", "f", syscall.ENOENT, "no command \"c99999\"")
	w.expectError("mian", "f", syscall.ENOENT, `did you mean "main"?`)
	w.expectError("other", "f", syscall.ENOENT, "the store has main")
	w.expectError("main", "f/x", syscall.ENOTDIR, "not a directory")
	w.expectError("main", "", syscall.EISDIR, "directory")
}

// After the pointer was moved back, the old names of points keep their meaning, and seqs are not used twice.
func TestResolveThroughRollback(t *testing.T) {
	w := newWorld(t)
	w.create("f", "one")  // seq 2, 10:02
	w.write("f", "two")   // seq 3, 10:03
	w.write("f", "three") // seq 4, 10:04
	base := w.ws.Timeline
	w.ws.Timeline, w.ws.Base, w.ws.BaseSeq, w.ws.Generation = w.st.NewTimelineID(), base, 2, 1
	// Rolled back to seq 2 at 10:05; the new timeline goes on at the highest seq.
	op := &store.Op{
		Kind: store.OpWorkspace, Items: []store.Item{{Op: store.OpWorkspace, Ino: store.RootIno}},
		Pointer: &store.Pointer{
			Workspace:   w.ws,
			NewTimeline: &store.Timeline{ID: w.ws.Timeline, Parent: base, ParentSeq: 2, Head: 4},
			Why:         "rollback",
		},
	}
	w.append(op) // seq 5
	w.expectContent("main", "f", "one")
	w.write("f", "four") // seq 6, 10:06
	w.expectContent("main", "f", "four")
	w.expectContent("main@2", "f", "one")
	w.expectContent("main@3", "f", "two")
	w.expectContent("main@4", "f", "three")
	w.expectContent("main@5", "f", "one")
	w.expectContent("main@6", "f", "four")
	w.expectContent("main@2026-11-29T10:04:30Z", "f", "three")
	w.expectContent("main@2026-11-29T10:05:30Z", "f", "one")
	w.expectContent("main@0s", "f", "four")
}

func TestFindFollowsLinks(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	w.mkdir("d/sub")
	w.create("d/f", "x")
	w.symlink("l", "d/f")
	w.symlink("d/sub/up", "../../l")
	w.symlink("abs", "/etc/passwd")
	w.symlink("d/out", "../../x")
	w.symlink("loop", "loop")
	w.symlink("dir", "d")
	w.expectContent("main", "l", "x")
	w.expectContent("main", "d/sub/up", "x")
	w.expectContent("main", "dir/f", "x")
	w.expectContent("main", "dir/sub/../f", "x")
	w.expectError("main", "abs", syscall.EXDEV, "/etc/passwd")
	w.expectError("main", "d/out", syscall.EXDEV, "..")
	w.expectError("main", "loop", syscall.ELOOP, "loop")
	w.expectError("main", "nothing", syscall.ENOENT, "/nothing")
	var names []string
	if err := List(context.Background(), w.view(), "dir", func(e DirEntry) error {
		names = append(names, e.Name)
		return nil
	}); err != nil || strings.Join(names, " ") != "f out sub" {
		t.Errorf("List = %q, %v", names, err)
	}
	names = nil
	if err := List(context.Background(), w.view(), "d/f", func(e DirEntry) error {
		names = append(names, e.Name)
		return nil
	}); err != nil || strings.Join(names, " ") != "f" {
		t.Errorf("List of a file = %q, %v", names, err)
	}
}

func TestWalk(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	w.create("d/f", "x")
	w.link("d/f", "e")
	w.mkdir("d/sub")
	v := w.view()
	root, err := Find(context.Background(), v, "", false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := Walk(context.Background(), v, root, func(n Node) error {
		s := "+" + n.Path
		if n.Linked {
			s += "=" + n.Link
		}
		got = append(got, s)
		return nil
	}, func(n Node) error {
		got = append(got, "-"+n.Path)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := "+ +d +d/f +d/sub -d/sub -d +e=d/f -"; strings.Join(got, " ") != want {
		t.Errorf("walk: %q, want %q", strings.Join(got, " "), want)
	}
}
