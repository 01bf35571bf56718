package versions_test

import (
	"maps"
	"slices"
	"testing"

	"wsfs/store"
	"wsfs/versions"
)

// namedMerge is a merge that somebody wants to find by its name.
type namedMerge struct {
	name         string
	base         map[string]string // files; directories are made for them
	ours, theirs func(l *lab)
	want         map[string]string // files afterwards
	conflicts    []string          // path and why
	kept         []string          // lines of theirs that only the conflicts have
}

func swap(l *lab, a, b string) {
	l.rename(a, "aside")
	l.rename(b, a)
	l.rename("aside", b)
}

var namedMerges = []namedMerge{
	{
		name: "two files change names, and both are edited there", base: map[string]string{"a": "a\n1\n2\n", "b": "b\n1\n2\n"},
		ours:   func(l *lab) { swap(l, "a", "b") },
		theirs: func(l *lab) { l.write("a", "a\n1\nA\n"); l.save("b", "b\n1\nB\n") },
		want:   map[string]string{"b": "a\n1\nA\n", "a": "b\n1\nB\n"},
	},
	{
		name: "two files change names on both sides", base: map[string]string{"a": "a\n", "b": "b\n", "c": "c\n"},
		ours:   func(l *lab) { swap(l, "a", "b") },
		theirs: func(l *lab) { swap(l, "a", "b"); l.write("c", "cc\n") },
		want:   map[string]string{"a": "b\n", "b": "a\n", "c": "cc\n"},
	},
	{
		name: "a becomes b here, and b becomes a there", base: map[string]string{"a": "a\n", "b": "b\n"},
		ours:   func(l *lab) { l.rename("a", "b") },
		theirs: func(l *lab) { l.rename("b", "a") },
		// Each is gone on one side, and has another name on the other.
		want:      map[string]string{"b": "a\n"},
		conflicts: []string{"a delete/modify", "b modify/delete"},
	},
	{
		name: "a ring of three names, turned here, edited there", base: map[string]string{"a": "a\n1\n", "b": "b\n1\n", "c": "c\n1\n"},
		ours:   func(l *lab) { l.rename("a", "x"); l.rename("b", "a"); l.rename("c", "b"); l.rename("x", "c") },
		theirs: func(l *lab) { l.append("a", "A\n"); l.append("b", "B\n"); l.append("c", "C\n") },
		want:   map[string]string{"c": "a\n1\nA\n", "a": "b\n1\nB\n", "b": "c\n1\nC\n"},
	},
	{
		name: "two directories, each moved into the other one", base: map[string]string{"a/f": "f\n", "b/g": "g\n"},
		ours:      func(l *lab) { l.rename("a", "b/a") },
		theirs:    func(l *lab) { l.rename("b", "a/b"); l.write("a/b/g", "gg\n") },
		want:      map[string]string{"b/a/f": "f\n", "b/g": "gg\n"},
		conflicts: []string{"b rename cycle"},
	},
	{
		name: "a directory moved into its own child by both", base: map[string]string{"d/e/k": "k\n", "d/f": "f\n"},
		ours:   func(l *lab) { l.rename("d/e", "e"); l.rename("d", "e/d"); l.write("e/k", "kk\n") },
		theirs: func(l *lab) { l.rename("d/e", "e"); l.rename("d", "e/d"); l.write("e/d/f", "ff\n") },
		want:   map[string]string{"e/k": "kk\n", "e/d/f": "ff\n"},
	},
	{
		name: "a directory moved into its own child here, worked in there", base: map[string]string{"d/e/k": "k\n", "d/f": "f\n"},
		ours:   func(l *lab) { l.rename("d/e", "e"); l.rename("d", "e/d") },
		theirs: func(l *lab) { l.write("d/e/k", "kk\n"); l.write("d/n", "n\n"); l.save("d/f", "ff\n") },
		want:   map[string]string{"e/k": "kk\n", "e/d/f": "ff\n", "e/d/n": "n\n"},
	},
	{
		name: "two files, one name", base: map[string]string{"a": "a\n", "b": "b\n"},
		ours:      func(l *lab) { l.rename("a", "n") },
		theirs:    func(l *lab) { l.rename("b", "n"); l.write("n", "bb\n") },
		want:      map[string]string{"n": "a\n", "b": "bb\n"}, // its content comes, its name does not
		conflicts: []string{"b name taken"},
	},
	{
		name: "two new files, one name", base: map[string]string{"a": "a\n"},
		ours:      func(l *lab) { l.write("n", "ours\n") },
		theirs:    func(l *lab) { l.write("n", "theirs\n") },
		want:      map[string]string{"a": "a\n", "n": "ours\n"},
		conflicts: []string{"n add/add"}, kept: []string{"theirs"},
	},
	{
		name: "a directory here, a file there", base: map[string]string{"a": "a\n"},
		ours:      func(l *lab) { l.mkdir("n"); l.write("n/x", "x\n") },
		theirs:    func(l *lab) { l.write("n", "theirs\n") },
		want:      map[string]string{"a": "a\n", "n/x": "x\n"},
		conflicts: []string{"n directory/file"}, kept: []string{"theirs"},
	},
	{
		name: "a file here, a directory there", base: map[string]string{"a": "a\n"},
		ours:      func(l *lab) { l.write("n", "ours\n") },
		theirs:    func(l *lab) { l.mkdir("n"); l.write("n/x", "x\n") },
		want:      map[string]string{"a": "a\n", "n": "ours\n"},
		conflicts: []string{"n directory/file", "n/x directory not there"}, kept: []string{"x"},
	},
	{
		name: "removed here, changed there", base: map[string]string{"a": "a\n", "b": "b\n"},
		ours:      func(l *lab) { l.remove("a") },
		theirs:    func(l *lab) { l.write("a", "theirs\n") },
		want:      map[string]string{"b": "b\n"},
		conflicts: []string{"a delete/modify"}, kept: []string{"theirs"},
	},
	{
		name: "changed here, removed there", base: map[string]string{"a": "a\n", "b": "b\n"},
		ours:      func(l *lab) { l.write("a", "ours\n") },
		theirs:    func(l *lab) { l.remove("a") },
		want:      map[string]string{"a": "ours\n", "b": "b\n"},
		conflicts: []string{"a modify/delete"},
	},
	{
		name: "a directory renamed here, removed there with all that is in it", base: map[string]string{"d/s/k": "k\n", "d/l": "l\n", "b": "b\n"},
		ours:      func(l *lab) { l.rename("d", "e") },
		theirs:    func(l *lab) { l.remove("d"); l.write("b", "bb\n") },
		want:      map[string]string{"e/s/k": "k\n", "e/l": "l\n", "b": "bb\n"},
		conflicts: []string{"e modify/delete"},
	},
	{
		name: "a directory with a new file here, removed there", base: map[string]string{"d/k": "k\n"},
		ours:      func(l *lab) { l.write("d/new", "new\n") },
		theirs:    func(l *lab) { l.remove("d") },
		want:      map[string]string{"d/new": "new\n"},
		conflicts: []string{"d directory not empty"},
	},
}

