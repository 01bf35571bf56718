package versions_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// undo plans and carries out, as the daemon does.
func (l *lab) undo(sel versions.UndoSelect) (*versions.UndoPlan, error) {
	l.t.Helper()
	ctx := context.Background()
	h, err := l.fs.Hold(ctx)
	l.must(err)
	defer h.Release()
	timeline, seq := h.At()
	sel.Now, sel.List = l.clock, true
	p, err := versions.PlanUndo(ctx, l.st, l.fs.Workspace(), versions.Place{Timeline: timeline, Seq: seq}, sel)
	if err != nil || len(p.Conflicts) > 0 {
		return p, err
	}
	kind, why := store.OpUndo, versions.WhyUndo
	if sel.Redo {
		kind, why = store.OpRedo, versions.WhyRedo
	}
	return p, l.carry(h, p, kind, why)
}

func (l *lab) carry(h *fs.Held, p *versions.UndoPlan, kind store.OpKind, why string) error {
	l.t.Helper()
	ctx := context.Background()
	if p.Move != nil {
		return h.Move(ctx, fs.Move{Timeline: p.Move.Timeline, Seq: p.Move.Seq, Why: why, Who: l.who})
	}
	contents, err := p.Contents(l.st)
	l.must(err)
	_, err = h.Edit(ctx, &fs.Edit{Kind: kind, Who: l.who, Undoes: p.Undoes, Names: p.Names, Versions: p.Versions, Contents: contents})
	return err
}

func (l *lab) rollback(to versions.Place, paths ...string) {
	l.t.Helper()
	ctx := context.Background()
	h, err := l.fs.Hold(ctx)
	l.must(err)
	defer h.Release()
	timeline, seq := h.At()
	v, err := l.st.ViewAt(ctx, to.Timeline, to.Seq)
	l.must(err)
	to.Timeline, to.Seq = v.Head()
	p, err := versions.PlanRollback(ctx, l.st, l.fs.Workspace(), versions.Place{Timeline: timeline, Seq: seq}, to, versions.UndoSelect{Paths: paths})
	l.must(err)
	if len(p.Conflicts) > 0 {
		l.t.Errorf("conflicts of a rollback: %v", p.Conflicts)
	}
	l.countsNames(versions.Place{Timeline: timeline, Seq: seq}, to)
	l.must(l.carry(h, p, store.OpRestore, versions.WhyRollback))
}

// countsNames compares what the changes between two places tell of names with what both states say.
func (l *lab) countsNames(from, to versions.Place) {
	l.t.Helper()
	ctx := context.Background()
	a, err := l.st.ViewAt(ctx, from.Timeline, from.Seq)
	l.must(err)
	b, err := l.st.ViewAt(ctx, to.Timeline, to.Seq)
	l.must(err)
	told, _, err := versions.NamesApart(ctx, l.st, a, b)
	l.must(err)
	got, want := map[[2]store.Ino]int{}, map[[2]store.Ino]int{}
	for _, p := range told {
		if p[0] != p[1] {
			got[p]++
		}
	}
	keys := map[store.DirName]bool{}
	spans, err := l.st.Apart(ctx, a, b)
	l.must(err)
	for _, sp := range spans {
		l.must(l.st.Touched(ctx, sp, func(it *store.Item) error {
			keys[store.DirName{Parent: it.Parent, Name: it.Name}] = it.Name != ""
			if it.FromName != "" {
				keys[store.DirName{Parent: it.FromParent, Name: it.FromName}] = true
			}
			return nil
		}))
	}
	for k := range keys {
		x, err := a.Lookups(ctx, []store.DirName{k})
		l.must(err)
		y, err := b.Lookups(ctx, []store.DirName{k})
		l.must(err)
		if x[0].Ino != y[0].Ino {
			want[[2]store.Ino{x[0].Ino, y[0].Ino}]++
		}
	}
	if !maps.Equal(got, want) {
		l.t.Errorf("from %v to %v the changes tell %v, the states %v", from, to, got, want)
	}
}

