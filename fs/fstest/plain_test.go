package fstest_test

import (
	"os"
	"testing"

	"wsfs/fs/fstest"
)

// TestPlain runs the suite on a local file system: a failure here is a bug of the suite. On the disk only with WSFS_TEST_FULL=1:
// it says the same there and takes longer.
func TestPlain(t *testing.T) {
	for _, where := range []struct{ name, dir string }{
		{"disk", os.TempDir()},
		{"tmpfs", "/dev/shm"},
	} {
		t.Run(where.name, func(t *testing.T) {
			if where.name == "disk" && os.Getenv("WSFS_TEST_FULL") == "" {
				t.Skip("WSFS_TEST_FULL is not set: the suite runs on tmpfs only")
			}
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
