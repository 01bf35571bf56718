package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// What is said of changes comes with ops; a journal of which the database has nothing, or all, gives the same rows, once.
func TestReviewRows(t *testing.T) {
	ctx := context.Background()
	r := newRows(t)
	st, w, root, put, session := r.st, r.w, r.root, r.put, r.who.Session
	who := store.Attribution{Session: session}
	const fork, line = store.WorkspaceID(77), store.TimelineID(78)
	no := store.Review{Workspace: fork, Timeline: line, Seq: 9, Path: "x\xff", Hunks: []string{"a1", "b2"}, Verdict: store.Rejected}
	yes := store.Review{Workspace: fork, Timeline: line, Seq: 9, Path: "y", Verdict: store.Accepted}
	put(&store.Op{Who: who, At: 5, Reviews: []store.Review{no}})
	root.Seq, root.Parent, root.ID = 2, root.ID, st.NewVersionID()
	put(&store.Op{Kind: store.OpMerge, Timeline: w.Timeline, Workspace: w.ID, Seq: 2, Who: who, At: 6, Versions: []store.Version{root},
		Items: []store.Item{{Op: store.OpSetattr, Ino: store.RootIno}}, Reviews: []store.Review{yes}})
	left := t.TempDir()
	keep := func(name string) {
		t.Helper()
		if err := os.CopyFS(filepath.Join(left, name), os.DirFS(r.dir)); err != nil {
			t.Fatal(err)
		}
	}
	keep("none")
	if err := st.Apply(ctx, r.last); err != nil {
		t.Fatal(err)
	}
	keep("all")
	want := []store.ReviewRow{
		{Review: no, Session: session.ID, At: 5},
		{Review: yes, Into: w.Timeline, IntoSeq: 2, Session: session.ID, At: 6},
	}
	look := func(what string, st *store.Store) {
		t.Helper()
		list, err := st.Reviews(ctx, fork)
		for i := range list {
			if len(list[i].Hunks) == 0 {
				list[i].Hunks = nil
			}
		}
		if err != nil || !reflect.DeepEqual(list, want) {
			t.Errorf("%s: reviews\n%+v, %v, want\n%+v", what, list, err, want)
		}
		rows, err := st.ChangesAt(ctx, []store.Segment{{Timeline: w.Timeline, Cut: 2}})
		if err != nil || rows[0] == nil || len(rows[0].Accepted) != 1 || rows[0].Accepted[0].Path != "y" {
			t.Errorf("%s: the change took in %+v, %v", what, rows[0], err)
		}
	}
	look("at once", st)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"none", "all"} {
		again, err := store.Open(ctx, filepath.Join(left, name), sqlite.Driver(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Apply(ctx, again.Last()); err != nil {
			t.Error(err)
		}
		look("after a kill with "+name, again)
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}
