package store_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// line is a workspace, then a fork of it, a fork of that and so on, each of which changed something.
type line struct {
	tb   testing.TB
	st   *store.Store
	ws   store.Workspace // the last one
	seq  store.Seq
	root store.Version
	last store.Slot
	n    int
	held map[string]store.Version // who has a name
}

// newLine makes the first workspace: a directory of 100 files "f0"... and a file "oldest", inode 2.
func newLine(tb testing.TB, st *store.Store) *line {
	l := &line{tb: tb, st: st, seq: 1, held: make(map[string]store.Version)}
	l.ws = store.Workspace{ID: st.NewWorkspaceID(), Name: "0", Timeline: st.NewTimelineID()}
	l.root = store.Version{Ino: store.RootIno, Seq: 1, ID: st.NewVersionID(), Origin: l.ws.Timeline, Mode: syscall.S_IFDIR | 0o755, Nlink: 2}
	op := &store.Op{
		Kind: store.OpWorkspace, Timeline: l.ws.Timeline, Seq: l.seq, Versions: []store.Version{l.root},
		Pointer: &store.Pointer{Workspace: l.ws, NewTimeline: &store.Timeline{ID: l.ws.Timeline}, Why: "init"},
	}
	l.file(op, "oldest")
	for i := range 100 {
		l.file(op, fmt.Sprint("f", i))
	}
	l.send(op)
	return l
}

func (l *line) send(op *store.Op) {
	slot, err := l.st.Append(op)
	if err != nil {
		l.tb.Fatal(err)
	}
	l.last = slot
}

// remove takes a name away.
func (l *line) remove(op *store.Op, name string) {
	v, ok := l.held[name]
	if !ok {
		return
	}
	delete(l.held, name)
	v.Seq, v.Parent, v.ID, v.Origin, v.Nlink = op.Seq, v.ID, l.st.NewVersionID(), op.Timeline, 0
	op.Names = append(op.Names, store.Name{Parent: store.RootIno, Name: name})
	op.Versions = append(op.Versions, v)
	op.Items = append(op.Items, store.Item{Op: store.OpUnlink, Ino: v.Ino, Parent: store.RootIno, Name: name})
}

// file makes a file, in the place of what has the name.
func (l *line) file(op *store.Op, name string) {
	l.remove(op, name)
	ino := l.st.NewIno()
	op.Names = append(op.Names, store.Name{Parent: store.RootIno, Name: name, Ino: ino, Type: syscall.S_IFREG})
	l.held[name] = store.Version{
		Ino: ino, Seq: op.Seq, ID: l.st.NewVersionID(), Origin: op.Timeline, Mode: syscall.S_IFREG | 0o644, Nlink: 1,
	}
	op.Versions = append(op.Versions, l.held[name])
	op.Items = append(op.Items, store.Item{Op: store.OpCreate, Ino: ino, Parent: store.RootIno, Name: name})
}

// fork makes a workspace based on the last one.
func (l *line) fork() (store.Workspace, *store.Op) {
	l.n++
	ws := store.Workspace{ID: l.st.NewWorkspaceID(), Name: fmt.Sprint(l.n), Base: l.ws.Timeline, BaseSeq: l.seq, Parent: l.ws.ID}
	return ws, &store.Op{Kind: store.OpWorkspace, Pointer: &store.Pointer{Workspace: ws, Why: "fork"}}
}

// deepen forks the last workspace and makes three files in the fork, in the place of old ones before long; every tenth fork
// removes a file that it did not make.
func (l *line) deepen() {
	ws, op := l.fork()
	l.send(op)
	ws.Timeline = l.st.NewTimelineID()
	l.seq++
	op = &store.Op{
		Kind: store.OpCreate, Timeline: ws.Timeline, Workspace: ws.ID, Seq: l.seq,
		Pointer: &store.Pointer{Workspace: ws, Why: "first write", NewTimeline: &store.Timeline{
			ID: ws.Timeline, Parent: ws.Base, ParentSeq: ws.BaseSeq, Head: ws.BaseSeq,
		}},
	}
	for i := range 3 {
		l.file(op, fmt.Sprint("own", (3*l.n+i)%20))
	}
	if l.n%10 == 0 {
		l.remove(op, fmt.Sprint("own", (3*l.n+10)%20))
	}
	l.root.Seq, l.root.ID, l.root.Parent, l.root.Origin = l.seq, l.st.NewVersionID(), l.root.ID, ws.Timeline
	l.root.Mtime = int64(l.seq)
	op.Versions = append(op.Versions, l.root)
	l.send(op)
	l.ws = ws
}

func (l *line) apply() {
	if err := l.st.Apply(context.Background(), l.last); err != nil {
		l.tb.Fatal(err)
	}
}

// BenchmarkDepth is what a line of forks costs: the fork itself, acknowledged and in the database, a name and an inode that the
// oldest timeline has, a name that nobody has, a directory of 100 files (and 20 that forks made), and the merging, for each fork.
func BenchmarkDepth(b *testing.B) {
	for _, depth := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint("depth", depth), func(b *testing.B) { benchDepth(b, depth) })
	}
}

func benchDepth(b *testing.B, depth int) {
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
	l := newLine(b, st)
	start := time.Now()
	for range depth {
		l.deepen()
	}
	l.apply()
	made := time.Since(start)
	if err := st.MergeSegments(ctx); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d forks of forks with a change each: made in %v, merged after %v", depth, made, time.Since(start))
	v, err := st.ViewOf(ctx, &l.ws)
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
			b.ReportMetric(float64(len(v.Path())), "segments")
		})
	}
	run("fork", func() error {
		_, op := l.fork()
		l.send(op)
		return st.Wait(l.last)
	})
	run("fork applied", func() error {
		_, op := l.fork()
		l.send(op)
		return st.Apply(ctx, l.last)
	})
	run("view", func() error { _, err := st.ViewOf(ctx, &l.ws); return err })
	run("lookup", func() error { _, err := v.Lookup(ctx, store.RootIno, "oldest"); return err })
	run("absent", func() error {
		if _, err := v.Lookup(ctx, store.RootIno, "nowhere"); err == nil {
			return syscall.EEXIST
		}
		return nil
	})
	run("attributes", func() error { _, err := v.Version(ctx, 2); return err })
	run("readdir", func() error {
		return v.ReadDir(ctx, store.RootIno, func(store.Name, *store.Version) error { return nil })
	})
	run("lineage", func() error {
		v, err := st.ViewOf(ctx, &l.ws)
		if err == nil {
			_, err = st.Lineage(ctx, v)
		}
		return err
	})
}
