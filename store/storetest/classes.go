package storetest

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// testClasses lets a world live for some hours, in which classes let the bytes of past versions go, beside a policy now and then: what
// must be there reads back, what a class does not keep is refused by name, and everything else is as without classes.
func testClasses(t *testing.T, drv store.Driver, group int, seed uint64) {
	rounds := 4
	if slow || testing.Short() {
		rounds = 2
	}
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, drv); err != nil {
		t.Fatal(err)
	}
	w := &world{}
	o := store.Options{GroupOps: group, GroupDelay: 5 * time.Millisecond, MergeAfter: 2, Now: func() time.Time { return time.Unix(0, w.clock) }}
	o.Blob.PackSize = 64 << 10
	st, err := store.Open(t.Context(), dir, drv, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.st.Close(); err != nil {
			t.Error(err)
		}
	}()
	w = newWorld(t, st, seed, group)
	w.gone = make(map[point]bool)
	w.classes = &store.Classes{
		Limits: map[store.PathClass]store.ClassLimit{
			store.Scratch: {For: 40 * time.Minute}, store.Secret: {For: 20 * time.Minute}, store.Short: {For: 90 * time.Minute},
		},
		Rules: []store.ClassRule{
			{Class: store.Scratch, Pattern: "b"}, {Class: store.Scratch, Pattern: ".git/"}, {Class: store.Secret, Pattern: "c*"},
			{Class: store.Short, Pattern: "/d"}, {Class: store.Versioned, Pattern: "b/a"},
		},
	}
	c := &collected{w: w, tags: map[string]point{}, of: map[string]*tree{}, with: w.classes}
	w.create("main")
	let := 0
	for round := range rounds {
		for range 3 {
			w.live(30)
			w.clock += int64(w.rnd.IntN(40)) * int64(time.Minute)
		}
		c.marks()
		keep := store.Retention{Dropped: time.Nanosecond}
		if w.rnd.IntN(3) == 0 {
			keep.Tiers = []store.Tier{{For: time.Hour}}
		}
		was := c.complete()
		c.collect(keep)
		c.compare(keep, was)
		let += c.compareContents()
		w.compareHeads()
		Check(t, w.st)
		if t.Failed() {
			t.Fatalf("after round %d with %s", round, keep)
		}
	}
	if let == 0 && !slow && !testing.Short() {
		t.Error("no class ever let anything go")
	}
	w.settle()
	if err := w.st.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err = store.Open(t.Context(), dir, drv, o); err != nil {
		t.Fatal(err)
	}
	w.st = st
	c.compareContents()
	c.everything()
}

// contentLife is what the model knows of a content for as long as an inode had it.
type contentLife struct {
	timeline store.TimelineID
	ino      store.Ino
	ref      blob.Ref
	paths    map[string][2]int64 // that it had last when, from when until when
	brief    map[string]bool     // paths that it had for a moment, before others
	told     map[string]bool     // paths that a state which can be read shows, or could when they were looked at last: others are not known any more
	class    store.PathClass
	end      int64 // when it was replaced; 0: it was not
	root     bool  // something names a state that shows it
	maybe    bool  // or a line of a reflog
	shown    bool  // in some state that can be read
}