// TestMergeNamed merges what is worth a name, and takes it back.
func TestMergeNamed(t *testing.T) {
	for _, c := range namedMerges {
		t.Run(c.name, func(t *testing.T) {
			a := newLab(t, store.Options{})
			a.as("base")
			for _, path := range slices.Sorted(maps.Keys(c.base)) {
				for i := range path {
					if _, err := a.find(path[:i]); path[i] == '/' && err != nil {
						a.mkdir(path[:i])
					}
				}
				a.write(path, c.base[path])
			}
			b := a.fork("b")
			b.as("B")
			c.theirs(b)
			a.as("A")
			c.ours(a)
			before := a.tree()
			m := a.as("M")
			plan := a.merge(b, versions.MergeSelect{})
			a.is(c.want)
			if got := whys(plan); !slices.Equal(got, c.conflicts) {
				t.Errorf("conflicts %q, want %q", got, c.conflicts)
			}
			kept := a.kept(plan)
			for _, line := range c.kept {
				if !kept[line] {
					t.Errorf("no conflict has %q", line)
				}
			}
			if len(plan.Names)+len(plan.Versions) == 0 {
				return
			}
			a.as("U")
			_, err := a.undo(versions.UndoSelect{Commands: []store.CommandID{m}})
			a.must(err)
			if got := a.tree(); !maps.Equal(got, before) {
				t.Errorf("after undo %q, was %q", diffMaps(got, before), diffMaps(before, got))
			}
		})
	}
}
