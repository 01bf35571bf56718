package versions

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
)

// texts is a diff as short text.
func (w *world) texts(a, b *store.View, o DiffOptions) []string {
	w.t.Helper()
	list, err := Diff(context.Background(), w.st, a, b, o)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		s := e.What + " "
		if e.From != "" {
			s += e.From + " -> "
		}
		s += e.Path
		if e.What == Renamed && len(e.Changed()) > 0 {
			s += " " + strings.Join(e.Changed(), ",")
		}
		out = append(out, s)
	}
	return out
}

func (w *world) differs(a, b *store.View, o DiffOptions, want ...string) {
	w.t.Helper()
	if got := w.texts(a, b, o); !reflect.DeepEqual(got, want) {
		w.t.Errorf("diff:\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestDiffWords(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	w.create("d/a", "one")
	w.create("d/b", "two")
	w.create("mode", "x")
	w.create("saved", "old")
	w.create("becomes", "x")
	w.symlink("l", "d/a")
	w.create("same", "s")
	a := w.view()
	w.write("d/a", "other")
	w.rename("d/b", "d/c")
	w.chmod("mode", 0o755)
	w.create(".saved.tmp", "new")
	w.rename(".saved.tmp", "saved")
	w.remove("becomes")
	w.mkdir("becomes")
	w.create("fresh", "f")
	w.remove("l")
	w.symlink("l", "d/c")
	w.write("same", "t")
	w.write("same", "s")
	b := w.view()
	w.differs(a, b, DiffOptions{}, "type becomes", "modified d/a", "renamed d/b -> d/c", "added fresh", "modified l", "mode mode",
		"modified saved")
	w.differs(b, a, DiffOptions{}, "type becomes", "modified d/a", "renamed d/c -> d/b", "removed fresh", "modified l", "mode mode",
		"modified saved")
	w.differs(a, b, DiffOptions{Paths: []string{"d", "/fresh"}}, "modified d/a", "renamed d/b -> d/c", "added fresh")
	w.differs(a, a, DiffOptions{})
}

func TestDiffRenames(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	w.mkdir("d/sub")
	w.create("d/a", "one")
	w.create("d/sub/b", "two")
	w.create("f", "text")
	w.mkdir("x")
	w.create("x/in", "x")
	a := w.view()
	w.rename("d", "e")
	w.write("e/sub/b", "changed")
	w.rename("f", "g")
	w.create(".g", "saved by replacement")
	w.rename(".g", "g")
	b := w.view()
	w.differs(a, b, DiffOptions{}, "renamed d -> e", "renamed d/sub/b -> e/sub/b content", "renamed f -> g content")
	w.differs(a, b, DiffOptions{Expand: true}, "renamed d -> e", "renamed d/a -> e/a", "renamed d/sub -> e/sub",
		"renamed d/sub/b -> e/sub/b content", "renamed f -> g content")
	w.differs(a, b, DiffOptions{Paths: []string{"e/a"}}, "renamed d/a -> e/a")
	// A directory takes the place of another one: what is below both has to be compared though nothing touched it.
	w.rename("x", "y")
	w.rename("e", "x")
	w.differs(b, w.view(), DiffOptions{}, "removed e", "renamed e/a -> x/a", "renamed e/sub -> x/sub",
		"renamed e/sub/b -> x/sub/b", "added y", "renamed x/in -> y/in")
}

func (w *world) isReg(path string) bool {
	v := w.nodes[w.paths[path]]
	return v.Type() == syscall.S_IFREG
}

func (w *world) isDirIno(ino store.Ino) bool {
	v := w.nodes[ino]
	return v.IsDir()
}

// snapshot is a point to go back to.
type snapshot struct {
	timeline store.TimelineID
	seq      store.Seq
	nodes    map[store.Ino]store.Version
	paths    map[string]store.Ino
}

func (w *world) snapshot() snapshot {
	return snapshot{w.ws.Timeline, w.seq, maps.Clone(w.nodes), maps.Clone(w.paths)}
}

// rollback goes on from an earlier state on a new timeline.
func (w *world) rollback(s snapshot) {
	w.ws.Timeline = w.st.NewTimelineID()
	w.ws.Generation++
	w.nodes, w.paths = maps.Clone(s.nodes), maps.Clone(s.paths)
	w.append(&store.Op{
		Kind: store.OpWorkspace, Items: []store.Item{{Op: store.OpWorkspace, Ino: store.RootIno}},
		Pointer: &store.Pointer{Workspace: w.ws, Why: "rollback", NewTimeline: &store.Timeline{
			ID: w.ws.Timeline, Parent: s.timeline, ParentSeq: s.seq, Head: w.seq,
		}},
	})
}

// full is every path of a state.
func (w *world) full(v *store.View) map[string]*store.Version {
	w.t.Helper()
	ctx := context.Background()
	root, err := v.Version(ctx, store.RootIno)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]*store.Version{}
	if err := Walk(ctx, v, root, func(n Node) error { out[n.Path] = n.Version; return nil }, func(Node) error { return nil }); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func look(v *store.Version) string {
	return fmt.Sprintf("%o %x %s", v.Mode, v.Content[:4], v.Target)
}

// random makes one change that is possible now.
func (w *world) random(r *rand.Rand, n int) {
	dirs, files := []string{""}, []string{}
	for _, p := range slices.Sorted(maps.Keys(w.paths)) {
		switch v := w.nodes[w.paths[p]]; {
		case p == "":
		case v.IsDir():
			dirs = append(dirs, p)
		default:
			files = append(files, p)
		}
	}
	name := join(dirs[r.IntN(len(dirs))], string(rune('a'+r.IntN(5))))
	_, taken := w.paths[name]
	some := func() string { return files[r.IntN(len(files))] }
	switch k := r.IntN(12); {
	case k < 3 && !taken:
		w.create(name, fmt.Sprint("content ", n))
	case k == 3 && !taken:
		w.mkdir(name)
	case k == 4 && !taken && len(files) > 0:
		if f := some(); w.isReg(f) {
			w.link(f, name)
		}
	case k == 5 && !taken:
		w.symlink(name, fmt.Sprint("target ", r.IntN(3)))
	case k < 8 && len(files) > 0:
		if f := some(); w.isReg(f) {
			w.write(f, fmt.Sprint("content ", r.IntN(n+1)))
		}
	case k == 8 && len(files) > 0:
		w.chmod(some(), uint32(0o600+r.IntN(2)*0o100))
	case k == 9 && len(files) > 0:
		w.remove(some())
	case k == 10 && len(files) > 0: // a file, perhaps onto another one
		f := some()
		to, there := w.paths[name]
		if f != name && (!there || !w.isDirIno(to) && to != w.paths[f]) {
			w.rename(f, name)
		}
	case k == 11 && len(dirs) > 1 && !taken:
		d := dirs[1+r.IntN(len(dirs)-1)]
		if name != d && !strings.HasPrefix(name, d+"/") {
			w.rename(d, name)
		}
	}
}

// Random histories with rollbacks: the diff of any two states against full walks of both.
func TestDiffModel(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		snaps := []snapshot{w.snapshot()}
		for n := range 150 {
			w.random(r, n)
			if r.IntN(8) == 0 {
				snaps = append(snaps, w.snapshot())
			}
			if r.IntN(40) == 0 {
				w.rollback(snaps[r.IntN(len(snaps))])
				snaps = append(snaps, w.snapshot())
			}
		}
		for range 40 {
			x, y := snaps[r.IntN(len(snaps))], snaps[r.IntN(len(snaps))]
			a, err := w.st.ViewAt(context.Background(), x.timeline, x.seq)
			if err != nil {
				t.Fatal(err)
			}
			b, err := w.st.ViewAt(context.Background(), y.timeline, y.seq)
			if err != nil {
				t.Fatal(err)
			}
			w.checkDiff(a, b)
			if t.Failed() {
				t.Fatalf("seed %d: from %d@%d to %d@%d", seed, x.timeline, x.seq, y.timeline, y.seq)
			}
		}
	}
}

// checkDiff applies the diff of a and b to all paths of a and compares with all paths of b; and what a diff calls
// different must be.
func (w *world) checkDiff(a, b *store.View) {
	w.t.Helper()
	was, is := w.full(a), w.full(b)
	for _, expand := range []bool{false, true} {
		list, err := Diff(context.Background(), w.st, a, b, DiffOptions{Expand: expand})
		if err != nil {
			w.t.Fatal(err)
		}
		got := map[string]string{}
		moves := map[string]string{}
		removed := map[string]bool{}
		for _, e := range list {
			switch e.What {
			case Renamed:
				moves[e.From] = e.Path
				if e.A.Ino != e.B.Ino && e.A.Type() != syscall.S_IFREG {
					w.t.Errorf("%q became %q", e.From, e.Path)
				}
				if is[e.From] != nil || was[e.Path] != nil {
					w.t.Errorf("renamed %q to %q, but both sides have one of them", e.From, e.Path)
				}
			case Removed:
				removed[e.Path] = true
			case Added:
				if was[e.Path] != nil {
					w.t.Errorf("added %q was there", e.Path)
				}
			default:
				if was[e.Path] == nil || is[e.Path] == nil || look(was[e.Path]) == look(is[e.Path]) {
					w.t.Errorf("%s %q does not differ", e.What, e.Path)
				}
			}
		}
		for path, v := range was {
			to := path
			if !removed[path] {
				to = moveTo(path, moves, expand)
				got[to] = look(v)
			}
		}
		for _, e := range list {
			if e.What != Removed {
				got[e.Path] = look(e.B)
			}
		}
		want := map[string]string{}
		for path, v := range is {
			want[path] = look(v)
		}
		if !maps.Equal(got, want) {
			for p := range want {
				if got[p] != want[p] {
					w.t.Errorf("expand %v: %q is %q, want %q", expand, p, got[p], want[p])
				}
			}
			for p := range got {
				if want[p] == "" {
					w.t.Errorf("expand %v: %q should be gone", expand, p)
				}
			}
			w.t.Logf("%q", w.texts(a, b, DiffOptions{Expand: expand}))
		}
	}
}

// moveTo is where a path went: by its own rename, or with the nearest directory above it that has one.
func moveTo(path string, moves map[string]string, expand bool) string {
	for p := path; p != ""; p, _ = split2(p) {
		if to, ok := moves[p]; ok && (p == path || !expand) {
			return to + path[len(p):]
		}
	}
	return path
}
