package versions_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/versions"
)

func (l *lab) plan(sel versions.UndoSelect) (*versions.UndoPlan, error) {
	l.t.Helper()
	sel.Now, sel.List = l.clock, true
	return versions.PlanUndo(context.Background(), l.st, l.ws(), l.place(), sel)
}

// preview is the tree that a plan leads to, worked out on its rows alone.
func (l *lab) preview(p *versions.UndoPlan) map[string]string {
	l.t.Helper()
	names, inodes := l.rows(p.At)
	staged, err := p.Contents(l.st)
	l.must(err)
	texts := map[store.Ino]string{}
	for _, v := range p.Versions {
		for _, s := range staged {
			if s.Content.Ref == v.Content {
				texts[v.Ino] = string(s.Small)
			}
		}
		inodes[v.Ino] = v
	}
	for _, n := range p.Names {
		k := store.DirName{Parent: n.Parent, Name: n.Name}
		if n.Ino == 0 {
			delete(names, k)
			continue
		}
		names[k] = n.Ino
		if v, ok := inodes[n.Ino]; ok && v.Type() != n.Type {
			l.t.Errorf("%q leads to inode %d of type %o, the plan says %o", n.Name, n.Ino, v.Type(), n.Type)
		}
	}
	return l.show(names, inodes, texts)
}

func (l *lab) same(got, want map[string]string, what string) {
	l.t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for k, w := range want {
		if g, ok := got[k]; !ok {
			l.t.Errorf("%s: %s is missing, want %s", what, k, w)
		} else if g != w {
			l.t.Errorf("%s: %s is %s, want %s", what, k, g, w)
		}
	}
	for k, g := range got {
		if _, ok := want[k]; !ok {
			l.t.Errorf("%s: %s = %s is too much", what, k, g)
		}
	}
}

// undone plans and previews; the plan must have no conflicts.
func (l *lab) undone(sel versions.UndoSelect) map[string]string {
	l.t.Helper()
	p, err := l.plan(sel)
	l.must(err)
	for _, c := range p.Conflicts {
		l.t.Errorf("conflict: %s: %s", c.Path, c.Reason)
	}
	return l.preview(p)
}

// TestUndoAlone undoes one command of each kind that nothing came after: exactly the state before comes back.
func TestUndoAlone(t *testing.T) {
	base := func(l *lab) {
		l.as("base")
		l.mkdir("d")
		l.mkdir("d/sub")
		l.write("d/f", "one\ntwo\n")
		l.write("d/sub/g", "g")
		l.link("d/f", "hard")
		l.symlink("d/f", "soft")
		l.chmod("d/sub/g", 0o600)
		l.xattr("d/f", "user.k", "v")
		l.write("e", "e")
	}
	for name, do := range map[string]func(l *lab){
		"create":        func(l *lab) { l.write("new", "x") },
		"create tree":   func(l *lab) { l.mkdir("n"); l.mkdir("n/m"); l.write("n/m/f", "x"); l.symlink("f", "n/m/l") },
		"write":         func(l *lab) { l.write("d/f", "three") },
		"empty":         func(l *lab) { l.write("d/f", "") },
		"save":          func(l *lab) { l.save("d/f", "saved") },
		"backup save":   func(l *lab) { l.backup("d/f", "saved") },
		"save twice":    func(l *lab) { l.save("e", "1"); l.save("e", "2"); l.append("e", "3") },
		"rm":            func(l *lab) { l.remove("d/f") },
		"rm both links": func(l *lab) { l.remove("d/f"); l.remove("hard") },
		"rm -r":         func(l *lab) { l.remove("d") },
		"write, rm":     func(l *lab) { l.write("e", "x"); l.chmod("e", 0o600); l.remove("e") },
		"rename":        func(l *lab) { l.rename("d/f", "moved") },
		"rename dir":    func(l *lab) { l.rename("d", "d2"); l.write("d2/f", "x"); l.rename("d2/sub", "sub") },
		"rename over":   func(l *lab) { l.rename("e", "d/f") },
		"rename round":  func(l *lab) { l.rename("e", "t"); l.rename("d/f", "e"); l.rename("t", "d/f") },
		"chmod":         func(l *lab) { l.chmod("d/f", 0o755); l.chmod("d", 0o700) },
		"xattr": func(l *lab) {
			l.xattr("d/f", "user.k", "w")
			l.xattr("d/f", "user.n", "n")
			l.xattr("d", "user.d", "d")
		},
		"link":             func(l *lab) { l.link("e", "e2"); l.append("e2", "x") },
		"symlink":          func(l *lab) { l.remove("soft"); l.symlink("elsewhere", "soft") },
		"file to dir":      func(l *lab) { l.remove("e"); l.mkdir("e"); l.write("e/x", "x") },
		"dir to file":      func(l *lab) { l.remove("d"); l.write("d", "x") },
		"temporaries":      func(l *lab) { l.write("t", "x"); l.remove("t"); l.mkdir("u"); l.remove("u"); l.append("e", "!") },
		"rm, make anew":    func(l *lab) { l.remove("d"); l.mkdir("d"); l.write("d/f", "new"); l.mkdir("d/sub") },
		"move into new":    func(l *lab) { l.mkdir("n"); l.rename("d", "n/d"); l.write("n/d/x", "x") },
		"swap directories": func(l *lab) { l.rename("d/sub", "s"); l.rename("d", "s/d") },
	} {
		for _, group := range []int{1, 1024} {
			t.Run(fmt.Sprintf("%s/%d", name, group), func(t *testing.T) {
				l := newLab(t, store.Options{GroupOps: group})
				base(l)
				before := l.tree()
				c := l.as("s")
				do(l)
				if maps.Equal(before, l.tree()) {
					t.Fatal("nothing changed")
				}
				l.same(l.undone(versions.UndoSelect{}), before, "bare")
				l.same(l.undone(versions.UndoSelect{Commands: []store.CommandID{c}}), before, "by command")
				l.same(l.undone(versions.UndoSelect{Sessions: []store.SessionID{l.who.Session.ID}}), before, "by session")
			})
		}
	}
}

