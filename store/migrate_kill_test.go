package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// TestKillMigration kills who brings a store of schema 3 up to date, at each statement and behind the last: what is left is the old store or
// the new one, and whoever comes next finds every version as it was.
func TestKillMigration(t *testing.T) {
	old := newKillStore(t)
	st, err := store.Open(t.Context(), old, sqlite.Driver(), store.Options{MergeAfter: 1})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Populate(t, st, 3, 120)
	if err := st.MergeSegments(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	onDatabase(t, old, func(db *sql.DB) {
		for _, q := range storetest.Schema3(t, "testdata/schema1.sql") {
			if _, err := db.Exec(q); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
		}
	})
	want, v := versionRows(t, old)
	if v != 3 || len(want) < 100 {
		t.Fatalf("%d versions in a store of schema %d", len(want), v)
	}
	points := []string{"migrated#1"}
	for n := range 12 {
		points = append(points, fmt.Sprintf("migrate#%d", n+1))
	}
	for _, point := range points {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(dir, os.DirFS(old)); err != nil {
			t.Fatal(err)
		}
		kill(t, dir, point, 0)
		got, v := versionRows(t, dir)
		if wantV := 3 + strings.Count(point, "migrated"); v != wantV {
			t.Errorf("killed at %s: the store has schema %d, want %d", point, v, wantV)
		}
		same(t, point, got, want)
		func() {
			st, err := store.Open(t.Context(), dir, sqlite.Driver(), store.Options{})
			if err != nil {
				t.Fatalf("killed at %s: %v", point, err)
			}
			defer st.Close()
			storetest.Check(t, st)
		}()
		got, v = versionRows(t, dir)
		if v != store.SchemaVersion {
			t.Errorf("killed at %s: opened again, the store has schema %d", point, v)
		}
		same(t, point, got, want)
	}
}

func same(t *testing.T, point string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("killed at %s: %d versions, want %d", point, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("killed at %s: version %s, want %s", point, got[i], want[i])
		}
	}
}

func onDatabase(t *testing.T, dir string, fn func(*sql.DB)) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, sqlite.File))
	if err != nil {
		t.Fatal(err)
	}
	fn(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// versionRows are all versions as text, without what schema 4 brought, and the schema.
func versionRows(t *testing.T, dir string) (list []string, schema int) {
	t.Helper()
	onDatabase(t, dir, func(db *sql.DB) {
		if err := db.QueryRow("PRAGMA user_version").Scan(&schema); err != nil {
			t.Fatal(err)
		}
		rows, err := db.Query(`SELECT timeline_id, ino, seq, version_id, parent_version_id, replaced_version_id, merge_version_id, origin_timeline_id,
			mode, uid, gid, nlink, rdev, size, holes, mtime, ctime, quote(atime), quote(content_hash), quote(target), quote(xattrs)
			FROM file_version ORDER BY timeline_id, ino, seq`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			cols := make([]string, 21)
			ptrs := make([]any, len(cols))
			for i := range cols {
				ptrs[i] = &cols[i]
			}
			if err := rows.Scan(ptrs...); err != nil {
				t.Fatal(err)
			}
			list = append(list, strings.Join(cols, " "))
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	})
	return list, schema
}
