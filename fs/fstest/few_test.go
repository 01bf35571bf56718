package fstest_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFewDescriptors: a daemon that may open few files, with many large files being written, each of which wants a scratch
// file: who finds none free is told so (EMFILE, ENFILE), what was answered stays, and when others have closed theirs, it
// goes on as if nothing had been.
func TestFewDescriptors(t *testing.T) {
	w := newWorld(t)
	w.workspace("main")
	dir := filepath.Join(w.base, "few")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", `ulimit -n 80 && exec "$0" mount main "$1"`, *opt.wsfs, dir)
	cmd.Env = w.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mount with few descriptors: %v\n%s", err, out)
	}
	w.mounts = append(w.mounts, dir)
	data := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8), 'x'}, 400_000) }
	have, refused := map[int]*os.File{}, 0
	clear := func() {
		for i, f := range have {
			if err := f.Close(); err != nil {
				t.Errorf("close of file %d: %v", i, err)
			}
		}
	}
	for i := range 60 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("f%d", i)))
		if err == nil {
			if _, err = f.Write(data(i)); err == nil {
				have[i] = f
				continue
			}
			_ = f.Close()
		}
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			t.Fatalf("file %d: %v, want EMFILE or ENFILE", i, err)
		}
		refused++
	}
	t.Logf("%d files are open, %d were refused", len(have), refused)
	if refused == 0 || len(have) < 10 {
		t.Errorf("%d files are open, %d were refused: that tests nothing", len(have), refused)
	}
	// What needs no scratch file goes on meanwhile.
	small := filepath.Join(dir, "small")
	for i := range 20 {
		if err := os.WriteFile(small, []byte(fmt.Sprint(i)), 0o644); err != nil && !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			t.Errorf("small file: %v", err)
		}
	}
	for _, f := range have {
		if err := f.Sync(); err != nil && !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			t.Errorf("fsync: %v", err)
		}
	}
	clear()
	if err := os.WriteFile(filepath.Join(dir, "after"), data(7), 0o644); err != nil {
		t.Errorf("a large file when there is room again: %v", err)
	}
	check := func(when string) {
		t.Helper()
		for i := range have {
			if b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("f%d", i))); err != nil || !bytes.Equal(b, data(i)) {
				t.Errorf("%s: file %d has %d bytes that it should not have (%v)", when, i, len(b), err)
			}
		}
		if b, err := os.ReadFile(filepath.Join(dir, "after")); err != nil || !bytes.Equal(b, data(7)) {
			t.Errorf("%s: the last file has %d bytes that it should not have (%v)", when, len(b), err)
		}
	}
	check("closed")
	w.kill()
	tear(dir)
	w.remount("main", dir)
	check("after a kill")
}
