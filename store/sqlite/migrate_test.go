package sqlite_test

import (
	"slices"
	"strings"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// TestSchema1 opens a store as the first release left it: reading it is refused until it was opened once for writing,
// which brings it up to date and changes nothing else.
func TestSchema1(t *testing.T) {
	ctx := t.Context()
	dir, db := initStore(t)
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Populate(t, st, 11, 60)
	before, err := st.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if before.Rows["undone"] == 0 {
		t.Fatal("no undo in the history: nothing is tested")
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	newer := []string{"undone", "session_origin", "process_unread", "setting", "removal", "review", "content_gone"}
	for _, name := range newer[:5] { // Schema3 does those of schema 4
		pragma(t, db, "DROP TABLE "+name)
	}
	pragma(t, db, "DROP INDEX workspace_timeline")
	for _, q := range storetest.Schema3(t, "../testdata/schema1.sql") {
		pragma(t, db, q)
	}
	pragma(t, db, "PRAGMA user_version = 1")
	if st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{ReadOnly: true}); err == nil || !strings.Contains(err.Error(), "wsfs sync") {
		t.Errorf("read an old store: %v, %v; want an error that says what to do", st, err)
	}
	st = storetest.Open(t, dir, sqlite.Driver(), store.Options{})
	after, err := st.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range before.Rows {
		if !slices.Contains(newer, name) && name != "counter" && name != "journal" && after.Rows[name] != n {
			t.Errorf("table %s had %d rows, now %d", name, n, after.Rows[name])
		}
	}
	if n, ok := after.Rows["undone"]; !ok || n != 0 {
		t.Errorf("table undone: %d rows, %v", n, ok)
	}
	ro, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := ro.Close(); err != nil {
		t.Error(err)
	}
}
