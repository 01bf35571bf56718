package store

import (
	"os"
	"strings"
	"testing"
)

// TestMigrationSteps pins what the first release made: a step that changes would leave old stores different from new ones.
func TestMigrationSteps(t *testing.T) {
	steps := migrations(Types{Int: "INTEGER", Serial: "INTEGER", Bytes: "BLOB", Text: "TEXT", Clustered: " WITHOUT ROWID"})
	if len(steps) != SchemaVersion {
		t.Fatalf("%d steps lead to schema %d", len(steps), SchemaVersion)
	}
	const golden = "testdata/schema1.sql"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(steps[0], ";\n") + ";\n"; got != string(want) {
		t.Errorf("the step to schema 1 is no longer %s:\n%s", golden, got)
	}
	all := ""
	for _, step := range steps {
		all += strings.Join(step, "\n")
	}
	for _, tb := range schemaTables() {
		if n := strings.Count(all, "CREATE TABLE "+tb.name+" ("); n != 1 {
			t.Errorf("table %s is made by %d steps", tb.name, n)
		}
	}
}
