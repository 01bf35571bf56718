package versions

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// BenchmarkPlan is the plan that brings back a tree of 57,000 files which one command removed, file by file: as an undo,
// and as a rollback. The clock of the whole on a mount is scripts/bench --only rollback.
func BenchmarkPlan(b *testing.B) {
	const dirs, files = 110, 518
	w := newWorld(b)
	w.unchecked, w.behind = true, true
	w.mkdir("t")
	for d := range dirs {
		dir := fmt.Sprintf("t/d%d", d)
		w.mkdir(dir)
		op := &store.Op{Kind: store.OpImport}
		for f := range files {
			content := fmt.Appendf(nil, "%d %d\n", d, f)
			ino, name := w.st.NewIno(), fmt.Sprintf("f%d", f)
			w.paths[dir+"/"+name] = ino
			op.Names = append(op.Names, store.Name{Parent: w.paths[dir], Name: name, Ino: ino, Type: syscall.S_IFREG})
			op.Versions = append(op.Versions, store.Version{
				Ino: ino, Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: int64(len(content)), Content: blob.Sum(content),
			})
			op.Items = append(op.Items, store.Item{Op: store.OpCreate, Ino: ino, Parent: w.paths[dir], Name: name})
			op.Contents = append(op.Contents, w.st.Blobs().StageSmall(content))
		}
		w.append(op)
	}
	whole := Place{w.ws.Timeline, w.seq}
	rm := w.command("s", "rm -r t")
	for d := range dirs {
		for f := range files {
			w.remove(fmt.Sprintf("t/d%d/f%d", d, f))
		}
		w.remove(fmt.Sprint("t/d", d))
	}
	w.remove("t")
	w.behind = false
	w.command("s", "touch behind")
	w.create("behind", "") // and all of it is in the database
	at := Place{w.ws.Timeline, w.seq}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	plan := func(b *testing.B, plan func() (*UndoPlan, error)) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := plan()
			if err != nil || p.Created != dirs*(files+1)+1 {
				b.Fatal(p, err)
			}
		}
	}
	b.Run("undo", func(b *testing.B) {
		plan(b, func() (*UndoPlan, error) {
			return PlanUndo(ctx, w.st, &w.ws, at, UndoSelect{Commands: []store.CommandID{rm}, Now: time.Unix(0, 0)})
		})
	})
	b.Run("rollback", func(b *testing.B) {
		plan(b, func() (*UndoPlan, error) { return PlanRollback(ctx, w.st, &w.ws, at, whole, UndoSelect{}) })
	})
}
