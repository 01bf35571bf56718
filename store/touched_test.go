package store_test

import (
	"strings"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// A diff costs what changed: no query of it may walk a table.
func TestTouchedPlans(t *testing.T) {
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
	want := map[string][]string{
		"touched":        {"i USING PRIMARY KEY (timeline_id=? AND seq>? AND seq<?)"},
		"touched by":     {"c USING", "change_command (command_id=? AND timeline_id=? AND seq>? AND seq<?)", "i USING PRIMARY KEY (timeline_id=? AND seq=?)"},
		"touched except": {"c USING PRIMARY KEY (timeline_id=? AND seq>? AND seq<?)", "i USING PRIMARY KEY (timeline_id=? AND seq=?)"},
		"versions before": {
			"v USING INDEX file_version_id (version_id=?)", "c USING PRIMARY KEY (timeline_id=? AND seq=?)",
		},
		"lineage":         {"timeline USING INTEGER PRIMARY KEY (rowid=?)", "t USING INTEGER PRIMARY KEY (rowid=?)"},
		"command at":      {"c USING PRIMARY KEY (timeline_id=? AND seq=?)"},
		"commands by id":  {"c USING INTEGER PRIMARY KEY (rowid=?)"},
		"processes by id": {"p USING INTEGER PRIMARY KEY (rowid=?)", "u USING INTEGER PRIMARY KEY (rowid=?)"},
		"changes at":      {"c USING PRIMARY KEY (timeline_id=? AND seq=?)"},
	}
	for name, query := range store.TouchedQueries(16) {
		args := make([]any, strings.Count(query, "?"))
		for i := range args {
			args[i] = int64(1)
		}
		plan, err := drv.Plan(ctx, db.Reader, query, args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, w := range want[name] {
			if !strings.Contains(plan, w) {
				t.Errorf("%s: the plan does not use %q:\n%s", name, w, plan)
			}
		}
		if len(want[name]) == 0 || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "AUTOMATIC") {
			t.Errorf("%s: not expected, or it sorts:\n%s", name, plan)
		}
	}
}
