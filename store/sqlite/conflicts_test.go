package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// Conflicts and what was seen come with ops, and replaying the journal gives the same rows.
func TestConflictRows(t *testing.T) {
	ctx := context.Background()
	r := newRows(t)
	st, w, who, put := r.st, r.w, r.who, r.put
	session, command := who.Session, who.Command
	part := st.Blobs().StageSmall([]byte("theirs\n"))
	first, second, third := st.NewConflictID(), st.NewConflictID(), st.NewConflictID()
	// No change of the tree: bytes that were refused.
	put(&store.Op{Who: who, At: 5, Workspace: w.ID, Contents: []blob.Staged{part}, Conflicts: []store.Conflict{
		{ID: first, Why: store.WhyStale, Timeline: w.Timeline, Ino: 9, Parent: 1, Name: "n.md", Base: 3, Head: 4, Content: part.Content.Ref},
		{ID: second, Why: store.WhyMerge, Timeline: w.Timeline, Ino: 9, Parent: 1, Name: "o\xff", Head: 4},
	}, Seen: []store.SeenRow{{Session: session.ID, Ino: 9, Version: 4}, {Session: session.ID, Ino: 10, Version: 5}}})
	put(&store.Op{Who: who, At: 7, Conflicts: []store.Conflict{{ID: third, Why: store.WhyRevert, Timeline: w.Timeline, Head: 8}},
		Resolves: []store.ConflictID{second}, Seen: []store.SeenRow{{Session: session.ID, Ino: 10}, {Session: session.ID, Ino: 9, Version: 6}}})
	put(&store.Op{Who: who, At: 8, Resolves: []store.ConflictID{-third}})

	// As a kill leaves it: the journal has more than the database.
	left := filepath.Join(t.TempDir(), "left")
	if err := os.CopyFS(left, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	rows := func(st *store.Store) (list []store.ConflictRow, seen []store.SeenRow) {
		t.Helper()
		list, err := st.Conflicts(ctx, store.ConflictQuery{Workspace: w.ID, Resolved: true})
		if err == nil {
			seen, err = st.Seen(ctx, w.ID, 10)
		}
		if err != nil {
			t.Fatal(err)
		}
		return list, seen
	}
	if err := st.Apply(ctx, r.last); err != nil {
		t.Fatal(err)
	}
	list, seen := rows(st)
	want := []store.ConflictRow{
		{Conflict: store.Conflict{ID: third, Why: store.WhyRevert, Timeline: w.Timeline, Head: 8, Resolved: true}, Session: session.ID, Command: command.ID, At: 7, ResolvedAt: 7},
		{Conflict: store.Conflict{ID: second, Why: store.WhyMerge, Timeline: w.Timeline, Ino: 9, Parent: 1, Name: "o\xff", Head: 4, Resolved: true},
			Session: session.ID, Command: command.ID, At: 5, ResolvedAt: 7},
		{Conflict: store.Conflict{ID: first, Why: store.WhyStale, Timeline: w.Timeline, Ino: 9, Parent: 1, Name: "n.md", Base: 3, Head: 4, Content: part.Content.Ref},
			Session: session.ID, Command: command.ID, At: 5},
	}
	if !reflect.DeepEqual(list, want) {
		t.Errorf("conflicts\n%+v, want\n%+v", list, want)
	}
	if want := []store.SeenRow{{Session: session.ID, Ino: 9, Version: 6}}; !reflect.DeepEqual(seen, want) {
		t.Errorf("seen %+v, want %+v", seen, want)
	}
	if n, err := st.OpenConflicts(ctx); n != 1 || err != nil {
		t.Errorf("%d are open, %v", n, err)
	}
	if one, err := st.Conflicts(ctx, store.ConflictQuery{ID: first}); len(one) != 1 || err != nil {
		t.Errorf("by its number: %+v, %v", one, err)
	}
	if who, c, err := st.ConflictParties(ctx, &list[0]); err != nil || who == nil || who.Name != "a" || c == nil || c.Argv != "sh" {
		t.Errorf("made by %+v with %+v, %v", who, c, err)
	}
	buf := make([]byte, 7)
	if _, err := st.Blobs().ReadAt(ctx, part.Content, buf, 0); err != nil || string(buf) != "theirs\n" {
		t.Errorf("the bytes of a conflict: %q, %v", buf, err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}

	again, err := store.Open(ctx, left, sqlite.Driver(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	list2, seen2 := rows(again)
	if !reflect.DeepEqual(list2, list) || !reflect.DeepEqual(seen2, seen) {
		t.Errorf("replayed:\n%+v %+v, want\n%+v %+v", list2, seen2, list, seen)
	}
	if id := again.NewConflictID(); id <= third {
		t.Errorf("number %d was given out before", id)
	}
}
