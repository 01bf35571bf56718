package versions_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// live is what the workspace shows, from memory: paths, inodes and link counts.
func (l *lab) live(dir store.Ino, at string, out map[string]string) map[string]string {
	l.t.Helper()
	d, err := l.fs.OpenDir(nil, dir)
	l.must(err)
	defer d.Close()
	var names []string
	l.must(d.Read(nil, 2, func(e fs.DirEntry) bool { names = append(names, e.Name); return true }))
	for _, name := range names {
		a, err := l.fs.Lookup(nil, dir, name)
		l.must(err)
		out[at+name] = fmt.Sprint(a.Ino, a.Mode, a.Nlink, a.Size, a.Mtime, a.Ctime)
		if a.Mode&0o170000 == 0o040000 {
			l.live(a.ID, at+name+"/", out)
		}
	}
	return out
}

// rm removes what is there, and looks at nothing else.
func (l *lab) rm(path string) {
	l.t.Helper()
	a, err := l.find(path)
	l.must(err)
	d, n := l.at(path)
	if a.Mode&0o170000 == 0o040000 {
		l.must(l.fs.Rmdir(l.call(), d, n))
	} else {
		l.must(l.fs.Unlink(l.call(), d, n))
	}
}

// told is a mount that only notes which names a move changed.
type told map[string]bool

func (k told) EntryChanged(store.Ino, string) {}
func (k told) InodeChanged(store.Ino)         {}

func (k told) Foresee() func() { return func() {} }

func (k told) Moved(ev *fs.Moved) {
	for _, e := range ev.Entries {
		if e.Old.ID == 0 && e.New.ID != 0 {
			k[strings.TrimPrefix(e.Dir+"/"+e.Name, "/")] = true
		}
	}
}

// TestRollbackQueued goes back over removals of which the database has none, some or nearly all. The move waits for none of them, and
// what it says, what it tells kernels, what memory shows and what the database shows afterwards is as if it had.
func TestRollbackQueued(t *testing.T) {
	ctx := t.Context()
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 11))
		l := newLab(t, store.Options{GroupDelay: time.Hour})
		kernel := told{}
		l.fs.Observe(kernel)
		l.as("base")
		l.mkdir("x")
		l.mkdir("y")
		l.write("y/keep", "kept\n")
		for round := range 4 {
			l.as("base")
			l.muddle(r, "x", "", 12)
			l.write(fmt.Sprint("x/more", round), "more\n")
			l.link(fmt.Sprint("x/more", round), fmt.Sprint("y/link", round))
			to, want := l.place(), l.tree()
			shown := l.live(store.RootIno, "", map[string]string{})
			if round%2 == 1 { // something that the database has and the move takes back too
				l.write("y/keep", fmt.Sprint("changed ", round, "\n"))
				l.chmod("y", 0o711)
				l.place()
			}
			l.as("s")
			paths := slices.Sorted(maps.Keys(l.tree()))
			var removed []string
			slices.Reverse(paths) // what is in a directory before the directory
			for i, p := range paths {
				if i == int(seed)%3*len(paths)/2 {
					l.must(l.st.Apply(ctx, l.st.Last()))
				}
				if p != "y" && (p == "x" || strings.HasPrefix(p, "x/") || r.IntN(2) == 0 && p != "y/keep") {
					l.rm(p)
					removed = append(removed, p)
				}
			}
			timeline, seq, err := l.fs.Freeze(nil)
			l.must(err)
			at := versions.Place{Timeline: timeline, Seq: seq}
			q := l.st.QueuedRemovals(timeline, seq)
			if q == nil {
				t.Fatal("nothing is queued, or something else than removals")
			}
			queued, ok, err := q.Steps(ctx, min(q.After(), to.Seq))
			if l.must(err); !ok {
				t.Fatal("too many steps")
			}
			plan, err := versions.PlanRollback(queued, l.st, l.fs.Workspace(), at, to, versions.UndoSelect{})
			l.must(err)
			h, err := l.fs.HoldQueued(queued)
			l.must(err)
			if gotT, gotS := h.At(); gotT != timeline || gotS != seq || l.st.Applied() == l.st.Last() {
				t.Fatal("the workspace went on, or its database")
			}
			l.must(h.Move(queued, fs.Move{Timeline: to.Timeline, Seq: to.Seq, Why: versions.WhyRollback, Who: l.who}))
			h.Release()
			for _, p := range removed {
				if dir := path.Dir(p); dir == "." || dir == "y" { // which are still there, and known
					if !kernel[p] {
						t.Errorf("kernels are not told that %s is back", p)
					}
				}
			}
			clear(kernel)
			if l.st.Applied() == l.st.Last() {
				t.Fatal("the move waited for the database")
			}
			l.same(l.live(store.RootIno, "", map[string]string{}), shown, "memory after the move")
			l.same(l.tree(), want, "the database after the move")
			later, err := versions.PlanRollback(ctx, l.st, l.fs.Workspace(), at, to, versions.UndoSelect{})
			l.must(err)
			if a, b := fmt.Sprint(plan.Created, plan.Changed, plan.Removed, plan.Renamed),
				fmt.Sprint(later.Created, later.Changed, later.Removed, later.Renamed); a != b {
				t.Errorf("the plan counts %s, and %s once all is in the database", a, b)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestQueuedRemovals is about what must be waited for.
func TestQueuedRemovals(t *testing.T) {
	l := newLab(t, store.Options{GroupDelay: time.Hour})
	l.as("s")
	l.mkdir("d")
	for name, change := range map[string]func(){
		"a new file":  func() { l.write("d/new", "x\n") },
		"a directory": func() { l.mkdir("d/dir") },
		"a rename":    func() { l.rename("d/b", "d/c") },
		"a mode":      func() { l.chmod("d/b", 0o600) },
		"a link":      func() { l.link("d/b", "d/l") },
		"a tag": func() {
			_, err := l.st.Append(&store.Op{Kind: store.OpWorkspace, Workspace: l.fs.Workspace().ID, At: 1, Tags: []store.TagChange{{Tag: store.Tag{Workspace: l.fs.Workspace().ID, Name: "t"}, Remove: true}}})
			l.must(err)
		},
	} {
		l.write("d/a", "a\n")
		l.write("d/b", "b\n")
		l.place()
		timeline, seq, err := l.fs.Freeze(nil)
		if l.must(err); l.st.QueuedRemovals(timeline, seq) != nil {
			t.Fatal("nothing is queued, but removals are found")
		}
		change()
		l.remove("d/a")
		timeline, seq, err = l.fs.Freeze(nil)
		if l.must(err); l.st.QueuedRemovals(timeline, seq) != nil {
			t.Errorf("%s and a removal are taken for removals", name)
		}
		if l.st.QueuedRemovals(timeline, seq-1) != nil {
			t.Errorf("%s: more is queued than asked for, and taken", name)
		}
		l.place()
		for p := range l.tree() {
			if strings.HasPrefix(p, "d/") {
				l.remove(p)
			}
		}
	}
}
