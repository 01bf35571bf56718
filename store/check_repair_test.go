package store_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// TestRepair breaks what Repair can mend, one thing after the other: it says what it did, the store is whole afterwards, and no
// version, change or workspace is lost.
func TestRepair(t *testing.T) {
	ctx := t.Context()
	from := filepath.Join(t.TempDir(), "store")
	if err := store.Init(ctx, from, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(ctx, from, sqlite.Driver(), store.Options{MergeAfter: 1})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Populate(t, st, 4, 300)
	if err := st.MergeSegments(ctx); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for _, b := range []struct {
		name, says string
		sql        []string
	}{
		{"index", "made the missing index change_item_ino", []string{`DROP INDEX change_item_ino`}},
		{"newest versions", "marked versions as the newest", []string{`UPDATE file_version SET past = 1`}},
		{"two newest", "moved versions to those of before", []string{`UPDATE file_version SET past = 0`}},
		{"unique index", "made the missing index file_version_id", []string{`DROP INDEX file_version_id`}},
		{"counter", "raised the counter of version", []string{`UPDATE counter SET next = 2 WHERE name = 'version'`}},
		{"count", "counted the changes", []string{`UPDATE timeline SET change_count = change_count + 3 WHERE hidden = 0`}},
		{"head", "raised the heads", []string{`UPDATE timeline SET head_seq = 1 WHERE id = 1`}},
		{"chain", "wrote the read path of timeline", []string{`UPDATE timeline SET chain = '[[1,1]]' WHERE id = ` + aFork}},
		{"segment", "gave up the hidden segment", []string{`DELETE FROM file_version WHERE timeline_id = ` + aSegment}},
		{"segment gone", "wrote the read path of timeline", []string{
			`DELETE FROM file_version WHERE timeline_id = ` + aSegment, `DELETE FROM file_node WHERE timeline_id = ` + aSegment,
			`DELETE FROM timeline WHERE id = ` + aSegment,
		}},
		{"tag", "removed tags", []string{`INSERT INTO tag VALUES (999, 't', 1, 1)`}},
		{"condemned", "forgot what was condemned", []string{`INSERT INTO blob_condemned VALUES (x'00', 1)`}},
		{"half a segment", "", []string{`INSERT INTO timeline VALUES (77777777, 1, 1, 1, 0, 0, 0, '[[1,1]]', 2)`, `UPDATE counter SET next = 99999999 WHERE name = 'timeline'`}},
		{"content of nothing", "contents that nothing names", []string{`INSERT INTO blob (hash, size, encoding, data, pack, pack_offset, pack_length)
			VALUES (x'` + strings.Repeat("ab", 32) + `', 1, 0, x'61', 0, 0, 1)`}},
	} {
		t.Run(b.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{MergeAfter: -1})
			if err != nil {
				t.Fatal(err)
			}
			before, err := st.Stats(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range b.sql {
				if err := st.Exec(ctx, q); err != nil {
					t.Fatal(err)
				}
			}
			did, err := st.Repair(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(did, "\n"), b.says) {
				t.Errorf("it did %q, not %q", did, b.says)
			}
			storetest.Check(t, st)
			after, err := st.Stats(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range []string{"workspace", "change", "change_item", "tag", "workspace_ref"} {
				if before.Rows[table] != after.Rows[table] {
					t.Errorf("table %s had %d rows, now %d", table, before.Rows[table], after.Rows[table])
				}
			}
			if did, err := st.Repair(context.Background()); err != nil || len(did) > 0 {
				t.Errorf("the second time it did %q, %v", did, err)
			}
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