// muddle makes n random changes below dir, with names that begin with mark.
func (l *lab) muddle(r *rand.Rand, dir, mark string, n int) {
	l.t.Helper()
	for range n {
		tree := l.tree()
		var files, dirs []string
		dirs = append(dirs, dir)
		for _, p := range slices.Sorted(maps.Keys(tree)) {
			if dir != "" && !strings.HasPrefix(p, dir+"/") || mark != "" && !strings.HasPrefix(filepath.Base(p), mark) {
				continue
			}
			if strings.HasPrefix(tree[p], "d") {
				dirs = append(dirs, p)
			} else {
				files = append(files, p)
			}
		}
		pick := func(list []string) string { return list[r.IntN(len(list))] }
		fresh := func() string {
			p := strings.TrimPrefix(pick(dirs)+"/"+mark+string(rune('a'+r.IntN(5))), "/")
			if _, ok := tree[p]; ok {
				p += fmt.Sprint(r.IntN(1000))
			}
			return p
		}
		isReg := func(p string) bool { return strings.HasPrefix(tree[p], "100") }
		text := fmt.Sprintf("%d\n%d\n", r.IntN(5), r.IntN(1000))
		switch op := r.IntN(14); {
		case op < 2 || len(files) == 0:
			l.write(fresh(), text)
		case op == 2:
			l.mkdir(fresh())
		case op == 3:
			l.symlink(text[:1], fresh())
		case op == 4:
			if p := pick(files); isReg(p) {
				l.link(p, fresh())
			}
		case op < 7:
			if p := pick(files); isReg(p) {
				switch r.IntN(4) {
				case 0:
					l.write(p, text)
				case 1:
					l.append(p, text)
				case 2:
					l.save(p, text)
				default:
					l.backup(p, text)
				}
			}
		case op == 7:
			l.remove(pick(files))
		case op == 8 && len(dirs) > 1:
			l.remove(pick(dirs[1:]))
		case op == 9:
			l.rename(pick(files), fresh())
		case op == 10 && len(dirs) > 1:
			d := pick(dirs[1:])
			if to := fresh(); to != d && !strings.HasPrefix(to, d+"/") {
				l.rename(d, to)
			}
		case op == 11:
			if a, b := pick(files), pick(files); a != b {
				l.rename(a, b)
			}
		case op == 12:
			l.chmod(pick(append(dirs[1:len(dirs):len(dirs)], files...)), uint32(0o600+r.IntN(0o177)))
		case op == 13:
			if p := pick(files); isReg(p) {
				l.xattr(p, "user."+text[:1], text)
			}
		}
	}
}

// TestUndoRandomAlone lets one session make commands at random, undoes them one by one and redoes them: every state in
// between must come back exactly, whatever the size of the groups.
func TestUndoRandomAlone(t *testing.T) {
	seeds := 5
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			var plans [3][]string
			for g, group := range []int{1, 32, 1024} {
				r := rand.New(rand.NewPCG(uint64(seed), 7))
				l := newLab(t, store.Options{GroupOps: group})
				l.as("base")
				l.muddle(r, "", "", 12)
				states := []map[string]string{l.tree()}
				for range 4 {
					l.as("s")
					l.muddle(r, "", "", 6)
					if now := l.tree(); !maps.Equal(now, states[len(states)-1]) {
						states = append(states, now)
					} else {
						l.write("always", fmt.Sprint(len(states)))
						states = append(states, l.tree())
					}
				}
				own := versions.UndoSelect{Own: []store.SessionID{l.sessions["s"].ID}}
				step := func(sel versions.UndoSelect, want map[string]string, what string) {
					t.Helper()
					l.as("s")
					p, err := l.undo(sel)
					if err != nil || len(p.Conflicts) > 0 {
						t.Fatalf("%s: %v, %v", what, p, err)
					}
					plans[g] = append(plans[g], fmt.Sprintf("%s %+v", what, p.Entries))
					l.same(l.tree(), want, what)
				}
				redo := own
				redo.Redo = true
				for i := len(states) - 2; i >= 0; i-- {
					step(own, states[i], fmt.Sprintf("undo to state %d", i))
				}
				for i := 1; i < 3; i++ {
					step(redo, states[i], fmt.Sprintf("redo to state %d", i))
				}
				step(own, states[1], "undo again to state 1")
				for i := 2; i < len(states); i++ {
					step(redo, states[i], fmt.Sprintf("redo again to state %d", i))
				}
				l.as("s")
				if _, err := l.undo(redo); !errors.Is(err, versions.ErrNothing) {
					t.Errorf("redo of everything redone: %v", err)
				}
				if t.Failed() {
					return
				}
			}
			for g := 1; g < 3; g++ {
				if !slices.Equal(plans[g], plans[0]) {
					for i := range plans[g] {
						if plans[g][i] != plans[0][i] {
							t.Errorf("plans with other groups differ:\n%v\n%v", plans[g][i], plans[0][i])
						}
					}
				}
			}
		})
	}
}

