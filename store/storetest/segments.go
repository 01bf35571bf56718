package storetest

import (
	"fmt"
	"testing"
	"time"

	"wsfs/store"
)

// testSegments is about hidden segments: whatever is merged, no question gets another answer.
func testSegments(t *testing.T, drv store.Driver) {
	for _, after := range []int{1, 3} {
		t.Run(fmt.Sprint("history after ", after), func(t *testing.T) { testMergedHistory(t, drv, after) })
	}
	t.Run("while reading", func(t *testing.T) { testMergedBehindViews(t, drv) })
	t.Run("shared", func(t *testing.T) { testSharedSegments(t, drv) })
	t.Run("again", func(t *testing.T) { testMergedLater(t, drv) })
}

// bushy is a long line of forks of forks, with others at its sides, of heads and of pasts, and a few changes in each.
func (w *world) bushy(forks int) {
	w.t.Helper()
	at := w.create("main")
	for range 30 {
		w.step(at)
	}
	for i := range forks {
		from := at
		side := w.rnd.IntN(4) == 0
		if side {
			from = w.trees[w.rnd.IntN(len(w.trees))]
		}
		p := from.place()
		if w.rnd.IntN(8) == 0 {
			p = w.somewhere(from)
		}
		t := w.fork(from, fmt.Sprint("fork", i), p)
		for range 1 + w.rnd.IntN(4) {
			w.step(t)
		}
		if w.rnd.IntN(6) == 0 {
			w.step(from) // goes on above what others are based on
		}
		if side && w.rnd.IntN(2) == 0 {
			w.rollback(t, w.somewhere(t))
		}
		if !side {
			at = t
		}
	}
	w.settle()
}

func testMergedHistory(t *testing.T, drv store.Driver, after int) {
	forks := 40
	if slow || testing.Short() {
		forks = 20
	}
	st := New(t, drv, store.Options{GroupDelay: time.Millisecond, MergeAfter: after})
	w := newWorld(t, st, 100+uint64(after), 1024)
	w.bushy(forks)
	w.compareHeads()
	w.merged()
	w.compareHeads()
	w.comparePasts()
	w.compareChanges()
}

// merged merges and fails if nothing came of it.
func (w *world) merged() []*store.Timeline {
	w.t.Helper()
	if err := w.st.MergeSegments(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	list, err := w.st.Timelines(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var hidden []*store.Timeline
	for _, tl := range list {
		if tl.Hidden {
			hidden = append(hidden, tl)
		}
	}
	if len(hidden) == 0 {
		w.t.Fatal("no segments were merged: the test tests nothing")
	}
	return hidden
}

// testMergedBehindViews opens views, merges, and reads through them what they showed before.
func testMergedBehindViews(t *testing.T, drv store.Driver) {
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, drv); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), dir, drv, store.Options{MergeAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, st, 3, 1024)
	w.bushy(16)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st = Open(t, dir, drv, store.Options{MergeAfter: 1})
	w.st, w.last = st, 0
	views := make(map[*tree][2]*store.View)
	for _, tr := range w.trees {
		ws, err := st.Workspace(t.Context(), tr.ws.Name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := st.ViewOf(t.Context(), ws)
		if err != nil {
			t.Fatal(err)
		}
		p := tr.place()
		fixed, err := st.ViewAt(t.Context(), p.timeline, p.seq)
		if err != nil {
			t.Fatal(err)
		}
		views[tr] = [2]*store.View{v, fixed}
	}
	var deep []*tree
	for _, tr := range w.trees {
		w.fork(tr, tr.ws.Name+" again", tr.place())
		deep = append(deep, w.trees[len(w.trees)-1])
	}
	for _, tr := range deep {
		w.step(tr)
	}
	w.settle()
	w.merged()
	for tr, list := range views {
		for _, v := range list {
			w.compare("a view from before, of "+tr.ws.Name, v, tr.now, true)
		}
	}
	w.compareHeads()
}

// testSharedSegments forks one deep workspace at many points: all of them read by the same hidden segments.
func testSharedSegments(t *testing.T, drv store.Driver) {
	st := New(t, drv, store.Options{MergeAfter: 4})
	w := newWorld(t, st, 5, 1024)
	at := w.create("0")
	for i := range 12 {
		at = w.fork(at, fmt.Sprint(i+1), at.place())
		w.step(at)
	}
	w.settle()
	before := len(w.merged())
	for i := range 20 {
		w.step(at)
		w.step(w.fork(at, fmt.Sprint("at", i), at.place()))
	}
	w.settle()
	if n := len(w.merged()); n > before+1 {
		t.Errorf("20 forks of one workspace made %d hidden segments", n-before)
	}
	w.compareHeads()
	w.comparePasts()
}

// testMergedLater merges what an earlier start of the store did not come to, and goes on.
func testMergedLater(t *testing.T, drv store.Driver) {
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, drv); err != nil {
		t.Fatal(err)
	}
	var w *world
	for i := range 3 {
		o := store.Options{MergeAfter: -1}
		if i > 0 {
			o = store.Options{MergeAfter: 0}
		}
		st, err := store.Open(t.Context(), dir, drv, o)
		if err != nil {
			t.Fatal(err)
		}
		if w == nil {
			w = newWorld(t, st, 9, 1024)
			w.create("0")
		}
		w.st, w.last = st, 0
		for range 24 {
			at := w.trees[len(w.trees)-1]
			w.step(w.fork(at, fmt.Sprint(len(w.trees)), at.place()))
		}
		w.settle()
		if i > 0 {
			w.merged()
		}
		for _, tr := range w.trees {
			v, err := st.ViewAt(t.Context(), tr.place().timeline, store.MaxSeq)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && len(v.Path()) > 17 {
				t.Errorf("workspace %s reads %d segments", tr.ws.Name, len(v.Path()))
			}
		}
		w.compareHeads()
		Check(t, st)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
