package storetest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"wsfs/store"
)

// compareChanges compares the log of every workspace, whole and through every filter, with the ops that were sent.
func (w *world) compareChanges() {
	w.t.Helper()
	for _, t := range w.trees {
		v, err := w.st.ViewOf(w.t.Context(), &t.ws)
		if err != nil {
			w.t.Fatal(err)
		}
		ops := w.lineage(t)
		none := func(*store.Op) bool { return true }
		w.compareLog(t.ws.Name, store.ChangeQuery{View: v}, ops, none)
		w.compareLog(t.ws.Name+" limited", store.ChangeQuery{View: v, Limit: 7}, ops, none)
		mid := ops[len(ops)/2].Seq
		w.compareLog(t.ws.Name+" after", store.ChangeQuery{View: v, After: mid}, ops, func(op *store.Op) bool { return op.Seq > mid })
		w.compareLog(t.ws.Name+" up to", store.ChangeQuery{View: v, UpTo: mid}, ops, func(op *store.Op) bool { return op.Seq <= mid })
		for _, who := range w.commands[:2] {
			w.compareLog(t.ws.Name+" session", store.ChangeQuery{View: v, Session: who.Session.ID}, ops,
				func(op *store.Op) bool { return op.Who.Session != nil && op.Who.Session.ID == who.Session.ID })
			w.compareLog(t.ws.Name+" command", store.ChangeQuery{View: v, Command: who.Command.ID, Limit: 3}, ops,
				func(op *store.Op) bool { return op.Who.Command != nil && op.Who.Command.ID == who.Command.ID })
		}
		for _, op := range ops[:min(len(ops), 60)] {
			for _, it := range op.Items {
				w.compareItems(t.ws.Name, v, ops, op, it)
			}
		}
		w.compareTimes(v, ops)
	}
}

// compareItems asks for the changes of one inode and of one name, which op has. Those of a name are where it was given or
// taken away, so that they cost what they are; an item also names a file that was only written, and such a change is the
// inode's.
func (w *world) compareItems(what string, v *store.View, ops []*store.Op, op *store.Op, it store.Item) {
	w.t.Helper()
	has := func(fn func(it store.Item) bool) func(op *store.Op) bool {
		return func(op *store.Op) bool { return slices.ContainsFunc(op.Items, fn) }
	}
	w.compareLog(fmt.Sprintf("%s inode %d", what, it.Ino), store.ChangeQuery{View: v, Ino: it.Ino}, ops,
		has(func(x store.Item) bool { return x.Ino == it.Ino }))
	bound := func(op *store.Op) bool {
		return slices.ContainsFunc(op.Names, func(n store.Name) bool { return n.Parent == it.Parent && n.Name == it.Name })
	}
	named := has(func(x store.Item) bool {
		here := x.Parent == it.Parent && x.Name == it.Name || x.FromParent == it.Parent && x.FromName == it.Name
		return here && x.Op != store.OpWrite && x.Op != store.OpSetattr
	})
	for _, o := range ops {
		if bound(o) != named(o) {
			w.t.Fatalf("%s: change %d of timeline %d binds %q otherwise than its items say", what, o.Seq, o.Timeline, it.Name)
		}
	}
	q := store.ChangeQuery{View: v, Parent: it.Parent, Name: it.Name}
	what = fmt.Sprintf("%s name %q", what, it.Name)
	w.compareLog(what, q, ops, bound)
	q.UpTo, q.Limit = op.Seq-1, 1
	w.compareLog(what+" before", q, ops, func(o *store.Op) bool { return bound(o) && o.Seq < op.Seq })
	q.After, q.UpTo, q.Limit = q.UpTo, 0, 2
	w.compareLog(what+" after", q, ops, func(o *store.Op) bool { return bound(o) && o.Seq >= op.Seq })
	if s := op.Who.Session; s != nil {
		q.After, q.Session = 0, s.ID
		w.compareLog(what+" session", q, ops, func(o *store.Op) bool { return bound(o) && o.Who.Session != nil && o.Who.Session.ID == s.ID })
	}
	w.compareLog(fmt.Sprintf("%s directory %d", what, it.Parent), store.ChangeQuery{View: v, Parent: it.Parent, Limit: 5}, ops,
		has(func(x store.Item) bool { return x.Parent == it.Parent || x.FromParent == it.Parent }))
}

// lineage is every op on the read path of a tree, newest first.
func (w *world) lineage(t *tree) []*store.Op {
	var ops []*store.Op
	p := t.place()
	for {
		list := w.log[p.timeline]
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].Seq <= p.seq {
				ops = append(ops, list[i])
			}
		}
		par, ok := w.parents[p.timeline]
		if !ok {
			return ops
		}
		p = par
	}
}

