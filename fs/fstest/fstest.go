// Package fstest is a POSIX suite for any directory: [Run] exercises a directory the way programs do and reports what a
// local Linux file system would have answered differently. It knows nothing of wsfs: run it on ext4 or tmpfs first (is
// the test right?), then on a mount.
//
// The suite is cut into areas (names, rename, locks, ...) so that a caller can run each one in a process of its own with
// a deadline: a file system that hangs then costs one area, not the run.
//
// Tests that need a second process, a second user, a umask or a working directory of their own use an agent: the test
// binary started again, doing system calls on request (see [Main]). Tests use raw system calls that do not retry, so an
// EINTR or a short write that POSIX does not allow is a failure.
package fstest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Options says what the directory is known to do differently. The zero value is a local file system in full size.
type Options struct {
	// Areas to run, by name; empty: all.
	Areas []string
	// BigDir is the number of entries of the large-directory test. 0 means 100,000.
	BigDir int
	// NoHoles: SEEK_HOLE and SEEK_DATA may report one extent of data for any file.
	NoHoles bool
}

func (o Options) bigDir() int {
	if o.BigDir == 0 {
		return 100_000
	}
	return o.BigDir
}

type test struct {
	name string
	fn   func(e *env)
}

// area is one group of tests that share a subject.
type area struct {
	name  string
	tests []test
}

func areas() []area {
	return []area{
		{"names", namesTests()},
		{"create", createTests()},
		{"io", ioTests()},
		{"holes", holeTests()},
		{"mmap", mmapTests()},
		{"rename", renameTests()},
		{"link", linkTests()},
		{"unlinked", unlinkedTests()},
		{"dir", dirTests()},
		{"special", specialTests()},
		{"tmpfile", tmpfileTests()},
		{"copy", copyTests()},
		{"xattr", xattrTests()},
		{"limits", limitsTests()},
		{"times", timesTests()},
		{"perm", permTests()},
		{"users", usersTests()},
		{"lock", lockTests()},
		{"sync", syncTests()},
		{"exec", execTests()},
		{"inotify", inotifyTests()},
		{"stable", stableTests()},
		{"parallel", parallelTests()},
		{"tools", toolsTests()},
	}
}

// Areas lists the names of all areas, in the order in which [Run] runs them.
func Areas() []string {
	var names []string
	for _, a := range areas() {
		names = append(names, a.name)
	}
	return names
}

// Run runs the suite in new subdirectories of dir, which must exist and be writable; each test removes its own. As root
// dir must be reachable by other users, or the tests of area "users" fail.
func Run(t *testing.T, dir string, o Options) {
	t.Helper()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{}
	for _, name := range o.Areas {
		wanted[name] = true
	}
	everything := len(wanted) == 0
	for _, a := range areas() {
		if !everything && !wanted[a.name] {
			continue
		}
		delete(wanted, a.name)
		t.Run(a.name, func(t *testing.T) {
			for _, tc := range a.tests {
				t.Run(tc.name, func(t *testing.T) {
					runOne(t, abs, tc, o)
				})
			}
		})
	}
	for name := range wanted {
		t.Errorf("fstest has no area %q; it has %s", name, strings.Join(Areas(), ", "))
	}
}

func runOne(t *testing.T, dir string, tc test, o Options) {
	sub, err := os.MkdirTemp(dir, strings.Map(plain, tc.name)+".")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, dir: sub, o: o}
	// Registered first, so it runs after every descriptor is closed and every agent is gone.
	t.Cleanup(func() {
		if err := removeAll(sub); err != nil && !t.Failed() {
			t.Errorf("clean up: %v", err)
		}
	})
	tc.fn(e)
}

func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

// removeAll removes a tree even where a test took away its own permissions.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	if err = os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
