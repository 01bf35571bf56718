package fuse

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var echoFiles = flag.Int("echo.files", 1500, "how many files TestEchoMany moves")

// TestEchoMany moves a tree of many files that the kernel knows, away and back: all of it is there, or gone, when the
// move returns. The times are in its log.
func TestEchoMany(t *testing.T) {
	for _, c := range []struct {
		name  string
		dirs  int
		files int // changed, and not removed
		rm    string
	}{
		{"tree", *echoFiles / 520, 0, "rm -r t"},
		{"tree-in-a-known-directory", *echoFiles / 520, 0, "rm -r t/*"},
		{"flat", 1, 0, "rm t/1/*"},
		{"changed", 1, *echoFiles, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startStore(t, serveConfig{})
			for d := range c.dirs {
				dir := s.path(fmt.Sprintf("t/%d", d+1))
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				for f := range *echoFiles / c.dirs {
					write(t, filepath.Join(dir, fmt.Sprint(f)), "old")
				}
			}
			s.must("mark before")
			for f := range c.files {
				write(t, s.path(fmt.Sprintf("t/1/%d", f)), "new!")
			}
			if c.rm != "" {
				s.sh("find t | wc -l")
				c.rm = strings.ReplaceAll(c.rm, "t/1/*", "-r t/1; mkdir t/1")
				s.sh(c.rm)
			}
			s.must("mark after")
			w := watch(t, s.point)
			count := func(want string) {
				if got := s.sh(`find . -printf '%s\n' | sort | uniq -c | tr -s ' ' | sort -rn | head -2`); got != want && want != "" {
					t.Errorf("find sees\n%s\nand not\n%s", got, want)
				} else {
					t.Log(strings.ReplaceAll(got, "\n", ";"))
				}
			}
			for range 2 {
				for _, to := range []string{"before", "after"} {
					start := time.Now()
					s.must("move " + to)
					moved := time.Since(start)
					count("")
					t.Logf("%s: move %v, with find %v, %d events", to, moved, time.Since(start), len(w.events()))
				}
			}
			for _, l := range strings.Split(s.log.String(), "\n") {
				if strings.Contains(l, "told") {
					t.Log(l[strings.Index(l, "level"):])
				}
			}
		})
	}
}
