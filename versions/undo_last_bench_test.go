package versions

import (
	"context"
	"testing"
	"time"

	"wsfs/store"
)

// BenchmarkPickLast looks for the command that a bare undo means: behind 50,000 changes that were undone, and behind 50,000
// of somebody else.
func BenchmarkPickLast(b *testing.B) {
	const n = 50_000
	for _, undone := range []bool{true, false} {
		name := "others"
		if undone {
			name = "undone"
		}
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			w.unchecked, w.behind = true, true
			want := w.command("s", "first")
			w.create("mine", "1")
			sel := UndoSelect{Own: []store.SessionID{w.who.Session.ID}, Now: w.now}
			c := w.command("other", "much")
			from := w.seq + 1
			for range n / 2 {
				w.create("much", "")
				w.remove("much")
			}
			if undone {
				w.append(&store.Op{Kind: store.OpUndo, Undoes: []store.Undone{{Command: c, Timeline: w.ws.Timeline, From: from, To: w.seq}}})
				sel.Own, sel.Now = nil, time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
			}
			w.behind = false
			w.command("third", "sync")
			w.append(&store.Op{Kind: store.OpUndo})
			ctx := context.Background()
			l, err := lifeOf(ctx, w.st, &w.ws, Place{w.ws.Timeline, w.seq})
			if err != nil {
				b.Fatal(err)
			}
			dead, err := l.undoings(ctx)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				p, err := l.pick(ctx, &sel, dead)
				if err != nil || len(p.commands) != 1 || p.commands[0] != want {
					b.Fatal(p, err)
				}
			}
		})
	}
}