// TestUndoRandomForeign lets two sessions work at random, each on files of its own in directories they share, and takes
// all that one of them did back: the other's work must be as if it had been alone.
func TestUndoRandomForeign(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			run := func(both bool) (*lab, map[string]string) {
				l := newLab(t, store.Options{})
				l.as("base")
				l.mkdir("x")
				l.mkdir("y")
				for i := range 4 {
					l.write(fmt.Sprintf("x/a%d", i), "a")
					l.write(fmt.Sprintf("y/b%d", i), "b")
				}
				ra, rb := rand.New(rand.NewPCG(uint64(seed), 1)), rand.New(rand.NewPCG(uint64(seed), 2))
				for range 4 {
					if both {
						l.as("a")
						l.muddle(ra, "x", "a", 4)
						l.muddle(ra, "y", "a", 3)
					}
					l.as("b")
					l.muddle(rb, "y", "b", 4)
					l.muddle(rb, "x", "b", 3)
				}
				return l, l.tree()
			}
			_, want := run(false)
			l, _ := run(true)
			l.as("b")
			p, err := l.undo(versions.UndoSelect{Sessions: []store.SessionID{l.sessions["a"].ID}})
			if err != nil || len(p.Conflicts) > 0 {
				t.Fatalf("%+v, %v", p, err)
			}
			l.same(l.tree(), want, "after the undo")
			before := want
			l.as("b")
			if _, err = l.undo(versions.UndoSelect{Redo: true}); err != nil {
				t.Fatal(err)
			}
			l.as("b")
			if _, err = l.undo(versions.UndoSelect{Sessions: []store.SessionID{l.sessions["a"].ID}}); err != nil {
				t.Fatal(err)
			}
			l.same(l.tree(), before, "after redo and undo")
		})
	}
}

// TestUndoMergesAsGit edits single lines of a text in every save style, and compares what an undo leaves with git
// merge-file.
func TestUndoMergesAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git to compare with")
	}
	r := rand.New(rand.NewPCG(3, 3))
	l := newLab(t, store.Options{})
	dir := t.TempDir()
	clean, stopped := 0, 0
	for i := range 45 {
		path := fmt.Sprintf("f%d", i)
		var lines []string
		for k := range 12 {
			lines = append(lines, fmt.Sprintf("line %d", k))
		}
		text := func() string { return strings.Join(lines, "\n") + "\n" }
		put := func() {
			switch r.IntN(3) {
			case 0:
				l.write(path, text())
			case 1:
				l.save(path, text())
			default:
				l.backup(path, text())
			}
		}
		edit := func(who string) {
			switch k := r.IntN(len(lines)); r.IntN(3) {
			case 0:
				lines[k] = fmt.Sprintf("%s %d", who, r.IntN(100))
			case 1:
				lines = slices.Insert(lines, k, fmt.Sprintf("new %s %d", who, r.IntN(100)))
			default:
				lines = slices.Delete(lines, k, k+1)
			}
		}
		l.as("base")
		l.write(path, text())
		before := text()
		c := l.as("a")
		edit("a")
		edit("a")
		put()
		after := text()
		l.as("b")
		for range 1 + r.IntN(2) {
			edit("b")
			put()
		}
		now := text()
		for name, s := range map[string]string{"ours": now, "base": after, "theirs": before} {
			l.must(os.WriteFile(filepath.Join(dir, name), []byte(s), 0o600))
		}
		want, gitErr := exec.Command("git", "merge-file", "-p", filepath.Join(dir, "ours"), filepath.Join(dir, "base"), filepath.Join(dir, "theirs")).Output()
		p, err := l.plan(versions.UndoSelect{Commands: []store.CommandID{c}})
		if errors.Is(err, versions.ErrNothing) {
			continue
		}
		l.must(err)
		if (gitErr != nil) != (len(p.Conflicts) > 0) {
			t.Errorf("%s: conflicts %v, git merge-file %v", path, p.Conflicts, gitErr)
			continue
		}
		if gitErr != nil {
			stopped++
			continue
		}
		clean++
		got := l.preview(p)
		if w := fmt.Sprintf("100644 %q \"\" ", want); got[path] != w {
			t.Errorf("%s is %s, git merge-file says %s", path, got[path], w)
		}
	}
	if clean < 10 || stopped < 5 {
		t.Errorf("%d merges, %d conflicts: too few of one kind to tell", clean, stopped)
	}
}

