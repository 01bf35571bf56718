package fstest_test

import (
	"os"
	"testing"

	"wsfs/fs/fstest"
)

// TestPlain runs the suite on local file systems: a failure here is a bug of the suite.
func TestPlain(t *testing.T) {
	for _, where := range []struct{ name, dir string }{
		{"disk", os.TempDir()},
		{"tmpfs", "/dev/shm"},
	} {
		t.Run(where.name, func(t *testing.T) {
			dir, err := os.MkdirTemp(where.dir, "fstest")
			if err != nil {
				t.Skipf("no directory on %s: %v", where.dir, err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			fstest.Run(t, dir, fstest.Options{BigDir: 5_000})
		})
	}
}
