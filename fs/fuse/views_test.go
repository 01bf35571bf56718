package fuse

import (
	"testing"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
)

// TestViewNumbers: a tree keeps its view while the mount lasts, whether or not anybody is in it, and two trees that are
// entered never share one.
func TestViewNumbers(t *testing.T) {
	v := newViews(nil, &Options{})
	v.closed = true // nobody sweeps
	at := func(key any) uint64 { return v.roomOf(&fs.Entrance{Key: key}).n }
	leave := func(n uint64) {
		delete(v.byKey, v.rooms[n].in.Key)
		delete(v.rooms, n)
	}
	a, b := at("a"), at("b")
	if a != firstRoom || b != a+2 || at("a") != a {
		t.Fatalf("views %d and %d", a, b)
	}
	leave(a)
	if c := at("c"); c == a || c == b {
		t.Errorf("a third tree got view %d", c)
	}
	if again := at("a"); again != a {
		t.Errorf("it had view %d and has %d", a, again)
	}
	v.next = lastRoom
	if last := at("last"); last != lastRoom || last<<viewShift>>viewShift != last {
		t.Errorf("the last view is %d", last)
	}
	if next := at("next"); next != b+4 {
		t.Errorf("after all numbers were given once: %d", next)
	}
}

// TestApart: nothing is linked, renamed or copied by the server between two views, and nobody is told to copy what is
// generated.
func TestApart(t *testing.T) {
	v := newViews(nil, &Options{})
	const tree, other, ctl = 2<<viewShift | 5, 4<<viewShift | 5, 3<<viewShift | 8
	for _, c := range []struct {
		a, b uint64
		want gofuse.Status
	}{{tree, other, exdev}, {7, tree, exdev}, {tree, ctl, gofuse.EPERM}, {1<<viewShift | 1, 7, gofuse.EPERM}} {
		r := gofuse.RenameIn{Newdir: c.b}
		r.NodeId = c.a
		l := gofuse.LinkIn{Oldnodeid: c.a}
		l.NodeId = c.b
		if st := v.Rename(nil, &r, "x", "y"); st != c.want {
			t.Errorf("rename %x to %x: %v", c.a, c.b, st)
		}
		if st := v.Link(nil, &l, "y", &gofuse.EntryOut{}); st != c.want {
			t.Errorf("link %x in %x: %v", c.a, c.b, st)
		}
		cp := gofuse.CopyFileRangeIn{NodeIdOut: c.b}
		cp.NodeId = c.a
		if _, st := v.CopyFileRange(nil, &cp); st != exdev {
			t.Errorf("copy %x to %x: %v", c.a, c.b, st)
		}
	}
	// What was never entered is nobody's.
	var in gofuse.GetAttrIn
	in.NodeId = 6<<viewShift | 1
	if st := v.GetAttr(nil, &in, &gofuse.AttrOut{}); st != estale {
		t.Errorf("an unknown view: %v", st)
	}
	v.Forget(in.NodeId, 3)
	if id := inode(tree); id != 5 {
		t.Errorf("node %x is %d in its view", tree, id)
	}
}

// BenchmarkViewZero is what a request to the workspace itself pays for other views.
func BenchmarkViewZero(b *testing.B) {
	raw := gofuse.NewDefaultRawFileSystem()
	var in gofuse.GetAttrIn
	var out gofuse.AttrOut
	in.NodeId = 77
	for name, to := range map[string]gofuse.RawFileSystem{"direct": raw, "views": newViews(raw, &Options{})} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				to.GetAttr(nil, &in, &out)
			}
		})
	}
}
