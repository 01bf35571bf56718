package store_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/versions"
)

// Log, blame, every state that a tag names, and what undo does are the same whatever the size of the groups that ops go to
// the database in.
func TestGroupSizesTellTheSame(t *testing.T) {
	sizes := []int{1, 32, 1024}
	var told []string
	for _, size := range sizes {
		told = append(told, grouped(t, size, 20261130))
	}
	for i := 1; i < len(told); i++ {
		if a, b := told[0], told[i]; a != b {
			x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
			for n := range min(len(x), len(y)) {
				if x[n] != y[n] {
					t.Errorf("groups of %d tell\n%s\ngroups of %d\n%s", sizes[0], x[n], sizes[i], y[n])
					break
				}
			}
			t.Errorf("groups of %d tell %d lines, of %d %d", sizes[0], len(x), sizes[i], len(y))
		}
	}
}

// ticking is a clock that goes on by a millisecond whenever somebody looks.
func ticking() func() time.Time {
	var ticks atomic.Int64
	return func() time.Time {
		return time.Unix(1_800_000_000, 0).Add(time.Duration(ticks.Add(1)) * time.Millisecond)
	}
}

// grouped is what one agent does, by groups of a size, in words.
func grouped(t *testing.T, size int, seed uint64) string {
	t.Helper()
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "store")
	model := makeAgents(t, dir, 1)[0]
	now := ticking()
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{GroupOps: size, GroupDelay: 300 * time.Millisecond, Now: now, MergeAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	a := &agent{st: st, name: "agent-0", now: now}
	if err := a.open(ctx, model.ws); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.f.Close(); err != nil {
			t.Error(err)
		}
	}()
	do := func(op mop) {
		t.Helper()
		if err := a.do(ctx, op); err != nil {
			t.Fatalf("%s: %v", model.did[len(model.did)-1], err)
		}
	}
	for range 300 { // what asks the database comes later: it would make the groups small
		before := model.snapshot()
		op := model.next(seed)
		switch op.Kind {
		case "undo", "redo", "try undo", "try redo", "rollback", "use", "fork", "drop", "sync", "checkpoint", "gc", "import":
			n := model.n
			model = before
			model.n = n
			continue
		}
		do(op)
	}
	model.finish()
	if err := st.Apply(ctx, st.Last()); err != nil {
		t.Fatal(err)
	}
	q := st.QueueStats()
	if n := int64(q.Last); size == 1 && q.Groups != n || size == 32 && q.Groups > n/8 || size == 1024 && q.Groups > n/16 { // a tag asks the database, too
		t.Errorf("%d ops in %d groups: no groups of %d", n, q.Groups, size)
	}
	t.Logf("groups of %d: %d ops in %d transactions", size, q.Last, q.Groups)
	var b strings.Builder
	tell(t, st, a.f, &b)
	for range min(10, len(model.undo)) {
		s := model.undo[len(model.undo)-1]
		model.undo = model.undo[:len(model.undo)-1]
		do(mop{Kind: "undo", Name: s.cmd, Cmd: "undo of " + s.cmd})
		tell(t, st, a.f, &b)
	}
	return b.String()
}

// tell writes down the log, the tree and the blame of every text.
func tell(t *testing.T, st *store.Store, f *fs.FS, b *strings.Builder) {
	t.Helper()
	ctx := t.Context()
	if err := st.Apply(ctx, st.Last()); err != nil {
		t.Fatal(err)
	}
	ws := f.Workspace()
	v, err := st.ViewOf(ctx, ws)
	if err != nil {
		t.Fatal(err)
	}
	if err := versions.Log(ctx, st, versions.LogQuery{View: v, Workspace: ws.ID}, func(e *versions.Entry) error {
		cmd := "nobody"
		if e.Command != nil {
			cmd = e.Command.Argv
		}
		fmt.Fprintf(b, "log @%d-%d %s %s %q %q %o>%o +%d -%d\n", e.First, e.Seq, cmd, e.What, e.Path, e.From, e.OldMode, e.NewMode, e.Plus, e.Minus)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s := &survivors{t: t, st: st}
	shown := s.tree(ctx, v)
	for _, p := range sortedKeys(shown) {
		fmt.Fprintf(b, "tree %s %s\n", p, shown[p])
		ver, err := versions.Find(ctx, v, p, false)
		if err != nil {
			t.Fatal(err)
		}
		if shown[p][0] != 'f' || ver.Size == 0 || ver.Size > 60_000 {
			continue
		}
		blamed, err := versions.Blame(ctx, st, ver, versions.BlameRange{})
		if err != nil {
			continue // no text any more
		}
		for i, o := range blamed.Owners {
			fmt.Fprintf(b, "blame %s %s @%d %s", p, o.Command.Argv, o.Version.Seq, blamed.Lines[i])
		}
	}
}