// compareContents reads every content that a past state names. It returns how many were let go.
func (c *collected) compareContents() (let int) {
	w := c.w
	w.t.Helper()
	roots, maybe := map[point]bool{}, map[point]bool{}
	for _, p := range c.tags {
		roots[p] = true
	}
	for _, t := range w.trees {
		for p := w.owner(t.place()); ; {
			roots[p] = true
			par, ok := w.parents[p.timeline]
			if !ok {
				break
			}
			p = par
		}
	}
	for _, p := range w.bases {
		maybe[p] = true
	}
	needed, droppable, told := map[blob.Ref]string{}, map[blob.Ref]bool{}, map[blob.Ref]string{}
	for _, l := range c.lives(roots, maybe) {
		limit, limited := w.classes.Limit(l.class)
		young := l.end == 0 || l.end > w.clock-int64(limit.For)
		if l.shown && (l.root || !limited || young) {
			needed[l.ref] = fmt.Sprintf("inode %d at %v, %s, root %v, young %v", l.ino, l.paths, l.class, l.root, young)
		}
		told[l.ref] += fmt.Sprintf("inode %d of timeline %d at %v, brief %v, %s, for %v since; ", l.ino, l.timeline, l.paths, l.brief, l.class, time.Duration(w.clock-l.end))
		_, other := droppable[l.ref]
		droppable[l.ref] = (!other || droppable[l.ref]) && limited && !young && !l.root && !l.maybe
	}
	for ref, drop := range droppable {
		want := w.bytes[ref]
		got := make([]byte, len(want))
		gone, err := w.st.MissingBlobs(w.t.Context(), []blob.Ref{ref}) // what is still in memory may be read
		if err == nil && len(gone) > 0 {
			_, err = w.st.Locate(w.t.Context(), ref)
		} else if err == nil {
			_, err = w.st.Blobs().ReadAt(w.t.Context(), blob.Content{Ref: ref, Size: int64(len(want))}, got, 0)
		}
		why := needed[ref]
		switch {
		case err == nil && drop:
			w.t.Errorf("content %s should have been let go: %s", ref, told[ref])
		case err == nil && !slices.Equal(got, want):
			w.t.Errorf("content %s reads back wrong", ref)
		case err != nil && why != "":
			w.t.Errorf("content %s of %s: %v", ref, why, err)
		case err != nil && !errors.Is(err, blob.ErrNotFound):
			w.t.Errorf("content %s: %v", ref, err)
		case errors.Is(err, syscall.ENODATA):
			let++
		}
	}
	return let
}

// lives follows every content of every inode through the states of the timelines where it came up.
func (c *collected) lives(roots, maybe map[point]bool) (all []*contentLife) {
	w := c.w
	for timeline, log := range w.log {
		now := map[store.Ino]*contentLife{}
		for i, op := range log {
			p := point{timeline, op.Seq}
			s := w.past[p]
			paths := map[store.Ino][]string{}
			var walk func(dir store.Ino, at string)
			walk = func(dir store.Ino, at string) {
				for name, ino := range s[dir].kids {
					paths[ino] = append(paths[ino], at+name)
					if s[ino].v.IsDir() {
						walk(ino, at+name+"/")
					}
				}
			}
			walk(store.RootIno, "")
			for ino, l := range now {
				n := s[ino]
				ended := n == nil || n.v.Nlink == 0 || n.v.Content != l.ref
				for path, t := range l.paths {
					if t[1] == 0 && (ended || !slices.Contains(paths[ino], path)) {
						l.paths[path] = [2]int64{t[0], op.At}
						l.brief[path] = !ended && op.At-t[0] < int64(time.Minute)
					}
				}
				if ended {
					l.end = op.At
					delete(now, ino)
				}
			}
			for ino, n := range s {
				v := &n.v
				if v.Type() != syscall.S_IFREG || v.Nlink == 0 || v.Content.IsZero() || v.Origin != timeline {
					continue
				}
				l := now[ino]
				if l == nil {
					l = &contentLife{timeline: timeline, ino: ino, ref: v.Content, paths: map[string][2]int64{}, brief: map[string]bool{}, told: map[string]bool{}}
					now[ino] = l
					all = append(all, l)
				}
				for _, path := range paths[ino] {
					l.told[path] = l.told[path] || !w.gone[p]
					if t, ok := l.paths[path]; !ok || t[1] != 0 && t[1] != op.At {
						l.paths[path], l.brief[path] = [2]int64{op.At, 0}, false
					} else if t[1] == op.At {
						l.paths[path] = [2]int64{t[0], 0}
					}
				}
				l.shown = l.shown || !w.gone[p]
				l.root = l.root || roots[p]
				l.maybe = l.maybe || maybe[p] || i == len(log)-1
			}
		}
	}
	for _, l := range all {
		l.class = c.classOf(l)
	}
	// A state of another timeline shows what came up here.
	by := map[blob.Ref][]*contentLife{}
	for _, l := range all {
		by[l.ref] = append(by[l.ref], l)
	}
	for p, s := range w.past {
		for ino, n := range s {
			for _, l := range by[n.v.Content] {
				if n.v.Origin != p.timeline && l.timeline == n.v.Origin && l.ino == ino && n.v.Nlink > 0 {
					l.shown = l.shown || !w.gone[p]
					l.root = l.root || roots[p]
					l.maybe = l.maybe || maybe[p]
				}
			}
		}
	}
	return all
}

