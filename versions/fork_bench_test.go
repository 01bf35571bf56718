package versions

import (
	"context"
	"fmt"
	"testing"
	"time"

	"wsfs/store"
)

// BenchmarkFork is the fork of a workspace of 100,000 files, from its name to the acknowledgement: alone, with 10,000 forks
// of it there already, and of a workspace that is 1,000 forks deep, with a change in each. The bar is 1 ms, everywhere.
func BenchmarkFork(b *testing.B) {
	w := newWorld(b)
	w.unchecked = true
	w.fill(100, 1000)
	n := 0
	fork := func(from string) (store.Workspace, Place) {
		rev, err := Parse(from, time.UTC)
		if err != nil {
			b.Fatal(err)
		}
		r, err := Resolve(context.Background(), w.st, rev, w.now)
		if err != nil {
			b.Fatal(err)
		}
		p, err := r.Place(context.Background(), w.st)
		if err != nil {
			b.Fatal(err)
		}
		n++
		op := ForkOp(w.st, r.Workspace, p, fmt.Sprint("f", n), w.now.UnixNano(), w.who)
		slot, err := w.st.Append(op)
		if err == nil {
			err = w.st.Wait(slot)
		}
		if err != nil {
			b.Fatal(err)
		}
		return op.Pointer.Workspace, p
	}
	applied := func() {
		if err := w.st.Apply(context.Background(), w.st.Last()); err != nil {
			b.Fatal(err)
		}
	}
	measure := func(name, from string) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				fork(from)
			}
		})
		applied()
	}
	measure("first", "main")
	for n < 10_000 {
		fork("main")
	}
	applied()
	measure("of10000", "main")
	from := "main"
	for range 1000 {
		ws, _ := fork(from)
		applied()
		from = ws.Name
		w.inFork(ws, func() { w.write("dir7/file7", ws.Name) })
	}
	if err := w.st.MergeSegments(context.Background()); err != nil {
		b.Fatal(err)
	}
	measure("deep1000", from)
}

// inFork makes changes in a workspace that has none of its own yet.
func (w *world) inFork(ws store.Workspace, changes func()) {
	root := w.nodes[store.RootIno]
	ws.Timeline = w.st.NewTimelineID()
	w.ws, w.seq = ws, ws.BaseSeq
	w.append(&store.Op{
		Kind: store.OpSetattr, Versions: []store.Version{root}, Items: []store.Item{{Op: store.OpSetattr, Ino: store.RootIno}},
		Pointer: &store.Pointer{Workspace: ws, Why: "first write", NewTimeline: &store.Timeline{
			ID: ws.Timeline, Parent: ws.Base, ParentSeq: ws.BaseSeq, Head: ws.BaseSeq,
		}},
	})
	changes()
}
