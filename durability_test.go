package wsfs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestDurabilityNamesTests: every test that docs/durability.md names is there.
func TestDurabilityNamesTests(t *testing.T) {
	page, err := os.ReadFile("docs/durability.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+) (Test[A-Za-z]+)`").FindAllSubmatch(page, -1)
	if len(named) < 30 {
		t.Fatalf("only %d tests are named", len(named))
	}
	for _, m := range named {
		dir, name := string(m[1]), string(m[2])
		if dir == "wsfs" {
			dir = "."
		}
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || regexp.MustCompile(`(?m)^func `+name+`\(t \*testing\.T\)`).Match(src)
		}
		if !found {
			t.Errorf("there is no %s in %s", name, dir)
		}
	}
}