// TestUndoKeepsOthers undoes a command that others changed files after.
func TestUndoKeepsOthers(t *testing.T) {
	lines := func(s string) string { return strings.ReplaceAll(s, " ", "\n") + "\n" }
	for _, c := range []struct {
		name             string
		base, mine, then func(l *lab)
		want             map[string]string // path -> text, "" gone; others stay as they are
		conflict         string            // instead: part of "path: reason"
	}{
		{
			name: "other file", base: func(l *lab) { l.write("a", "1") }, mine: func(l *lab) { l.write("a", "2") },
			then: func(l *lab) { l.write("h", "h") }, want: map[string]string{"a": "1", "h": "h"},
		},
		{
			name: "lines apart", base: func(l *lab) { l.write("a", lines("1 2 3 4 5 6 7 8 9")) },
			mine: func(l *lab) { l.write("a", lines("1 X 3 4 5 6 7 8 9")) }, then: func(l *lab) { l.write("a", lines("1 X 3 4 5 6 7 8 Y")) },
			want: map[string]string{"a": lines("1 2 3 4 5 6 7 8 Y")},
		},
		{
			name: "lines apart, both saved by renaming", base: func(l *lab) { l.write("a", lines("1 2 3 4 5 6 7 8 9")) },
			mine: func(l *lab) { l.save("a", lines("1 X 3 4 5 6 7 8 9")) }, then: func(l *lab) { l.save("a", lines("1 X 3 4 5 6 7 8 Y")) },
			want: map[string]string{"a": lines("1 2 3 4 5 6 7 8 Y"), "a.tmp": ""},
		},
		{
			name: "saved by renaming, then in place", base: func(l *lab) { l.write("a", lines("1 2 3 4 5 6 7 8 9")) },
			mine: func(l *lab) { l.save("a", lines("1 X 3 4 5 6 7 8 9")) }, then: func(l *lab) { l.write("a", lines("1 X 3 4 5 6 7 8 Y")) },
			want: map[string]string{"a": lines("1 2 3 4 5 6 7 8 Y")},
		},
		{
			name: "in place, then by an editor with backup", base: func(l *lab) { l.write("a", lines("1 2 3 4 5 6 7 8 9")) },
			mine: func(l *lab) { l.write("a", lines("1 X 3 4 5 6 7 8 9")) }, then: func(l *lab) { l.backup("a", lines("1 X 3 4 5 6 7 8 Y")) },
			want: map[string]string{"a": lines("1 2 3 4 5 6 7 8 Y"), "a~": ""},
		},
		{
			name: "same lines", base: func(l *lab) { l.write("a", lines("1 2 3")) }, mine: func(l *lab) { l.write("a", lines("1 X 3")) },
			then: func(l *lab) { l.write("a", lines("1 Y 3")) }, conflict: "a: the same lines were changed since",
		},
		{
			name: "binary", base: func(l *lab) { l.write("a", "\x00a") }, mine: func(l *lab) { l.write("a", "\x00b") },
			then: func(l *lab) { l.write("a", "\x00c") }, conflict: "a: it was changed since, and is no text",
		},
		{
			name: "made, then edited", mine: func(l *lab) { l.write("a", "1\n") }, then: func(l *lab) { l.append("a", "2\n") },
			conflict: "changed it since",
		},
		{
			name: "made, then renamed", mine: func(l *lab) { l.write("a", "1\n") }, then: func(l *lab) { l.rename("a", "b") },
			conflict: "renamed it since",
		},
		{
			name: "made, then removed", mine: func(l *lab) { l.write("a", "1\n"); l.write("z", "z") }, then: func(l *lab) { l.remove("a") },
			want: map[string]string{"a": "", "z": ""},
		},
		{
			name: "edited, then removed", base: func(l *lab) { l.write("a", "1"); l.write("b", "1") },
			mine: func(l *lab) { l.write("a", "2"); l.write("b", "2") }, then: func(l *lab) { l.remove("a") },
			want: map[string]string{"a": "", "b": "1"},
		},
		{
			name: "removed, name taken", base: func(l *lab) { l.write("a", "1") }, mine: func(l *lab) { l.remove("a") },
			then: func(l *lab) { l.write("a", "2") }, conflict: "took the name since",
		},
		{
			name: "removed, the same made anew", base: func(l *lab) { l.write("a", "1"); l.write("b", "b") },
			mine: func(l *lab) { l.remove("a"); l.remove("b") }, then: func(l *lab) { l.write("a", "1") },
			want: map[string]string{"a": "1", "b": "b"},
		},
		{
			name: "removed tree, newer directory", base: func(l *lab) { l.mkdir("d"); l.mkdir("d/e"); l.write("d/f", "f"); l.write("d/e/g", "g") },
			mine: func(l *lab) { l.remove("d") }, then: func(l *lab) { l.mkdir("d"); l.write("d/n", "n"); l.mkdir("d/e") },
			want: map[string]string{"d/f": "f", "d/e/g": "g", "d/n": "n"},
		},
		{
			name: "removed tree, newer file in newer directory", base: func(l *lab) { l.mkdir("d"); l.write("d/f", "f") },
			mine: func(l *lab) { l.remove("d") }, then: func(l *lab) { l.mkdir("d"); l.write("d/f", "n") }, conflict: "d/f: ",
		},
		{
			name: "removed in a directory that was removed since", base: func(l *lab) { l.mkdir("d"); l.write("d/f", "f") },
			mine: func(l *lab) { l.remove("d/f") }, then: func(l *lab) { l.remove("d") }, conflict: "d/f: the directory it was in was removed since",
		},
		{
			name: "made directory holds foreign file", mine: func(l *lab) { l.mkdir("d"); l.write("d/f", "f") },
			then: func(l *lab) { l.write("d/n", "n") }, conflict: "d/n: it was made in d since",
		},
		{
			name: "renamed, then edited", base: func(l *lab) { l.write("a", "1") }, mine: func(l *lab) { l.rename("a", "b") },
			then: func(l *lab) { l.append("b", "2") }, want: map[string]string{"a": "12", "b": ""},
		},
		{
			name: "renamed twice", base: func(l *lab) { l.write("a", "1") }, mine: func(l *lab) { l.rename("a", "b") },
			then: func(l *lab) { l.rename("b", "c") }, conflict: "renamed it again since",
		},
		{
			name: "moved, then renamed", base: func(l *lab) { l.mkdir("d"); l.write("a", "1") }, mine: func(l *lab) { l.rename("a", "d/a") },
			then: func(l *lab) { l.rename("d/a", "d/b") }, want: map[string]string{"b": "1", "a": "", "d/a": "", "d/b": ""},
		},
		{
			name: "renamed, then removed", base: func(l *lab) { l.write("a", "1"); l.write("x", "x") },
			mine: func(l *lab) { l.rename("a", "b"); l.write("x", "y") }, then: func(l *lab) { l.remove("b") },
			want: map[string]string{"a": "", "b": "", "x": "x"},
		},
		{
			name: "directory renamed, file made in it", base: func(l *lab) { l.mkdir("d"); l.write("d/f", "f") },
			mine: func(l *lab) { l.rename("d", "e") }, then: func(l *lab) { l.write("e/n", "n"); l.append("e/f", "!") },
			want: map[string]string{"d/f": "f!", "d/n": "n", "e/f": ""},
		},
		{
			name: "others between two of mine", base: func(l *lab) { l.write("a", lines("1 2 3 4 5 6 7 8 9")) },
			mine: func(l *lab) {
				me := l.who
				l.write("a", lines("X 2 3 4 5 6 7 8 9"))
				l.as("other")
				l.write("a", lines("X 2 3 4 Y 6 7 8 9"))
				l.who = me
				l.write("a", lines("X 2 3 4 Y 6 7 8 Z"))
			},
			then: func(l *lab) { l.write("b", "b") }, want: map[string]string{"a": lines("1 2 3 4 Y 6 7 8 9"), "b": "b"},
		},
		{
			name: "others between two saves of mine", base: func(l *lab) { l.write("a", lines("1 2 3 4 5 6 7 8 9")) },
			mine: func(l *lab) {
				me := l.who
				l.save("a", lines("X 2 3 4 5 6 7 8 9"))
				l.as("other")
				l.save("a", lines("X 2 3 4 Y 6 7 8 9"))
				l.who = me
				l.save("a", lines("X 2 3 4 Y 6 7 8 Z"))
			},
			then: func(l *lab) { l.write("b", "b") }, want: map[string]string{"a": lines("1 2 3 4 Y 6 7 8 9"), "b": "b"},
		},
		{
			name: "moved over, then edited and saved", base: func(l *lab) {
				l.write("a", lines("1 2 3 4 5 6 7 8 9"))
				l.write("g", lines("1 X 3 4 5 6 7 8 9"))
			},
			mine: func(l *lab) { l.rename("g", "a") }, then: func(l *lab) {
				l.append("a", "Y\n")
				l.save("a", lines("1 X 3 4 5 6 7 8 9 Y Z"))
			},
			want: map[string]string{"a": lines("1 2 3 4 5 6 7 8 9 Y Z"), "g": lines("1 X 3 4 5 6 7 8 9 Y")},
		},
		{
			name: "renamed, then saved", base: func(l *lab) { l.write("a", "1") }, mine: func(l *lab) { l.rename("a", "b") },
			then: func(l *lab) { l.save("b", "2") }, want: map[string]string{"a": "2", "b": ""},
		},
		{
			name: "undone by hand", base: func(l *lab) { l.write("a", "1"); l.write("b", "1") },
			mine: func(l *lab) { l.write("a", "2"); l.write("b", "2") }, then: func(l *lab) { l.write("a", "1") },
			want: map[string]string{"a": "1", "b": "1"},
		},
		{
			name: "mode and text", base: func(l *lab) { l.write("a", "1") }, mine: func(l *lab) { l.chmod("a", 0o700); l.xattr("a", "user.x", "1") },
			then: func(l *lab) { l.write("a", "2") }, want: map[string]string{"a": "2"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, store.Options{})
			l.as("base")
			l.write("keep", "k")
			if c.base != nil {
				c.base(l)
			}
			id := l.as("mine")
			c.mine(l)
			l.as("other")
			c.then(l)
			p, err := l.plan(versions.UndoSelect{Commands: []store.CommandID{id}})
			l.must(err)
			if c.conflict != "" {
				if len(p.Conflicts) != 1 || !strings.Contains(p.Conflicts[0].Path+": "+p.Conflicts[0].Reason, c.conflict) {
					t.Errorf("conflicts %v, want %q", p.Conflicts, c.conflict)
				}
				if len(p.Names)+len(p.Versions) > 0 {
					t.Error("a plan with conflicts changes something")
				}
				return
			}
			if len(p.Conflicts) > 0 {
				t.Fatalf("conflicts: %v", p.Conflicts)
			}
			got := l.preview(p)
			c.want["keep"] = "k"
			for path, text := range c.want {
				g, ok := got[path]
				if want := fmt.Sprintf("100644 %q \"\" ", text); text == "" && ok || text != "" && g != want {
					t.Errorf("%s is %s, want %q", path, g, text)
				}
			}
		})
	}
}

