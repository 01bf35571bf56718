// Package wsfs_test holds the rules of the whole tree: who may import whom, and how long a file may be.
package wsfs_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// maxLines is the longest that a file may be.
const maxLines = 600

// layers says for each package which of ours it may import ("*": all); a package that is not named may import none.
// Names below internal/, cmd/ and store/ inherit from nobody.
func layers() map[string][]string {
	return map[string][]string{
		"blob":              {},
		"internal/ui":       {},
		"internal/diff":     {},
		"internal/report":   {"store", "versions", "internal/ui"},
		"internal/control":  {"fs", "store", "versions", "internal/report", "internal/ui"},
		"store":             {"blob"},
		"store/sqlite":      {"store"},
		"versions":          {"store", "blob", "internal/diff"},
		"fs":                {"store", "blob", "internal/diff"},
		"fs/fuse":           {"fs", "store"},
		"fs/fstest":         {},
		"internal/proc":     {"store"},
		"internal/keep":     {},
		"internal/hosttree": {"blob"},
		"internal/runner":   {"internal/daemon"},
		"internal/daemon": {
			"blob", "store", "store/sqlite", "versions", "fs", "fs/fuse", "internal/keep", "internal/proc", "internal/hosttree", "internal/diff", "internal/ui", "internal/control", "internal/report",
		},
		"store/storetest":  {"store", "blob"},
		"blob/blobtest":    {"blob"},
		"cmd/wsfs":         {"*"},
		"scripts/loopback": {},
		"scripts/age":      {"fs", "store", "store/sqlite"},
		"scripts/floor":    {"fs/fuse"},
	}
}

// alone names modules that one package of the tree may import, and who that is.
func alone() map[string]string {
	return map[string]string{
		"modernc.org/sqlite":        "store/sqlite",
		"github.com/spf13/cobra":    "cmd/wsfs",
		"github.com/jackc/pgx":      "store/postgres",
		"github.com/minio/minio-go": "blob/s3",
		"github.com/vbauerster/mpb": "internal/ui",
	}
}

type source struct {
	path, pkg string
	text      []byte
	imports   []string
}

// sources reads every Go file of the tree.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || path.Ext(p) != ".go":
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		s := source{path: p, pkg: path.Dir(p), text: text}
		for _, imp := range f.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, name)
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d Go files were found", len(all))
	}
	return all
}

// TestImports enforces the layers. Tests may import more of ours (a real store behind a live workspace), never upwards
// into cmd.
func TestImports(t *testing.T) {
	rules, single := layers(), alone()
	for _, s := range sources(t) {
		allowed, known := rules[s.pkg]
		if !known && s.pkg != "." {
			t.Errorf("%s: package %s has no rule in deps_test.go: decide whom it may import", s.path, s.pkg)
			continue
		}
		test := strings.HasSuffix(s.path, "_test.go")
		for _, imp := range s.imports {
			if ours, yes := strings.CutPrefix(imp, "wsfs/"); yes {
				if strings.HasPrefix(ours, "cmd/") {
					t.Errorf("%s imports %s", s.path, imp)
				}
				if !test && !permits(allowed, ours) {
					t.Errorf("%s imports %s: package %s may import %v", s.path, imp, s.pkg, allowed)
				}
				continue
			}
			for module, owner := range single {
				if (imp == module || strings.HasPrefix(imp, module+"/")) && s.pkg != owner && !test {
					t.Errorf("%s imports %s, which only %s may", s.path, imp, owner)
				}
			}
		}
	}
}

func permits(allowed []string, pkg string) bool {
	for _, a := range allowed {
		if a == "*" || a == pkg {
			return true
		}
	}
	return false
}

// TestEnvironment keeps the environment, printing and exiting out of library packages.
func TestEnvironment(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") || strings.HasPrefix(s.pkg, "cmd/") || strings.HasPrefix(s.pkg, "scripts/") {
			continue
		}
		for _, word := range []string{"os.Getenv(", "os.LookupEnv(", "os.Exit(", "fmt.Print(", "fmt.Println(", "fmt.Printf(", "func init()"} {
			for i, line := range bytes.Split(s.text, []byte("\n")) {
				code, _, _ := bytes.Cut(line, []byte("//"))
				if bytes.Contains(code, []byte(word)) {
					t.Errorf("%s:%d: %s in a library package", s.path, i+1, word)
				}
			}
		}
	}
}

// TestFileLength keeps files readable.
func TestFileLength(t *testing.T) {
	for _, s := range sources(t) {
		if n := bytes.Count(s.text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, at most %d are allowed: split it by subject", s.path, n, maxLines)
		}
	}
}
