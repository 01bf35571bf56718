package main

import (
	"os"
	"path/filepath"
	"testing"
)

// checkUndo takes the saves from first on back one by one, as the session that made them, and makes them again: the path holds
// what the oracle says, each time.
func checkUndo(t *testing.T, s *mountedStore, o *oracle, first int) {
	t.Helper()
	dir := filepath.Join(s.mnt, o.dir)
	step := func(verb string, r int) {
		t.Helper()
		code, out, errOut := s.command(dir, o.dir, nil, "sh", "-c", `wsfs "$0" --yes; exit $?`, verb)
		if code != 0 {
			t.Fatalf("%s to save %d: exit %d\n%s%s", verb, r, code, out, errOut)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(b) != text(o.texts[r]) {
			t.Fatalf("%s to save %d: the file holds\n%s%v\nwant\n%s", verb, r, b, err, text(o.texts[r]))
		}
	}
	before := s.in(o.dir, "", "ls -A")
	for r := saves - 1; r >= first-1; r-- {
		step("undo", r)
	}
	if first == 1 {
		if code, out, _ := s.command(dir, o.dir, nil, "sh", "-c", `wsfs undo; exit $?`); code != 3 {
			t.Errorf("undo of what is undone already: exit %d, want 3\n%s", code, out)
		}
		if now := s.in(o.dir, "", "ls -A"); now != s.imported(o.dir) {
			t.Errorf("after undo of all the directory has\n%swant\n%s", now, s.imported(o.dir))
		}
	}
	for r := first; r <= saves; r++ {
		step("redo", r)
	}
	if now := s.in(o.dir, "", "ls -A"); now != before {
		t.Errorf("after redo of all the directory has\n%swant\n%s", now, before)
	}
}

// imported lists a directory of what was imported.
func (s *mountedStore) imported(dir string) string {
	_, out, _ := s.command(filepath.Join(s.src, dir), "", nil, "ls", "-A")
	return out
}
