package versions

import (
	"fmt"
	"strings"
	"testing"

	"wsfs/store"
)

// More owners than are looked up at once each have their own process, and all its ancestors.
func TestBlameNames(t *testing.T) {
	w := newWorld(t)
	w.create("f", "")
	const n = 2*namesAtOnce + 40
	var made []*store.Process
	var parent *store.Process
	for i := range n {
		w.command("agent", fmt.Sprint("edit ", i))
		p := w.who.Process
		p.Comm, p.Unread = fmt.Sprint("comm ", i), i%3 == 0
		if i%5 != 0 {
			p.Parent = parent
		}
		parent = p
		made = append(made, p)
		w.write("f", strings.Repeat("kept\n", i)+"new\n")
		w.write("f", strings.Repeat("kept\n", i+1))
	}
	b := w.blame(w.view(), "f", BlameRange{})
	if len(b.Owners) != n {
		t.Fatalf("%d lines", len(b.Owners))
	}
	for i, o := range b.Owners {
		if o.Command == nil || o.Command.Argv != fmt.Sprint("edit ", i) || o.Session == nil || o.At == 0 {
			t.Fatalf("line %d: %+v", i, o)
		}
		got := o.Process
		for want := made[i]; want != nil; want, got = want.Parent, got.Parent {
			if got == nil || got.ID != want.ID || got.Comm != want.Comm || got.Unread != want.Unread {
				t.Fatalf("line %d: process %+v, want %+v", i, got, want)
			}
		}
		if got != nil {
			t.Fatalf("line %d: one more ancestor: %+v", i, got)
		}
	}
}
