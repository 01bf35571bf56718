package versions_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
	"wsfs/versions"
)

var mergeSeeds = flag.Int("merge-seeds", 4, "how many random merges TestMergeRandom makes")

// hand makes random changes of a tree. Every line that it writes is written once only.
type hand struct {
	*lab
	r    *rand.Rand
	tag  string
	n    int
	said []string
}

func (h *hand) line() string { h.n++; return fmt.Sprintf("%s%d\n", h.tag, h.n) }

// paths are those of files, or of directories with the root.
func (h *hand) paths(dirs bool) []string {
	var out []string
	if dirs {
		out = append(out, "")
	}
	for path, what := range h.tree() {
		if strings.HasPrefix(what, "d") == dirs && (dirs || strings.HasPrefix(what, "100")) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

func (h *hand) pick(list []string) string { return list[h.r.IntN(len(list))] }

func (h *hand) fresh() string {
	for {
		name := strings.TrimPrefix(h.pick(h.paths(true))+"/"+string(rune('a'+h.r.IntN(12))), "/")
		if _, err := h.find(name); err != nil {
			return name
		}
	}
}

// edit changes a line of a text, adds one, or takes one away.
func (h *hand) edit(text string) string {
	lines := strings.SplitAfter(text, "\n")
	lines = lines[:len(lines)-1]
	switch i := h.r.IntN(len(lines) + 1); {
	case i == len(lines) || h.r.IntN(3) == 0:
		lines = slices.Insert(lines, i, h.line())
	case h.r.IntN(2) == 0:
		lines = slices.Delete(lines, i, i+1)
	default:
		lines[i] = h.line()
	}
	return strings.Join(lines, "")
}

func (h *hand) step() {
	say := func(format string, args ...any) { h.said = append(h.said, fmt.Sprintf(h.name+": "+format, args...)) }
	files, dirs := h.paths(false), h.paths(true)
	do := h.r.IntN(14)
	if len(files) == 0 {
		do = 0
	}
	switch do {
	case 0, 1:
		p := h.fresh()
		say("create %s", p)
		h.write(p, h.line()+h.line()+h.line()+h.line())
	case 2:
		p := h.fresh()
		say("mkdir %s", p)
		h.mkdir(p)
	case 3, 4, 5, 6:
		p := h.pick(files)
		text := h.edit(h.text(p))
		style := h.r.IntN(4)
		say("edit %s, style %d", p, style)
		switch style {
		case 0:
			h.write(p, text)
		case 1:
			h.save(p, text)
		case 2:
			h.remove(p)
			h.write(p, text)
		case 3:
			h.backup(p, text)
		}
	case 7:
		p := h.pick(files)
		say("remove %s", p)
		h.remove(p)
	case 8:
		if p := h.pick(dirs); p != "" {
			say("remove %s", p)
			h.remove(p)
		}
	case 9:
		p, q := h.pick(files), h.fresh()
		say("rename %s %s", p, q)
		h.rename(p, q)
	case 10:
		if p, q := h.pick(dirs), h.fresh(); p != "" && q != p && !strings.HasPrefix(q, p+"/") {
			say("rename %s %s", p, q)
			h.rename(p, q)
		}
	case 11:
		p := h.pick(files)
		say("chmod %s", p)
		h.chmod(p, []uint32{0o600, 0o644, 0o755}[h.r.IntN(3)])
	case 12:
		p, q := h.pick(files), h.fresh()
		say("link %s %s", p, q)
		h.link(p, q)
	case 13:
		p := h.pick(files)
		say("checkout of %s", p)
		text := h.text(p)
		h.remove(p)
		h.write(p, text)
	}
}

// lines are all lines of all files.
func (l *lab) lines() map[string]bool {
	out := map[string]bool{}
	for path, what := range l.tree() {
		if strings.HasPrefix(what, "100") {
			for _, line := range strings.Split(strings.TrimSuffix(l.text(path), "\n"), "\n") {
				if line != "" {
					out[line] = true
				}
			}
		}
	}
	return out
}

// content is what the conflicts of a plan keep.
func (l *lab) kept(plan *versions.MergePlan) map[string]bool {
	out := map[string]bool{}
	for _, c := range plan.Conflicts {
		if c.Theirs != nil && c.Theirs.Type() == syscall.S_IFREG && c.Theirs.Size > 0 {
			for _, line := range strings.Split(l.read(c.Theirs), "\n") {
				out[line] = true
			}
		}
	}
	return out
}

// TestMergeRandom: nothing that one side wrote or removed is lost without a conflict; without conflicts it does not matter which of
// the two takes the other in; what was merged is merged; undo brings back exactly what was.
func TestMergeRandom(t *testing.T) {
	for seed := range *mergeSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { mergeRandom(t, uint64(seed)) })
	}
}

