package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// manyForks makes n forks of the first workspace, every tenth of which has changed something.
func (l *line) manyForks(n int) []store.Workspace {
	var list []store.Workspace
	first, seq := l.ws, l.seq
	for i := range n {
		if i%10 == 0 {
			l.deepen()
			list = append(list, l.ws)
			l.ws, l.seq = first, seq
			continue
		}
		ws, op := l.fork()
		l.send(op)
		list = append(list, ws)
	}
	return list
}

// 10,000 forks of one workspace: what is asked about one of them must not look at all of them.
func TestTenThousandForks(t *testing.T) {
	ctx := t.Context()
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	st := storetest.New(t, sqlite.Driver(), store.Options{})
	l := newLine(t, st)
	forks := l.manyForks(n)
	l.apply()
	list, err := st.Workspaces(ctx)
	if err != nil || len(list) != n+1 {
		t.Fatalf("%d workspaces, %v", len(list), err)
	}
	for _, i := range []int{0, 1, n / 2, n - 1} {
		ws, err := st.Workspace(ctx, forks[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if i%10 == 0 {
			want = 1
		}
		if only, err := st.OnlyHere(ctx, ws); err != nil || only != want {
			t.Errorf("fork %d alone has %d changes, %v, want %d", i, only, err, want)
		}
	}
	main, err := st.Workspace(ctx, "0")
	if err != nil {
		t.Fatal(err)
	}
	if only, err := st.OnlyHere(ctx, main); err != nil || only != 0 {
		t.Errorf("the first workspace alone has %d changes, %v", only, err)
	}
	for _, i := range []int{0, 1} {
		ws := forks[i]
		ws.DroppedAt = 1
		l.send(&store.Op{Kind: store.OpWorkspace, Pointer: &store.Pointer{Workspace: ws, Why: "drop"}})
	}
	l.apply()
	if list, err = st.Workspaces(ctx); err != nil || len(list) != n-1 {
		t.Errorf("%d workspaces after two were dropped, %v", len(list), err)
	}
	if list, err = st.DroppedWorkspaces(ctx); err != nil || len(list) != 2 {
		t.Errorf("%d dropped workspaces, %v", len(list), err)
	}
}

// BenchmarkForks is what forks cost beside 10,000 others of the same workspace.
func BenchmarkForks(b *testing.B) {
	ctx := context.Background()
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
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
			forks := l.manyForks(n)
			l.apply()
			b.Logf("%d forks made in %v", n, time.Since(start))
			run := func(name string, fn func() error) {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						if err := fn(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			run("list", func() error { _, err := st.Workspaces(ctx); return err })
			run("find", func() error { _, err := st.Workspace(ctx, "0"); return err })
			only := func(name string) func() error {
				ws, err := st.Workspace(ctx, name)
				if err != nil {
					b.Fatal(err)
				}
				return func() error { _, err := st.OnlyHere(ctx, ws); return err }
			}
			run("only here, of a fork that wrote", only(forks[0].Name))
			run("only here, of the last fork", only(forks[n-1].Name))
			run("only here, of what was forked", only("0"))
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
			run("fork and write", func() error {
				first, seq := l.ws, l.seq
				l.deepen()
				l.ws, l.seq = first, seq
				return st.Apply(ctx, l.last)
			})
			run("drop", func() error {
				ws := forks[0]
				ws.DroppedAt = 1
				l.send(&store.Op{Kind: store.OpWorkspace, Pointer: &store.Pointer{Workspace: ws, Why: "drop"}})
				return st.Apply(ctx, l.last)
			})
		})
	}
}
