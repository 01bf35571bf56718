package storetest

import (
	"os"
	"strings"
	"testing"
)

// Schema3 is the statements that bring a store of schema 4 back to 3; golden is the file with the statements of schema 1.
func Schema3(t testing.TB, golden string) []string {
	t.Helper()
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	_, create, ok := strings.Cut(string(text), "CREATE TABLE file_version (")
	if !ok {
		t.Fatalf("%s has no table file_version", golden)
	}
	create, _, _ = strings.Cut(create, ";")
	var cols []string
	for c := range strings.SplitSeq(create, ",") {
		if name := strings.Fields(c)[0]; name != "PRIMARY" && name == strings.ToLower(name) && !strings.HasSuffix(name, ")") {
			cols = append(cols, name)
		}
	}
	list := strings.Join(cols, ", ")
	return []string{
		"DROP TABLE review", "DROP INDEX change_merged", "DROP INDEX conflict_open",
		"ALTER TABLE file_version RENAME TO file_version_4", "DROP INDEX file_version_id", "CREATE TABLE file_version (" + create,
		"INSERT INTO file_version (" + list + ") SELECT " + list + " FROM file_version_4", "DROP TABLE file_version_4",
		"CREATE UNIQUE INDEX file_version_id ON file_version(version_id) WHERE origin_timeline_id = 0",
		"DROP TABLE content_gone", "PRAGMA user_version = 3",
	}
}
