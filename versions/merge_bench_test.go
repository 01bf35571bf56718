package versions

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"wsfs/store"
)

// child is a workspace that begins where w stands.
func (w *world) child(name string) *world {
	f := *w
	f.nodes, f.paths = maps.Clone(w.nodes), maps.Clone(w.paths)
	f.ws = store.Workspace{
		ID: w.st.NewWorkspaceID(), Name: name, Timeline: w.st.NewTimelineID(), Base: w.ws.Timeline, BaseSeq: w.seq, Parent: w.ws.ID,
	}
	f.append(&store.Op{Kind: store.OpWorkspace, Pointer: &store.Pointer{
		Workspace: f.ws, Why: "fork", NewTimeline: &store.Timeline{ID: f.ws.Timeline, Parent: w.ws.Timeline, ParentSeq: w.seq, Head: w.seq},
	}})
	return &f
}

// BenchmarkMerge is the plan of a merge of two workspaces of 100,000 files with 100 changes each, of which 25 are of the same
// files: the bar is 100 ms for all of it.
func BenchmarkMerge(b *testing.B) {
	w := newWorld(b)
	w.fill(100, 1000)
	for n := range 100 {
		w.write(hundredth(n), fmt.Sprintf("%d\n2\n3\n4\n5\n", n))
	}
	f := w.child("f")
	f.hundred(func(n int) string { return fmt.Sprintf("%d\n2\n3\n4\nfive\n", n) })
	for n := range 100 {
		if n%4 == 0 {
			w.write(hundredth(n), fmt.Sprintf("one %d\n2\n3\n4\n5\n", n))
		} else {
			w.write(fmt.Sprintf("dir%d/file%d", n, n*7+1), "other\n")
		}
	}
	at, from := Place{w.ws.Timeline, w.seq}, Place{f.ws.Timeline, f.seq}
	for b.Loop() {
		p, err := PlanMerge(context.Background(), w.st, at, from, MergeSelect{})
		if err != nil || len(p.Conflicts) > 0 || p.Merges != 25 || p.Changed != 25 || p.Renamed != 25 || p.Removed != 25 {
			b.Fatal(p, err)
		}
	}
}
