package fs_test

import (
	"os"
	"path/filepath"
	"testing"
)

func hostTree(t *testing.T, dir string) {
	t.Helper()
	for _, step := range []func() error{
		func() error { return os.Mkdir(filepath.Join(dir, "d"), 0o750) },
		func() error { return os.WriteFile(filepath.Join(dir, "d/f"), []byte("content"), 0o640) },
		func() error { return os.Link(filepath.Join(dir, "d/f"), filepath.Join(dir, "hard")) },
		func() error { return os.Symlink("d/f", filepath.Join(dir, "l")) },
		func() error { return os.WriteFile(filepath.Join(dir, "big"), make([]byte, 200_000), 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

func changeHostTree(t *testing.T, dir string) {
	t.Helper()
	for _, step := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "d/f"), []byte("changed"), 0o640) },
		func() error { return os.Remove(filepath.Join(dir, "l")) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}