// TestUndoOfRollback takes a rollback back: by moving the pointer if nothing came since, else by a change that keeps what
// came.
func TestUndoOfRollback(t *testing.T) {
	l := newLab(t, store.Options{})
	l.as("s")
	l.mkdir("d")
	l.write("d/a", "1")
	early := l.place()
	old := l.tree()
	l.as("s")
	l.write("d/a", "2")
	l.write("d/b", "b")
	l.mkdir("e")
	l.write("e/x", "x")
	full := l.tree()
	l.as("s")
	l.rollback(early)
	l.same(l.tree(), old, "rollback")
	own := versions.UndoSelect{Own: []store.SessionID{l.sessions["s"].ID}}
	redo := own
	redo.Redo = true
	for _, step := range []struct {
		sel  versions.UndoSelect
		want map[string]string
		what string
	}{
		{own, full, "undo of the rollback"},
		{redo, old, "redo of the rollback"},
		{own, full, "undo again"},
		{redo, old, "redo again"},
	} {
		l.as("s")
		p, err := l.undo(step.sel)
		if err != nil || p.Move == nil {
			t.Fatalf("%s: %+v, %v; want a move", step.what, p, err)
		}
		l.same(l.tree(), step.want, step.what)
	}
	// Something came since: it stays.
	l.as("other")
	l.write("n", "n")
	l.as("s")
	p, err := l.undo(own)
	if err != nil || p.Move != nil || len(p.Conflicts) > 0 {
		t.Fatalf("undo of the rollback after a change: %+v, %v", p, err)
	}
	full["n"] = l.tree()["n"]
	l.same(l.tree(), full, "undo of the rollback after a change")
	l.as("s")
	if _, err = l.undo(redo); err != nil {
		t.Fatal(err)
	}
	old["n"] = full["n"]
	l.same(l.tree(), old, "redo of it")
	l.as("s")
	if _, err = l.undo(own); err != nil {
		t.Fatal(err)
	}
	l.same(l.tree(), full, "and undo of that")
	// What had been done before the rollback is next.
	l.as("s")
	if p, err = l.undo(own); err != nil || len(p.Conflicts) > 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	delete(full, "d/b")
	delete(full, "e")
	delete(full, "e/x")
	full["d/a"] = old["d/a"]
	l.same(l.tree(), full, "the command before the rollback")
}

// TestRollbackOfPaths brings only what is below a path to an older state, exactly.
func TestRollbackOfPaths(t *testing.T) {
	for seed := range 6 {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		l := newLab(t, store.Options{})
		l.as("base")
		l.mkdir("x")
		l.mkdir("y")
		l.muddle(r, "x", "", 10)
		early, old := l.place(), l.tree()
		l.as("s")
		l.muddle(r, "x", "", 15)
		l.muddle(r, "y", "", 5)
		now := l.tree()
		if now["x"] == "" {
			continue
		}
		l.as("s")
		want := map[string]string{}
		for p, s := range now {
			if p != "x" && !strings.HasPrefix(p, "x/") {
				want[p] = s
			}
		}
		for p, s := range old {
			if p == "x" || strings.HasPrefix(p, "x/") {
				want[p] = s
			}
		}
		if maps.Equal(want, now) {
			continue
		}
		l.rollback(early, "x")
		l.same(l.tree(), want, fmt.Sprintf("seed %d", seed))
		l.as("s")
		_, err := l.undo(versions.UndoSelect{})
		l.must(err)
		l.same(l.tree(), now, fmt.Sprintf("seed %d, undone", seed))
	}
}
