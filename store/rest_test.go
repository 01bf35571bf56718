package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// TestRests sees the database's log and the spare segments of the journal go when nothing is changed any more, and the log stay where
// somebody reads from it.
func TestRests(t *testing.T) {
	ctx := t.Context()
	st := storetest.New(t, sqlite.Driver(), store.Options{})
	storetest.Populate(t, st, 11, 200)
	if err := st.Apply(ctx, st.Last()); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(st.Dir(), sqlite.File+"-wal")
	until(t, "the database's log is folded in", func() bool {
		fi, err := os.Stat(log)
		return err == nil && fi.Size() < 1<<20
	})
	until(t, "one segment is written and one is spare", func() bool {
		list, err := filepath.Glob(filepath.Join(st.Dir(), "journal", "*"))
		return err == nil && len(list) <= 2
	})
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 30 s it is not so that %s", what)
		}
	}
}
