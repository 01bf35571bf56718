package hosttree

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// swapping makes name in dir by turns a directory and a symbolic link to outside until the test ends.
func swapping(t *testing.T, dir, name, outside string) {
	t.Helper()
	a, b := filepath.Join(dir, name), filepath.Join(dir, name+".other")
	if err := os.Mkdir(a, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, b); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				t.Errorf("swap: %v", err)
				return
			}
		}
	}()
	t.Cleanup(func() { stop.Store(true); <-done })
}

// While somebody swaps a directory for a link to outside, nothing is written, made, removed or changed there.
func TestSwappedForALink(t *testing.T) {
	tree, dir := openTest(t)
	outside := t.TempDir()
	keep := filepath.Join(outside, "keep")
	if err := os.WriteFile(keep, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	swapping(t, dir, "d", outside)
	worked := map[string]int{}
	try := func(what string, err error) {
		if err == nil {
			worked[what]++
		}
	}
	end := time.Now().Add(500 * time.Millisecond)
	for i := 0; i < 300 || time.Now().Before(end); i++ {
		staged, err := tree.File(Attrs{Mode: 0o644, UID: -1, GID: -1}, fill("new"))
		if err != nil {
			t.Fatal(err)
		}
		try("put", tree.Put(staged, "d/file"))
		node, err := tree.Node(unix.S_IFIFO|0o666, 0)
		if err != nil {
			t.Fatal(err)
		}
		try("node", tree.Put(node, "d/keep"))
		try("chmod", tree.Chmod("d/keep", 0o777))
		try("mkdir", tree.Mkdir("d/made", -1, -1))
		try("rmdir", tree.Remove("d/made", true))
		try("remove", tree.Remove("d/keep", false))
		if same, err := tree.SameBytes("d/keep", 4, nil); same && err == nil {
			t.Fatal("a file outside was read")
		}
		names, err := os.ReadDir(outside)
		text, rerr := os.ReadFile(keep)
		st, serr := os.Stat(keep)
		if err != nil || rerr != nil || serr != nil || len(names) != 1 || string(text) != "keep" || st.Mode() != 0o600 {
			t.Fatalf("outside there is %v, %q with %v (%v, %v, %v)", names, text, st, err, rerr, serr)
		}
	}
	for _, what := range []string{"put", "node", "mkdir"} {
		if worked[what] == 0 {
			t.Errorf("%s never met the directory: %v", what, worked)
		}
	}
}

// What has another type than the mode says is left as it is: another link of some FIFO or device, say.
func TestChmodOfAnotherType(t *testing.T) {
	tree, dir := openTest(t)
	if err := unix.Mkfifo(filepath.Join(dir, "p"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tree.Chmod("p", unix.S_IFREG|0o666); !errors.Is(err, unix.EEXIST) {
		t.Errorf("chmod of a FIFO that should be a file: %v", err)
	}
	if st, err := os.Lstat(filepath.Join(dir, "p")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the FIFO has become %v (%v)", st.Mode(), err)
	}
	if err := tree.Chmod("p", unix.S_IFIFO|0o640); err != nil {
		t.Error(err)
	}
}
