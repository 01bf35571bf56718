package storetest

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
)

// testMarks sets, moves and removes tags and pins.
func testMarks(t *testing.T, drv store.Driver) {
	st := New(t, drv, store.Options{})
	w := newWorld(t, st, 17, 1024)
	a := w.create("a")
	for range 20 {
		w.step(a)
	}
	b := w.fork(a, "b", a.place())
	w.writable(b)
	for range 5 {
		w.step(b)
	}
	mark := func(tags []store.TagChange, pins []store.PinChange) {
		w.send(&store.Op{Kind: store.OpWorkspace, Workspace: a.ws.ID, At: w.clock, Who: w.who(), Tags: tags, Pins: pins})
	}
	tag := func(t *tree, name string, p point) store.Tag {
		return store.Tag{Workspace: t.ws.ID, Name: name, Timeline: p.timeline, Seq: p.seq}
	}
	early, late := point{a.ws.Timeline, 5}, a.place()
	mark([]store.TagChange{{Tag: tag(a, "v1", early)}, {Tag: tag(a, "moves", early)}, {Tag: tag(b, "v1", b.place())}}, nil)
	mark([]store.TagChange{{Tag: tag(a, "moves", late)}, {Tag: tag(a, "goes", late)}}, nil)
	mark([]store.TagChange{{Tag: tag(a, "goes", point{}), Remove: true}, {Tag: tag(b, "never", point{}), Remove: true}}, nil)
	pin := func(ref string, p point, expires int64) store.Pin {
		return store.Pin{Timeline: p.timeline, Seq: p.seq, Kind: store.PinMount, Ref: ref, Expires: expires}
	}
	base := store.Pin{Timeline: early.timeline, Seq: early.seq, Kind: store.PinTemporary, Ref: "7"}
	mark(nil, []store.PinChange{{Pin: pin("/m", late, 1)}, {Pin: pin("/n", late, 0)}, {Pin: pin("/m", early, 0)}, {Pin: base}})
	mark(nil, []store.PinChange{{Pin: pin("/m", late, 2)}, {Pin: pin("/n", late, 9), Remove: true}})
	w.settle()

	for _, want := range []struct {
		t    *tree
		tags []store.Tag
	}{
		{a, []store.Tag{tag(a, "moves", late), tag(a, "v1", early)}},
		{b, []store.Tag{tag(b, "v1", b.place())}},
	} {
		got, err := st.Tags(t.Context(), want.t.ws.ID)
		if err != nil || !slices.Equal(got, want.tags) {
			t.Errorf("tags of %q: %v, %v, want %v", want.t.ws.Name, got, err, want.tags)
		}
	}
	if got, err := st.Tag(t.Context(), a.ws.ID, "moves"); err != nil || got.Seq != late.seq {
		t.Errorf("tag: %v, %v", got, err)
	}
	got, err := st.Pins(t.Context(), store.PinMount)
	if want := []store.Pin{pin("/m", early, 0), pin("/m", late, 2)}; err != nil || !slices.Equal(got, want) {
		t.Errorf("pins: %v, %v, want %v", got, err, want)
	}
	if got, err := st.Pins(t.Context(), store.PinTemporary); err != nil || fmt.Sprint(got) != fmt.Sprint([]store.Pin{base}) {
		t.Errorf("pins: %v, %v, want %v", got, err, base)
	}
	w.compareHeads()
	w.comparePasts()
}

// testMarkedInGroup tags in the middle of a group: what is tagged keeps even the times of its directories.
func testMarkedInGroup(t *testing.T, drv store.Driver) {
	st := New(t, drv, store.Options{GroupOps: 1024, GroupDelay: time.Second})
	w := newWorld(t, st, 19, 1024)
	a := w.create("a")
	for i := range 6 {
		a.create(store.RootIno, fmt.Sprint(i), syscall.S_IFREG|0o644, func(*store.Version) {})
		if i == 2 {
			p := a.place()
			w.exact[p] = true
			w.send(&store.Op{Kind: store.OpWorkspace, At: w.clock, Tags: []store.TagChange{
				{Tag: store.Tag{Workspace: a.ws.ID, Name: "mid", Timeline: p.timeline, Seq: p.seq}},
			}})
		}
	}
	w.settle()
	w.comparePasts()
}
