package store_test

import (
	"strings"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// Reading a whole timeline to find the names of one inode made a log of 17,000 entries take 7 s.
func TestHistoryPlans(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	drv := sqlite.Driver()
	if err := store.Init(ctx, dir, drv); err != nil {
		t.Fatal(err)
	}
	db, err := drv.Open(ctx, dir, store.ModeReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Reader.Close()
	for name, want := range map[string]string{
		"names of live": "USING COVERING INDEX file_node_ino (timeline_id=? AND ino=?)",
		"names of past": "USING INDEX file_node_history_ino (timeline_id=? AND ino=? AND seq<?)",
		"seq at":        "USING PRIMARY KEY (timeline_id=? AND seq<?)",
	} {
		q := store.HistoryQueries()[name]
		args := make([]any, strings.Count(q, "?"))
		for i := range args {
			args[i] = int64(1)
		}
		plan, err := drv.Plan(ctx, db.Reader, q, args...)
		if err != nil || !strings.Contains(plan, want) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: %v\n%s", name, err, plan)
		}
	}
}
