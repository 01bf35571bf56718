package fuse

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// places is a tree of directories: of each its parent and name; the root is 1.
type places map[store.Ino]struct {
	parent store.Ino
	name   string
}

func (p places) gone(id store.Ino) bool {
	_, ok := p[id]
	return !ok && id != 1
}

func (p places) Place(id store.Ino) (store.Ino, string, bool) {
	at, ok := p[id]
	return at.parent, at.name, ok
}

func (op *echoOp) String() string {
	s := fmt.Sprintf("%c %s", op.kind, join(op.dir, op.name))
	if op.to != "" {
		s += " " + join(op.toDir, op.to)
	}
	return s
}

func TestPlanEcho(t *testing.T) {
	file := func(id store.Ino) fs.EntryRef { return fs.EntryRef{ID: id, Ino: id, Type: syscall.S_IFREG} }
	dir := func(id store.Ino) fs.EntryRef { return fs.EntryRef{ID: id, Ino: id, Type: syscall.S_IFDIR} }
	none := fs.EntryRef{}
	for _, c := range []struct {
		name    string
		entries []fs.EntryChange
		now     places
		limit   int
		want    string
	}{
		{
			"a directory goes into one that appears",
			[]fs.EntryChange{{Parent: 1, Name: "d", Old: dir(2)}, {Parent: 1, Name: "n", New: dir(3)}},
			places{2: {4, "e"}, 4: {3, "m"}, 3: {1, "n"}}, 100,
			"d n; v d n/m/e",
		},
		{
			"a directory goes to where nobody knows",
			[]fs.EntryChange{{Parent: 1, Name: "d", Old: dir(2)}},
			places{2: {9, "e"}, 9: {8, "x"}, 8: {1, "y"}}, 100,
			"",
		},
		{
			"what is below a rename is told where it is then",
			[]fs.EntryChange{
				{Parent: 1, Name: "a", Old: dir(2)}, {Parent: 1, Name: "b", New: dir(2)}, {Parent: 2, Dir: "a", Name: "gone", Old: file(3)},
				{Parent: 2, Dir: "a", Name: "new", New: file(4)}, {Parent: 5, Dir: "a/s", Name: "f", Old: file(6), New: file(6), Changed: true},
				{Parent: 7, Dir: "ab", Name: "f", Old: file(8), New: file(8), Attrs: true},
			},
			places{2: {1, "b"}, 5: {2, "s"}}, 100,
			"v a b; u b/gone; c b/new; m b/s/f; a ab/f",
		},
		{
			"a circle",
			[]fs.EntryChange{
				{Parent: 1, Name: "a", Old: file(2), New: file(3)}, {Parent: 1, Name: "b", Old: file(3), New: file(4)}, {Parent: 1, Name: "c", Old: file(4), New: file(2)},
			},
			nil, 100,
			"x b a; x c b",
		},
		{
			"nothing is made inside of what appears",
			[]fs.EntryChange{{Parent: 1, Name: "d", New: dir(2)}, {Parent: 2, Dir: "d", Name: "f", New: file(3)}},
			places{2: {1, "d"}}, 100,
			"d d",
		},
		{
			"too much: only the topmost, and then only some",
			[]fs.EntryChange{
				{Parent: 1, Name: "d", Old: dir(2)}, {Parent: 2, Dir: "d", Name: "f", Old: file(3)}, {Parent: 2, Dir: "d", Name: "g", Old: file(4)},
				{Parent: 1, Name: "x", Old: file(5)}, {Parent: 1, Name: "y", Old: file(6)},
			},
			nil, 2,
			"r d; u x",
		},
		{
			"a file with open handles",
			[]fs.EntryChange{{Parent: 1, Name: "f", Old: file(2), New: fs.EntryRef{ID: 1 << 39, Ino: 2, Type: syscall.S_IFREG}, Changed: true}},
			nil, 100,
			"u f; p f",
		},
		{
			"what is known only to have changed",
			[]fs.EntryChange{{Parent: 1, Name: "f", Old: none, New: none}},
			nil, 100,
			"",
		},
	} {
		plan := planEcho(&fs.Moved{Entries: c.entries}, c.now, c.limit)
		var got []string
		for i := range plan.ops {
			got = append(got, plan.ops[i].String())
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s: %s, not %s", c.name, s, c.want)
		}
	}
}

// TestEchoOpsPass: what is written for the helper is what it reads, whatever bytes the names have.
func TestEchoOpsPass(t *testing.T) {
	ops := []echoOp{{echoRename, "a/b\n", "\xff", "", "x y"}, {kind: echoCreate, name: "f"}}
	var b []byte
	for i := range ops {
		b = ops[i].appendTo(b)
	}
	r := newEchoReader(strings.NewReader(string(b)))
	var got []echoOp
	for {
		op, err := readEchoOp(r)
		if err != nil {
			break
		}
		got = append(got, op)
	}
	if !slices.Equal(got, ops) {
		t.Errorf("%q, not %q", got, ops)
	}
	if _, err := readEchoOp(newEchoReader(strings.NewReader("v\x00a\x00"))); err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("half an operation: %v", err)
	}
}