// classOf is the rule for contents that had several paths.
func (c *collected) classOf(l *contentLife) store.PathClass {
	best := store.PathClass("")
	for path := range l.paths {
		class := c.w.classes.Of(path, false)
		switch {
		case !l.told[path]:
		case class == store.Secret:
			return class
		case l.brief[path]:
		case class == store.Versioned || best == store.Versioned:
			best = store.Versioned
		case best == "" || c.w.classes.Limits[class].For > c.w.classes.Limits[best].For:
			best = class
		}
	}
	return best
}

// lacks reports whether a past state lacks contents.
func (w *world) lacks(p point) bool {
	w.t.Helper()
	w.settle()
	v, err := w.st.ViewAt(w.t.Context(), p.timeline, p.seq)
	if err != nil {
		w.t.Fatal(err)
	}
	list, err := w.st.Lacks(w.t.Context(), v)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(list) > 0
}

// testRings writes files of a ring again and again: so many of the past versions of a path stay, by whatever inode, and all of the last
// hour.
func testRings(t *testing.T, drv store.Driver) {
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, drv); err != nil {
		t.Fatal(err)
	}
	w := &world{}
	st, err := store.Open(t.Context(), dir, drv, store.Options{Now: func() time.Time { return time.Unix(0, w.clock) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	w = newWorld(t, st, 1, 1)
	rules := store.Classes{
		Limits: map[store.PathClass]store.ClassLimit{store.Short: {Versions: 2}}, Rules: []store.ClassRule{{Class: store.Short, Pattern: "*.log"}},
	}
	if err := st.SetClasses(t.Context(), &rules); err != nil {
		t.Fatal(err)
	}
	tr := w.create("main")
	file := func(name, text string) blob.Ref {
		t.Helper()
		w.clock += int64(time.Minute)
		c := content{staged: st.Blobs().StageSmall([]byte(text))}
		if tr.now[store.RootIno].kids[name] == 0 {
			tr.create(store.RootIno, name, syscall.S_IFREG|0o644, func(v *store.Version) { c.into(v, tr.op) })
		} else {
			tr.write(store.RootIno, name, c)
		}
		return c.staged.Content.Ref
	}
	var refs []blob.Ref
	for i := range 4 {
		refs = append(refs, file("a.log", fmt.Sprint("in place ", i)))
	}
	for i := range 3 {
		refs = append(refs, file("tmp", fmt.Sprint("renamed ", i)))
		tr.rename(store.RootIno, "tmp", store.RootIno, "a.log")
	}
	keep := file("a.txt", "x")
	file("a.txt", "y")
	there := func(want ...int) {
		t.Helper()
		if _, err := st.Collect(t.Context(), store.GCOptions{}); err != nil {
			t.Fatal(err)
		}
		for i, r := range append(slices.Clone(refs), keep) {
			gone, err := st.MissingBlobs(t.Context(), []blob.Ref{r})
			if err != nil {
				t.Fatal(err)
			}
			if kept := len(gone) == 0; kept != (slices.Contains(want, i) || r == keep) {
				t.Errorf("content %d is kept: %v", i, kept)
			}
		}
		Check(t, st)
	}
	w.settle()
	there(0, 1, 2, 3, 4, 5, 6) // not old enough
	w.clock += int64(2 * time.Hour)
	file("b.txt", "later")
	w.settle()
	there(4, 5, 6) // the present and two more, whose temporary names do not count
}
