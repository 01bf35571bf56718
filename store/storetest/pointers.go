package storetest

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
)

// testPointers makes, forks, rolls back and drops workspaces.
func testPointers(t *testing.T, drv store.Driver) {
	t.Run("reflog", func(t *testing.T) { testReflog(t, drv) })
	t.Run("deep", func(t *testing.T) { testDeep(t, drv) })
	t.Run("one group", func(t *testing.T) { testOneGroup(t, drv) })
	t.Run("marks", func(t *testing.T) { testMarks(t, drv) })
	t.Run("marked in a group", func(t *testing.T) { testMarkedInGroup(t, drv) })
	t.Run("refused", func(t *testing.T) { testRefused(t, drv) })
}

func testReflog(t *testing.T, drv store.Driver) {
	st := New(t, drv, store.Options{})
	w := newWorld(t, st, 7, 1024)
	a := w.create("a")
	for range 20 {
		w.step(a)
	}
	early := point{a.ws.Timeline, a.head / 2}
	w.rollback(a, early)
	w.writable(a)
	for range 5 {
		w.step(a)
	}
	a.ws.DroppedAt = w.clock
	w.move(a, "drop", nil)
	w.settle()

	refs, err := st.RefLog(t.Context(), a.ws.ID)
	if err != nil {
		t.Fatal(err)
	}
	var why []string
	for _, r := range refs {
		why = append(why, r.Why)
	}
	if got, want := fmt.Sprint(why), "[drop write rollback init]"; got != want {
		t.Errorf("reflog %v, want %v", got, want)
	}
	if r := refs[2]; r.Timeline != 0 || r.Base != early.timeline || r.BaseSeq != early.seq || r.Generation != 1 || r.N != 2 || r.OpID == 0 {
		t.Errorf("rollback in the reflog: %+v, want base %v", r, early)
	}
	if _, err := st.Workspace(t.Context(), "a"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a dropped workspace: %v, want ENOENT", err)
	}
	if ws, err := st.WorkspaceByID(t.Context(), a.ws.ID); err != nil || *ws != a.ws {
		t.Errorf("a dropped workspace by id: %+v, %v, want %+v", ws, err, a.ws)
	}
	// Its name is free again, and what it was is still there.
	b := w.create("a")
	w.settle()
	if ws, err := st.Workspace(t.Context(), "a"); err != nil || ws.ID != b.ws.ID {
		t.Errorf("the new workspace: %+v, %v", ws, err)
	}
	if list, err := st.Workspaces(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("workspaces: %v, %v", list, err)
	}
	w.comparePasts()
	tl, err := st.Timeline(t.Context(), a.ws.Timeline)
	if err != nil || tl.Parent != early.timeline || tl.ParentSeq != early.seq || tl.Head != a.head {
		t.Errorf("timeline after the rollback: %+v, %v", tl, err)
	}
}

// testDeep forks forks of forks, each with a change, and reads through the whole chain.
func testDeep(t *testing.T, drv store.Driver) {
	st := New(t, drv, store.Options{})
	w := newWorld(t, st, 3, 1024)
	at := w.create("0")
	for range 30 {
		w.step(at)
	}
	depth := 40
	if slow {
		depth = 12
	}
	for i := range depth {
		at = w.fork(at, fmt.Sprint(i+1), at.place())
		w.writable(at)
		for range 3 {
			w.step(at)
		}
	}
	w.settle()
	w.compareHeads()
}

// testOneGroup forks in the middle of a group: the fork must see what is before it in the group, times of directories
// included, and nothing of what is after it.
func testOneGroup(t *testing.T, drv store.Driver) {
	st := New(t, drv, store.Options{GroupOps: 1024, GroupDelay: time.Second})
	w := newWorld(t, st, 5, 1024)
	a := w.create("a")
	file := func(t *tree, name string) {
		t.create(store.RootIno, name, syscall.S_IFREG|0o644, func(*store.Version) {})
	}
	file(a, "kept")
	file(a, "gone")
	file(a, "late")
	b := w.fork(a, "b", a.place())
	a.remove(store.RootIno, "late")
	w.writable(b)
	b.remove(store.RootIno, "gone")
	file(b, "gone")
	b.remove(store.RootIno, "gone")
	b.remove(store.RootIno, "late")
	file(b, "never")
	b.remove(store.RootIno, "never")
	w.settle()
	w.compareHeads()
	w.comparePasts()
	v, err := st.ViewOf(t.Context(), &b.ws)
	if err != nil {
		t.Fatal(err)
	}
	child, err := v.Child(1 << 30)
	if err == nil {
		t.Errorf("a child of a moving head: %v, want an error", child)
	}
}

// testRefused sends pointers that make no sense; applying them must fail as a whole, so each needs its own store.
func testRefused(t *testing.T, drv store.Driver) {
	for name, bad := range map[string]func(w *world, a *tree) *store.Op{
		"unknown base": func(w *world, a *tree) *store.Op {
			return &store.Op{Kind: store.OpWorkspace, Pointer: &store.Pointer{Workspace: store.Workspace{ID: 99, Name: "x", Base: 77, BaseSeq: 1}}}
		},
		"moving base": func(w *world, a *tree) *store.Op {
			return &store.Op{Kind: store.OpWorkspace, Pointer: &store.Pointer{Workspace: store.Workspace{ID: 99, Name: "x", Base: a.ws.Timeline, BaseSeq: store.MaxSeq}}}
		},
		"taken name": func(w *world, a *tree) *store.Op {
			return &store.Op{Kind: store.OpWorkspace, Pointer: &store.Pointer{Workspace: store.Workspace{ID: 99, Name: "a", Base: a.ws.Timeline, BaseSeq: 1}}}
		},
		"tag above the head": func(w *world, a *tree) *store.Op {
			return &store.Op{Kind: store.OpWorkspace, Tags: []store.TagChange{{Tag: store.Tag{Workspace: a.ws.ID, Name: "t", Timeline: a.ws.Timeline, Seq: 99}}}}
		},
		"pin of an unknown timeline": func(w *world, a *tree) *store.Op {
			return &store.Op{Kind: store.OpWorkspace, Pins: []store.PinChange{{Pin: store.Pin{Timeline: 77, Seq: 1, Kind: store.PinMount, Ref: "/m"}}}}
		},
		"old seq": func(w *world, a *tree) *store.Op {
			return &store.Op{Kind: store.OpCreate, Timeline: a.ws.Timeline, Seq: 1}
		},
		"unknown timeline": func(w *world, a *tree) *store.Op {
			return &store.Op{Kind: store.OpCreate, Timeline: 1234, Seq: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := store.Init(t.Context(), dir, drv); err != nil {
				t.Fatal(err)
			}
			st, err := store.Open(t.Context(), dir, drv, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, st, 1, 1024)
			a := w.create("a")
			w.settle()
			slot, err := st.Append(bad(w, a))
			if err == nil {
				err = st.Apply(t.Context(), slot)
			}
			if err == nil {
				t.Error("the op was applied")
			}
			w.compareHeads()
			Check(t, st)
			if err := st.Close(); err == nil {
				t.Error("close says nothing of an op that could not be applied")
			}
		})
	}
}