func mergeRandom(t *testing.T, seed uint64) {
	l := newLab(t, store.Options{})
	r := rand.New(rand.NewPCG(seed, 7))
	base := &hand{lab: l, r: r, tag: "base"}
	base.as("base")
	for range 14 {
		base.step()
	}
	was := l.lines()
	a, b := &hand{lab: l.fork("a"), r: r, tag: "A"}, &hand{lab: l.fork("b"), r: r, tag: "B"}
	for round := range 2 { // and then again, from where they met
		from := len(a.said) + len(b.said)
		for range 1 + r.IntN(5) {
			a.as("A")
			a.step()
			b.as("B")
			b.step()
		}
		if len(a.said)+len(b.said) == from {
			return
		}
		inA, inB := a.lines(), b.lines()
		said := func() string { return strings.Join(slices.Concat(base.said, a.said, b.said), "\n") }
		a2, b2 := a.fork(fmt.Sprintf("a%d", round)), b.fork(fmt.Sprintf("b%d", round))
		before := a2.tree()
		m := a2.as("M")
		ab, err := a2.planMerge(b.lab, versions.MergeSelect{})
		if errors.Is(err, versions.ErrNothing) {
			return
		}
		l.must(err)
		a2.apply(ab, b.lab)
		merged, kept := a2.lines(), a2.kept(ab)
		for line := range inA {
			if !was[line] && !merged[line] {
				t.Errorf("ours lost %q of its own (%v)\n%s", line, whys(ab), said())
			}
		}
		for line := range inB {
			if !was[line] && !merged[line] && !kept[line] {
				t.Errorf("%q of theirs is nowhere (%v)\n%s", line, whys(ab), said())
			}
		}
		// Who links a file and then saves it by replacement has made a copy: the edits of others go to the one, removals to the other.
		linked := strings.Contains(said(), ": link ")
		for line := range was {
			if gone := !inA[line] || !inB[line]; gone && merged[line] && len(ab.Conflicts) == 0 && !linked {
				t.Errorf("%q was removed and is there\n%s", line, said())
			}
			if inA[line] && inB[line] && !merged[line] {
				t.Errorf("%q that both had is gone (%v)\n%s", line, whys(ab), said())
			}
		}
		if _, err := a2.planMerge(b.lab, versions.MergeSelect{}); !errors.Is(err, versions.ErrNothing) {
			t.Errorf("a second merge: %v\n%s", err, said())
		}
		b2.as("M")
		ba, err := b2.planMerge(a.lab, versions.MergeSelect{})
		if errors.Is(err, versions.ErrNothing) {
			return
		}
		l.must(err)
		b2.apply(ba, a.lab)
		x, y := a2.tree(), b2.tree()
		if len(ab.Conflicts) == 0 && len(ba.Conflicts) == 0 && !maps.Equal(x, y) {
			t.Errorf("a <- b and b <- a differ:\n%v\n%v\n%s", diffMaps(x, y), diffMaps(y, x), said())
		}
		if (len(ab.Conflicts) == 0) != (len(ba.Conflicts) == 0) {
			t.Errorf("conflicts %v one way, %v the other way\n%s", whys(ab), whys(ba), said())
		}
		if len(ab.Names)+len(ab.Versions) > 0 {
			a2.as("U")
			_, err := a2.undo(versions.UndoSelect{Commands: []store.CommandID{m}})
			l.must(err)
			if got := a2.tree(); !maps.Equal(got, before) {
				t.Errorf("undo of the merge: %v, was %v\n%s", diffMaps(got, before), diffMaps(before, got), said())
			}
			if again, err := a2.planMerge(b.lab, versions.MergeSelect{}); err != nil || len(again.Entries) != len(ab.Entries) {
				t.Errorf("merged again after an undo: %v, %v\n%s", again, err, said())
			}
		}
		if t.Failed() || len(ab.Conflicts) > 0 {
			return
		}
		a.as("M")
		a.merge(b.lab, versions.MergeSelect{})
		was = b.lines()
	}
}

func diffMaps(a, b map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range a {
		if b[k] != v {
			out[k] = v
		}
	}
	return out
}
