package store_test

import (
	"strings"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// The plans of every query on the way of a file operation, and of the log. Each has been wrong once, here or in a
// prototype: a wrong one is right on ten rows and takes minutes on a million.
func TestPlans(t *testing.T) {
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
		// Trap: with an index on (timeline_id, seq) SQLite chose it for reading a directory, 214 ms instead of 0.05.
		"dir head":   {"f USING PRIMARY KEY (timeline_id=? AND parent_ino=?)"},
		"dir live":   {"f USING PRIMARY KEY (timeline_id=? AND parent_ino=?)"},
		"dir past":   {"h USING INDEX file_node_history_end (timeline_id=? AND parent_ino=? AND end_seq>?)"},
		"names live": {"f USING PRIMARY KEY (timeline_id=? AND parent_ino=? AND name=?)"},
		"names past": {
			"h USING PRIMARY KEY (timeline_id=? AND parent_ino=? AND name=? AND seq=?)",
			"g USING PRIMARY KEY (timeline_id=? AND parent_ino=? AND name=? AND seq<?)",
		},
		"versions": {"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino=?)"},
		"versions past": {
			"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino=? AND seq=?)", "w USING PRIMARY KEY (timeline_id=? AND past=? AND ino=? AND seq<?)",
		},
		"places":     {"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino=?)"},
		"newest":     {"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino=?)"},
		"supersede":  {"file_version USING PRIMARY KEY (timeline_id=? AND past=? AND ino=?)"},
		"state live": {"v USING PRIMARY KEY (timeline_id=? AND past=?)"},
		"state past": {
			"v USING PRIMARY KEY (timeline_id=? AND past=?)", "w USING PRIMARY KEY (timeline_id=? AND past=? AND ino=? AND seq<?)",
			"l USING PRIMARY KEY (timeline_id=? AND past=? AND ino=? AND seq<?)",
		},
		"newest past":  {"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino=? AND seq=?)"},
		"all versions": {"v USING PRIMARY KEY (timeline_id=? AND past=? AND (ino,seq)>(?,?))", "w USING PRIMARY KEY (timeline_id=? AND past=? AND (ino,seq)>(?,?))"},
		"remove names": {"file_node USING PRIMARY KEY (timeline_id=? AND parent_ino=? AND name=?)"},
		"ino live":     {"f USING COVERING INDEX file_node_ino (timeline_id=? AND ino=?)"},
		"ino past":     {"h USING INDEX file_node_history_ino (timeline_id=? AND ino=? AND seq<?)"},
		"seq at":       {"c USING PRIMARY KEY (timeline_id=? AND seq<?)"},
		"items": {
			"i USING PRIMARY KEY (timeline_id=? AND seq=?)", "v USING PRIMARY KEY (timeline_id=? AND past=? AND ino=? AND seq=?)",
			"b USING INDEX file_version_id (version_id=?)",
		},
		"inos in":        {"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino>? AND ino<?)"},
		"stands on":      {"w USING INDEX workspace_timeline (timeline_id=?)"},
		"based on":       {"workspace USING INDEX workspace_base (base_timeline_id=?)"},
		"version by id":  {"v USING INDEX file_version_id (version_id=?)"},
		"merge versions": {"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino>? AND ino<?)", "h USING PRIMARY KEY (timeline_id=? AND past=? AND ino=?)"},
		"merge versions past": {
			"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino>? AND ino<?)", "w USING PRIMARY KEY (timeline_id=? AND past=? AND ino=? AND seq<?)",
			"l USING PRIMARY KEY (timeline_id=? AND past=? AND ino=? AND seq<?)", "h USING PRIMARY KEY (timeline_id=? AND past=? AND ino=?)",
		},
		"merge live": {
			"f USING PRIMARY KEY (timeline_id=? AND parent_ino>? AND parent_ino<?)",
			"h USING PRIMARY KEY (timeline_id=? AND parent_ino=? AND name=?)",
		},
		"merge past": {
			"f USING PRIMARY KEY (timeline_id=? AND parent_ino>? AND parent_ino<?)",
			"h USING PRIMARY KEY (timeline_id=? AND parent_ino=? AND name=?)",
		},
		"steps":                   {"c USING PRIMARY KEY (timeline_id=? AND seq>? AND seq<?)", "i USING PRIMARY KEY (timeline_id=? AND seq=?)"},
		"log of steps by command": {"x USING COVERING INDEX change_command (command_id=? AND timeline_id=? AND seq>? AND seq<?)"},
		"log of steps by session": {"x USING COVERING INDEX change_session (session_id=? AND timeline_id=? AND seq>? AND seq<?)"},
		"versions in":             {"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino>? AND ino<?)"},
		"version at":              {"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino=?)"},
		"version past":            {"v USING PRIMARY KEY (timeline_id=? AND past=? AND ino=? AND seq<?)"},
		"step ends":               {"a USING PRIMARY KEY (timeline_id=? AND seq>? AND seq<?)", "b USING PRIMARY KEY (timeline_id=? AND seq>? AND seq<?)"},
		"step heads":              {"c USING PRIMARY KEY (timeline_id=? AND seq>? AND seq<?)"},
		"step items":              {"i USING PRIMARY KEY (timeline_id=? AND (seq,n)>(?,?) AND seq<?)"},
		"step versions": {
			"i USING PRIMARY KEY (timeline_id=? AND (seq,n)>(?,?) AND seq<?)", "v USING PRIMARY KEY (timeline_id=? AND past=? AND ino=? AND seq=?)",
		},
		"versions by id":  {"v USING INDEX file_version_id (version_id=?)"},
		"has blobs":       {"b USING COVERING INDEX blob_hash (hash=?)"},
		"command stretch": {"x USING COVERING INDEX change_command (command_id=? AND timeline_id=? AND seq>? AND seq<?)"},
		"other before":    {"c USING PRIMARY KEY (timeline_id=? AND seq>? AND seq<?)"},
		"undone":          {"u USING PRIMARY KEY (timeline_id=? AND seq>? AND seq<?)"},
		"locate":          {"b USING INDEX blob_hash (hash=?)"},
		"locate in":       {"b USING INDEX blob_hash (hash=?)"},
		"log":             {"c USING PRIMARY KEY (timeline_id=? AND seq>? AND seq<?)"},
		"log of session": {
			"x USING COVERING INDEX change_session (session_id=? AND timeline_id=? AND seq>? AND seq<?)",
			"c USING PRIMARY KEY (timeline_id=? AND seq=?)",
		},
		"log of command": {
			"x USING COVERING INDEX change_command (command_id=? AND timeline_id=? AND seq>? AND seq<?)",
			"c USING PRIMARY KEY (timeline_id=? AND seq=?)",
		},
		"log of inode": {
			"x USING COVERING INDEX change_item_ino (timeline_id=? AND ino=? AND seq>? AND seq<?)",
			"c USING PRIMARY KEY (timeline_id=? AND seq=?)",
		},
		// Trap: by the items of the directory it read all that had ever happened there.
		"log of name": {
			"f USING PRIMARY KEY (timeline_id=? AND parent_ino=? AND name=?)",
			"h USING PRIMARY KEY (timeline_id=? AND parent_ino=? AND name=? AND seq<?)",
			"c USING PRIMARY KEY (timeline_id=? AND seq=?)",
		},
		"log of directory": {
			"x USING COVERING INDEX change_item_name (timeline_id=? AND parent_ino=? AND seq>? AND seq<?)",
			"x USING COVERING INDEX change_item_from (timeline_id=? AND from_parent_ino=? AND seq>? AND seq<?)",
			"c USING PRIMARY KEY (timeline_id=? AND seq=?)",
		},
	}
	queries := store.Queries(16)
	for name, query := range queries {
		args := make([]any, strings.Count(query, "?"))
		for i := range args {
			args[i] = int64(1)
		}
		plan, err := drv.Plan(ctx, db.Reader, query, args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for line := range strings.Lines(plan) {
			line = strings.TrimSpace(line)
			// A log sorts one page. Only the keys of a query may be scanned.
			sorts := strings.Contains(line, "TEMP B-TREE") && !strings.HasPrefix(name, "log of")
			scans := strings.HasPrefix(line, "SCAN ") && line != "SCAN k" && !strings.Contains(line, "CONSTANT ROW") && !strings.Contains(line, "VALUES CLAUSE")
			if sorts || scans || strings.Contains(line, "AUTOMATIC") {
				t.Errorf("%s: %s:\n%s", name, line, plan)
			}
		}
		// A name costs what happened to it, not what happened in its directory, but where history was collected. Trap: with
		// another bound beside it SQLite looks for that one, and reads all to the end.
		collected := "x USING COVERING INDEX change_item_name (timeline_id=? AND parent_ino=? AND seq>? AND seq<?)"
		if name == "log of name" && (strings.Count(plan, "change_item") != 1 || !strings.Contains(plan, collected) ||
			!strings.Contains(query, "x.seq > ? AND x.seq <= min(?, (SELECT gc_seq ")) {
			t.Errorf("%s reads items:\n%s", name, plan)
		}
		for _, w := range want[name] {
			if !strings.Contains(plan, w) {
				t.Errorf("%s: the plan does not use %q:\n%s", name, w, plan)
			}
		}
	}
	for name := range want {
		if queries[name] == "" {
			t.Errorf("there is no query %q", name)
		}
	}
}