func (w *world) compareLog(what string, q store.ChangeQuery, ops []*store.Op, want func(*store.Op) bool) {
	w.t.Helper()
	var expect []*store.Op
	for _, op := range ops {
		if want(op) && (q.Limit == 0 || len(expect) < q.Limit) {
			expect = append(expect, op)
		}
	}
	n := 0
	err := w.st.Changes(w.t.Context(), q, func(row *store.ChangeRow) error {
		if n >= len(expect) {
			return fmt.Errorf("change %d of timeline %d is one too many", row.Seq, row.Timeline)
		}
		op := expect[n]
		n++
		if row.Timeline != op.Timeline || row.Seq != op.Seq || row.Kind != op.Kind || row.At != op.At || !slices.Equal(row.Undoes, op.Undoes) {
			return fmt.Errorf("got %+v, want %+v", row, op)
		}
		return errors.Join(sameWho(row, op), w.sameItems(row, op))
	})
	if err != nil || n != len(expect) {
		w.t.Errorf("changes of %s: %d of %d: %v", what, n, len(expect), err)
	}
}

func sameWho(row *store.ChangeRow, op *store.Op) error {
	if (row.Session == nil) != (op.Who.Session == nil) || row.Session != nil && !reflect.DeepEqual(row.Session, op.Who.Session) {
		return fmt.Errorf("session %+v, want %+v", row.Session, op.Who.Session)
	}
	if (row.Command == nil) != (op.Who.Command == nil) || row.Command != nil && *row.Command != *op.Who.Command {
		return fmt.Errorf("command %+v, want %+v", row.Command, op.Who.Command)
	}
	p, x := row.Process, op.Who.Process
	for ; p != nil && x != nil; p, x = p.Parent, x.Parent {
		if p.ID != x.ID || p.Comm != x.Comm || p.Argv != x.Argv || p.Cwd != x.Cwd || p.PID != x.PID || p.StartTicks != x.StartTicks {
			return fmt.Errorf("process %+v, want %+v", p, x)
		}
	}
	if (p == nil) != (x == nil) {
		return fmt.Errorf("process chain ends with %+v and %+v", p, x)
	}
	return nil
}

func (w *world) sameItems(row *store.ChangeRow, op *store.Op) error {
	if len(row.Items) != len(op.Items) {
		return fmt.Errorf("%d items, want %d", len(row.Items), len(op.Items))
	}
	for i, it := range row.Items {
		if it.Item != op.Items[i] {
			return fmt.Errorf("item %+v, want %+v", it.Item, op.Items[i])
		}
		want := w.past[point{op.Timeline, op.Seq}][it.Ino].v
		if it.Version == nil || it.Version.ID != want.ID || it.Version.Content != want.Content {
			return fmt.Errorf("item %d of change %d: version %+v, want %+v", i, row.Seq, it.Version, want)
		}
		before := want.Parent
		if before == 0 {
			before = want.Replaced
		}
		if got := it.Before; !want.IsDir() && ((got == nil) != (before == 0) || got != nil && got.ID != before) {
			return fmt.Errorf("item %d of change %d: before %+v, want version %d", i, row.Seq, got, before)
		}
	}
	return nil
}

func (w *world) compareTimes(v *store.View, ops []*store.Op) {
	w.t.Helper()
	for i := range 10 {
		op := ops[i*len(ops)/10]
		t, seq, err := v.SeqAt(w.t.Context(), op.At)
		if err != nil || t != op.Timeline || seq != op.Seq {
			w.t.Errorf("the change at %d is %d on timeline %d, %v; want %d on %d", op.At, seq, t, err, op.Seq, op.Timeline)
		}
	}
	if _, _, err := v.SeqAt(w.t.Context(), 1); !errors.Is(err, syscall.ENOENT) {
		w.t.Errorf("a time before everything: %v, want ENOENT", err)
	}
}

// testChanges looks at what a command's row says.
func testChanges(t *testing.T, drv store.Driver) {
	st := New(t, drv, store.Options{})
	w := newWorld(t, st, 1, 1024)
	a := w.create("a")
	for range 50 {
		w.step(a)
	}
	w.settle()
	for _, who := range w.commands {
		first, last := store.Seq(math.MaxInt64), store.Seq(0)
		for _, op := range w.log[a.ws.Timeline] {
			if op.Who.Command != nil && op.Who.Command.ID == who.Command.ID {
				first, last = min(first, op.Seq), max(last, op.Seq)
			}
		}
		row, err := st.CommandByID(t.Context(), who.Command.ID)
		switch {
		case last == 0 && !errors.Is(err, syscall.ENOENT):
			t.Errorf("a command that changed nothing: %+v, %v", row, err)
		case last != 0 && err != nil:
			t.Error(err)
		case last != 0 && (row.Timeline != a.ws.Timeline || row.SeqBefore != first-1 || row.SeqAfter != last || row.Command != *who.Command):
			t.Errorf("command %+v, want timeline %d from %d to %d", row, a.ws.Timeline, first-1, last)
		}
	}
	if _, err := st.VersionByID(t.Context(), 1<<60); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a version that never was: %v, want ENOENT", err)
	}
	if s, err := st.SessionByID(t.Context(), w.commands[0].Session.ID); err != nil || !reflect.DeepEqual(s, w.commands[0].Session) {
		t.Errorf("session %+v, %v", s, err)
	}
}
