package storetest

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
)

// testElide has a command make files and end them (Op.Elide): they leave nothing, neither those that go with their own
// group nor those that an earlier one brought, unless somebody asked for the database to be up to date in between.
func testElide(t *testing.T, drv store.Driver, group int) {
	st := New(t, drv, store.Options{GroupOps: group, GroupDelay: 2 * time.Millisecond})
	w := newWorld(t, st, 31, group)
	tr := w.create("main")
	tr.create(store.RootIno, "stays", syscall.S_IFREG|0o644, func(*store.Version) {})
	w.settle()
	type temp struct {
		name       string
		ino        store.Ino
		born, ends store.Seq
		seen       bool
	}
	var temps []temp
	for n := range 24 {
		tmp := temp{name: fmt.Sprint("tmp", n), seen: n%3 == 0}
		tr.create(store.RootIno, tmp.name, syscall.S_IFREG|0o600, func(v *store.Version) { w.content(t.Context()).into(v, tr.op) })
		born, slot := tr.op, w.last
		tmp.born, tmp.ino = born.Seq, tr.now[store.RootIno].kids[tmp.name]
		switch {
		case tmp.seen:
			w.settle()
		case n%3 == 1:
			time.Sleep(10 * time.Millisecond) // it is applied meanwhile, and nobody asked
		}
		tr.begin(store.OpUnlink)
		tr.op.Who = born.Who
		tmp.ends = tr.op.Seq
		tr.name(store.RootIno, tmp.name, 0)
		tr.drop(tmp.ino)
		tr.item(store.Item{Op: store.OpUnlink, Ino: tmp.ino, Parent: store.RootIno, Name: tmp.name})
		tr.op.Elide = &store.Elided{
			Ino: tmp.ino, Kind: store.OpCreate, Parent: store.RootIno, Name: tmp.name, Seqs: []store.Seq{tmp.born}, Slot: slot,
		}
		w.append(tr)
		temps = append(temps, tmp)
	}
	tr.create(store.RootIno, "last", syscall.S_IFREG|0o644, func(*store.Version) {})
	w.settle()
	told := map[store.Seq]bool{}
	head, err := st.ViewAt(t.Context(), tr.ws.Timeline, store.MaxSeq)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Changes(t.Context(), store.ChangeQuery{View: head}, func(c *store.ChangeRow) error {
		told[c.Seq] = len(c.Items) > 0
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, tmp := range temps {
		v, err := st.ViewAt(t.Context(), tr.ws.Timeline, tmp.born)
		if err != nil {
			t.Fatal(err)
		}
		name, err := v.Lookup(t.Context(), store.RootIno, tmp.name)
		there := err == nil && name.Ino == tmp.ino
		if _, err := v.Version(t.Context(), tmp.ino); there != (err == nil) {
			t.Errorf("%s has a name: %v; its version: %v", tmp.name, there, err)
		}
		if there != tmp.seen || told[tmp.born] != tmp.seen || told[tmp.ends] != tmp.seen {
			t.Errorf("%s, seen %v: it is there %v, told of %v and %v", tmp.name, tmp.seen, there, told[tmp.born], told[tmp.ends])
		}
		if _, err := head.Lookup(t.Context(), store.RootIno, tmp.name); err == nil {
			t.Errorf("%s has not ended", tmp.name)
		}
	}
	for _, name := range []string{"stays", "last"} {
		if _, err := head.Lookup(t.Context(), store.RootIno, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
