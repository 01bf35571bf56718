package store_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// BenchmarkChain reads through chains of forks that changed something each: a name that the oldest timeline has, one
// that nobody has, an inode's attributes, and a directory of 100 files.
func BenchmarkChain(b *testing.B) {
	for _, depth := range []int{1, 16, 64, 200} {
		b.Run(fmt.Sprint("depth", depth), func(b *testing.B) { benchChain(b, depth) })
	}
}

func benchChain(b *testing.B, depth int) {
	ctx := context.Background()
	dir := b.TempDir()
	if err := store.Init(ctx, dir, sqlite.Driver()); err != nil {
		b.Fatal(err)
	}
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	var last store.Slot
	send := func(op *store.Op) {
		if last, err = st.Append(op); err != nil {
			b.Fatal(err)
		}
	}
	file := func(op *store.Op, ino store.Ino, name string) {
		op.Names = append(op.Names, store.Name{Parent: store.RootIno, Name: name, Ino: ino, Type: syscall.S_IFREG})
		op.Versions = append(op.Versions, store.Version{
			Ino: ino, Seq: op.Seq, ID: st.NewVersionID(), Origin: op.Timeline, Mode: syscall.S_IFREG | 0o644, Nlink: 1,
		})
	}
	ws := store.Workspace{ID: st.NewWorkspaceID(), Name: "0", Timeline: st.NewTimelineID()}
	seq := store.Seq(1)
	op := &store.Op{Kind: store.OpWorkspace, Timeline: ws.Timeline, Seq: seq, Versions: []store.Version{{
		Ino: store.RootIno, Seq: seq, ID: st.NewVersionID(), Origin: ws.Timeline, Mode: syscall.S_IFDIR | 0o755, Nlink: 2,
	}}, Pointer: &store.Pointer{Workspace: ws, NewTimeline: &store.Timeline{ID: ws.Timeline}, Why: "init"}}
	first := st.NewIno()
	file(op, first, "oldest")
	for i := range 100 {
		file(op, st.NewIno(), fmt.Sprint("f", i))
	}
	send(op)
	for i := range depth {
		next := store.Workspace{ID: st.NewWorkspaceID(), Name: fmt.Sprint(i + 1), Base: ws.Timeline, BaseSeq: seq, Parent: ws.ID}
		send(&store.Op{Kind: store.OpWorkspace, Pointer: &store.Pointer{Workspace: next, Why: "fork"}})
		next.Timeline = st.NewTimelineID()
		seq++
		op := &store.Op{Kind: store.OpCreate, Timeline: next.Timeline, Seq: seq, Pointer: &store.Pointer{Workspace: next, Why: "first write",
			NewTimeline: &store.Timeline{ID: next.Timeline, Parent: next.Base, ParentSeq: next.BaseSeq, Head: next.BaseSeq}}}
		file(op, st.NewIno(), fmt.Sprint("own", i%10))
		send(op)
		ws = next
	}
	if err := st.Apply(ctx, last); err != nil {
		b.Fatal(err)
	}
	v, err := st.ViewOf(ctx, &ws)
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, fn func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := fn(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("view", func() error { _, err := st.ViewOf(ctx, &ws); return err })
	run("lookup", func() error { _, err := v.Lookup(ctx, store.RootIno, "oldest"); return err })
	run("absent", func() error {
		if _, err := v.Lookup(ctx, store.RootIno, "nowhere"); err == nil {
			return syscall.EEXIST
		}
		return nil
	})
	run("attributes", func() error { _, err := v.Version(ctx, first); return err })
	run("readdir", func() error {
		return v.ReadDir(ctx, store.RootIno, func(store.Name, *store.Version) error { return nil })
	})
}