func TestUndoWhich(t *testing.T) {
	l := newLab(t, store.Options{})
	if _, err := l.plan(versions.UndoSelect{}); !errors.Is(err, versions.ErrNothing) {
		t.Errorf("undo in an empty workspace: %v", err)
	}
	l.as("a")
	l.write("a1", "1")
	c2 := l.as("a")
	l.write("a2", "2")
	c3 := l.as("b")
	l.write("b3", "3")
	a, b := l.sessions["a"].ID, l.sessions["b"].ID
	if _, err := l.plan(versions.UndoSelect{}); !errors.Is(err, versions.ErrDecide) || !strings.Contains(err.Error(), "b, a") {
		t.Errorf("two sessions were active: %v", err)
	}
	p, err := l.plan(versions.UndoSelect{Own: []store.SessionID{a}})
	if err != nil || len(p.Commands) != 1 || p.Commands[0] != c2 || p.Removed != 1 || p.Entries[0].Path != "a2" {
		t.Errorf("the last of a: %+v, %v", p, err)
	}
	p, err = l.plan(versions.UndoSelect{Sessions: []store.SessionID{a}})
	if err != nil || p.Removed != 2 || len(p.Undoes) != 2 {
		t.Errorf("all of a: %+v, %v", p, err)
	}
	p, err = l.plan(versions.UndoSelect{Sessions: []store.SessionID{a}, Except: []string{"a1"}})
	if err != nil || p.Removed != 1 || p.Entries[0].Path != "a2" || !p.Undoes[0].Partial {
		t.Errorf("all of a but a1: %+v, %v", p, err)
	}
	p, err = l.plan(versions.UndoSelect{Sessions: []store.SessionID{b}})
	if err != nil || len(p.Commands) != 1 || p.Commands[0] != c3 {
		t.Errorf("all of b: %+v, %v", p, err)
	}
	if _, err := l.plan(versions.UndoSelect{Commands: []store.CommandID{c3 + 100}}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("an unknown command: %v", err)
	}
	if _, err := l.plan(versions.UndoSelect{Redo: true}); !errors.Is(err, versions.ErrNothing) {
		t.Errorf("redo without an undo: %v", err)
	}
	l.clock = l.clock.Add(versions.Lately)
	if p, err = l.plan(versions.UndoSelect{}); err != nil || p.Commands[0] != c3 {
		t.Errorf("long after: %+v, %v", p, err)
	}
}

