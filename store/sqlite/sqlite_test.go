package sqlite_test

import (
	"fmt"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// Before 3.51.3 a reset of the write-ahead log could lose pages.
func TestVersion(t *testing.T) {
	dir, _ := initStore(t)
	db, err := sqlite.Driver().Open(t.Context(), dir, store.ModeReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Reader.Close()
	var major, minor, patch int
	var text string
	if err := db.Reader.QueryRow("SELECT sqlite_version()").Scan(&text); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); err != nil || major*1_000_000+minor*1000+patch < 3_051_003 {
		t.Errorf("SQLite %s, %v: want 3.51.3 or newer", text, err)
	}
}

func TestStore(t *testing.T) { storetest.Run(t, sqlite.Driver()) }
