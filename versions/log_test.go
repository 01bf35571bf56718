package versions

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
)

// lines is a log as short text, newest first.
func (w *world) lines(q LogQuery) []string {
	w.t.Helper()
	if q.View == nil {
		q.View = w.view()
	}
	var out []string
	if err := Log(context.Background(), w.st, q, func(e *Entry) error {
		s := e.What + " "
		if e.From != "" {
			s += e.From + " -> "
		}
		s += e.Path
		if e.Plus > 0 {
			s += fmt.Sprintf(" +%d", e.Plus)
		}
		if e.Minus > 0 {
			s += fmt.Sprintf(" -%d", e.Minus)
		}
		out = append(out, s)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) expect(q LogQuery, want ...string) {
	w.t.Helper()
	if got := w.lines(q); !reflect.DeepEqual(got, want) {
		w.t.Errorf("log %q:\n  %s\nwant\n  %s", q.Path, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestLogFolds(t *testing.T) {
	w := newWorld(t)
	w.command("s", "tar\x00x")
	w.create("a", "")
	w.write("a", "hello")
	w.chmod("a", 0o755)
	w.write("a", "hello you")
	w.command("s", "vim\x00a")
	w.create("a.tmp", "bye")
	w.chmod("a.tmp", 0o755)
	w.rename("a.tmp", "a")
	w.command("s", "git")
	w.create("tmp_obj", "object")
	w.link("tmp_obj", "object")
	w.remove("tmp_obj")
	w.command("s", "cc")
	w.create("x.o", "12345")
	w.create("x", "123456789")
	w.remove("x.o")
	w.command("s", "chmod")
	w.chmod("x", 0o755)
	w.expect(
		LogQuery{},
		"mode x",
		"temporary x.o", "created x +9",
		"created tmp_obj -> object +6",
		"written a.tmp -> a -6",
		"written a +4", "created a +5",
		"made ",
	)
}

// A creation by one command is not folded with what another one does to the file.
func TestLogKeepsCommandsApart(t *testing.T) {
	w := newWorld(t)
	w.command("s", "touch\x00a")
	w.create("a", "")
	w.command("s", "echo")
	w.write("a", "x")
	w.expect(LogQuery{}, "written a +1", "created a", "made ")
}

func TestLogFollowsFile(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	w.command("s", "1")
	w.create("d/a", "one")
	w.create("d/other", "x")
	w.command("s", "2")
	w.rename("d/a", "d/b")
	w.command("s", "3")
	w.create("d/.b.swp", "two!")
	w.rename("d/.b.swp", "d/b")
	w.command("s", "4")
	w.rename("d", "e")
	w.command("s", "5")
	w.write("e/b", "three")
	w.write("e/other", "yy")
	history := []string{"written e/b +1", "written d/.b.swp -> d/b +1", "renamed d/a -> d/b", "created d/a +3"}
	w.expect(LogQuery{Path: "e/b"}, history...)
	w.command("s", "6")
	w.remove("e/b")
	w.expect(LogQuery{Path: "/e/b"}, append([]string{"deleted e/b"}, history...)...)
	w.remove("e/other")
	w.remove("e")
	w.expect(LogQuery{Path: "e/b", Limit: 2}, "deleted e/b", "written e/b +1")
	err := Log(context.Background(), w.st, LogQuery{View: w.view(), Path: "e/never"}, func(*Entry) error { return nil })
	if !errors.Is(err, syscall.ENOENT) {
		t.Errorf("log of what never was: %v", err)
	}
}

// What had the name before, and was removed long since, belongs to the story of the path.
func TestLogFollowsName(t *testing.T) {
	w := newWorld(t)
	w.command("s", "1")
	w.create("f", "old")
	w.command("s", "2")
	w.rename("f", "kept")
	w.command("s", "3")
	w.create("f", "new")
	w.command("s", "4")
	w.write("kept", "not about f")
	w.expect(LogQuery{Path: "f"}, "created f +3", "renamed f -> kept", "created f +3")
}

func TestLogOfDirectory(t *testing.T) {
	w := newWorld(t)
	w.command("s", "1")
	w.mkdir("d")
	w.mkdir("d/sub")
	w.command("s", "2")
	w.create("d/sub/x", "1")
	w.create("y", "2")
	w.command("s", "3")
	w.rename("d/sub", "moved")
	w.command("s", "4")
	w.write("moved/x", "22")
	w.command("s", "5")
	w.rename("moved", "d/back")
	w.expect(
		LogQuery{Path: "d"},
		"renamed moved -> d/back", "renamed d/sub -> moved", "created d/sub/x +1", "created d/sub", "created d",
	)
	w.expect(
		LogQuery{Path: "d/back"},
		"renamed moved -> d/back", "written moved/x +1", "renamed d/sub -> moved", "created d/sub/x +1", "created d/sub",
	)
}

func TestLogFilters(t *testing.T) {
	w := newWorld(t)
	w.command("alice", "1")
	w.mkdir("d")
	w.create("d/a", "1")
	bob := w.command("bob", "2")
	w.create("d/b", "2")
	w.rename("d", "e")
	w.command("alice", "3")
	seq := w.create("e/c", "3")
	w.expect(LogQuery{Session: "alice"}, "created e/c +1", "created d/a +1", "created d")
	w.expect(LogQuery{Command: bob}, "renamed d -> e", "created d/b +1")
	w.expect(LogQuery{After: seq - 1}, "created e/c +1")
	w.expect(LogQuery{Limit: 1}, "created e/c +1")
	w.expect(LogQuery{Path: "e", Session: "bob"}, "renamed d -> e", "created d/b +1")
	stop := errors.New("stop")
	if err := Log(context.Background(), w.st, LogQuery{View: w.view()}, func(*Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the callback's error became %v", err)
	}
}

func TestPathOf(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	w.mkdir("d/e")
	w.create("d/e/f", "x")
	ino := w.paths["d/e/f"]
	before := w.view()
	w.rename("d/e", "g")
	w.link("g/f", "h")
	check := func(v *store.View, want ...string) {
		t.Helper()
		got, err := PathOf(context.Background(), v, ino)
		for _, s := range want {
			if got == s && err == nil {
				return
			}
		}
		t.Errorf("PathOf = %q, %v; want one of %q", got, err, want)
	}
	check(before, "d/e/f")
	check(w.view(), "g/f", "h")
	w.remove("g/f")
	check(w.view(), "h")
	w.remove("h")
	if got, err := PathOf(context.Background(), w.view(), ino); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("PathOf a deleted file = %q, %v", got, err)
	}
	check(before, "d/e/f")
}