// TestUndoWithoutContents refuses before anything is touched when bytes that would come back are in the store no more.
func TestUndoWithoutContents(t *testing.T) {
	l := newLab(t, store.Options{})
	l.as("base")
	l.mkdir("d")
	l.write("d/lost", "these bytes will be lost")
	l.write("d/kept", "these will not")
	l.as("s")
	l.remove("d")
	if p, err := l.plan(versions.UndoSelect{}); err != nil || p.Created != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
	l.damaged = true
	db, err := sql.Open("sqlite", filepath.Join(l.dir, sqlite.File))
	l.must(err)
	hash := blob.Sum([]byte("these bytes will be lost"))
	res, err := db.Exec("DELETE FROM blob WHERE hash = ?", hash[:])
	l.must(err)
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d blobs were deleted, %v", n, err)
	}
	l.must(db.Close())
	p, err := l.plan(versions.UndoSelect{})
	if err == nil || !strings.Contains(err.Error(), "d/lost") || strings.Contains(err.Error(), "d/kept") {
		t.Errorf("%+v, %v; want an error that names d/lost alone", p, err)
	}
	if p, err := l.plan(versions.UndoSelect{Except: []string{"d/lost"}}); err != nil || p.Created != 2 {
		t.Errorf("without it: %+v, %v", p, err)
	}
}
