package versions

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func (w *world) show(rev string) *Shown {
	w.t.Helper()
	r, err := Parse(rev, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := Resolve(context.Background(), w.st, r, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := Show(context.Background(), w.st, res)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func TestShow(t *testing.T) {
	w := newWorld(t)
	w.create("a", "1\n")
	w.create("b", "1\n")
	mine := w.command("me", "mine")
	who := w.who
	first := w.write("a", "1\n2\n")
	w.create("c", "c\n")
	w.command("you", "theirs")
	w.write("a", "0\n1\n2\n")
	w.write("b", "not mine\n")
	w.who = who
	last := w.rename("c", "d")
	s := w.show("main@c" + strconv.Itoa(int(mine)))
	if s.Command == nil || s.Command.Argv != "mine" || s.Session == nil || s.Session.Name != "me" || s.From != first || s.To != last {
		t.Errorf("%+v", s)
	}
	var got []string
	for _, e := range s.Entries {
		text := e.What + " " + e.Path
		if e.Mixed {
			text += " mixed"
		}
		got = append(got, text)
	}
	if want := []string{"modified a mixed", "added d"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s = w.show("main@" + strconv.Itoa(int(last)))
	if len(s.Entries) != 1 || s.Entries[0].What != Renamed || s.Command == nil || s.Command.ID != mine {
		t.Errorf("%+v", s)
	}
	s = w.show("main@2")
	if s.Command != nil || len(s.Entries) != 1 || s.Entries[0].Path != "a" {
		t.Errorf("by nobody: %+v", s)
	}
	if s := w.show("main@1"); len(s.Entries) != 0 {
		t.Errorf("the workspace: %+v", s)
	}
}

// A log's entries as patches: each step of a file is told once, from what it was to what it became.
func TestEntryDiff(t *testing.T) {
	w := newWorld(t)
	w.command("s", "1")
	w.create("f", "")
	w.write("f", "one\n")
	w.command("s", "2")
	w.replace("f", "two\n")
	w.command("s", "3")
	w.create("g", "three\n")
	w.command("s", "4")
	w.rename("g", "f")
	w.command("s", "5")
	w.rename("f", "h")
	w.chmod("h", 0o755)
	w.command("s", "6")
	w.remove("h")
	var out []string
	if err := Log(context.Background(), w.st, LogQuery{View: w.view()}, func(e *Entry) error {
		for _, d := range e.Diff() {
			p, err := d.Patch(context.Background(), w.st, 0)
			if err != nil {
				return err
			}
			var lines []string
			for line := range strings.SplitSeq(string(p), "\n") {
				if line != "" && !strings.HasPrefix(line, "@@") && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "+++") {
					lines = append(lines, strings.TrimPrefix(line, "diff --git "))
				}
			}
			out = append(out, strings.Join(lines, "|"))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a/h b/h|deleted file mode 100755|-three",
		"a/h b/h|old mode 100644|new mode 100755",
		"a/f b/h|similarity index 100%|rename from f|rename to h",
		"a/g b/g|deleted file mode 100644|-three", "a/f b/f|-two|+three",
		"a/g b/g|new file mode 100644|+three",
		"a/f b/f|-one|+two",
		"a/f b/f|new file mode 100644|+one",
	}
	if !slices.Equal(out, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(out, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestWhatBecameOf(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	w.create("d/f", "x")
	w.create("d/g", "y")
	w.create("away", "z")
	w.command("s", "rm")
	del := w.remove("d/f")
	mv := w.rename("away", "here")
	w.rename("d", "e")
	ask := func(path string) *Gone {
		t.Helper()
		g, err := WhatBecameOf(context.Background(), w.st, w.view(), path)
		if err != nil || g == nil {
			t.Fatalf("%q: %v %v", path, g, err)
		}
		return g
	}
	if g := ask("d/f"); g.Entry == nil || g.Entry.Seq != del || g.Entry.Command.Argv != "rm" || g.Last == nil || g.Last.Size != 1 || g.Path != "" {
		t.Errorf("deleted: %+v", g)
	}
	if g := ask("away"); g.Entry == nil || g.Entry.Seq != mv || g.Path != "here" || g.Last == nil {
		t.Errorf("renamed: %+v", g)
	}
	if g := ask("d/g"); g.Entry != nil || g.Path != "e/g" || g.Last == nil {
		t.Errorf("moved with its directory: %+v", g)
	}
	if g, err := WhatBecameOf(context.Background(), w.st, w.view(), "here"); g != nil || err != nil {
		t.Errorf("it is there: %+v %v", g, err)
	}
	if _, err := WhatBecameOf(context.Background(), w.st, w.view(), "never"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("never: %v", err)
	}
}
