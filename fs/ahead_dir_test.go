package fs_test

import (
	"fmt"
	"testing"
	"time"

	"wsfs/fs"
)

// TestDirsAhead goes through a tree that memory does not have: the directories that come next are read beside it, some and
// not all, and hold what they should. One directory alone makes nothing else be read, nor do two that do not follow each other.
func TestDirsAhead(t *testing.T) {
	w := newWorld(t)
	const dirs = 60
	for d := range dirs {
		w.mkdir(fmt.Sprintf("d%02d", d))
		w.mkdir(fmt.Sprintf("d%02d/sub", d))
		w.write(fmt.Sprintf("d%02d/sub/f", d), fmt.Sprint(d))
	}
	w.reopen()
	names := func(d int) (list []string) {
		dir, err := w.fs.OpenDir(nil, w.walk(fmt.Sprintf("d%02d", d)).ID)
		w.must(err)
		defer dir.Close()
		w.must(dir.Read(nil, 0, func(e fs.DirEntry) bool { list = append(list, e.Name); return true }))
		return list
	}
	settle := func() int {
		t.Helper()
		for end := time.Now().Add(time.Minute); w.fs.ReadingAhead(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it reads for ever")
			}
		}
		return w.fs.Listed()
	}
	if names(0); settle() != 2 {
		t.Fatalf("%d listings after one directory, want it and the root", w.fs.Listed())
	}
	if names(30); settle() != 3 {
		t.Fatalf("%d listings after two directories far apart, want them and the root", w.fs.Listed())
	}
	names(31)
	if n := settle(); n < 8 || n > 30 {
		t.Fatalf("%d of %d directories are in memory after three of them were read", n, 2*dirs+1)
	}
	for d := range dirs {
		if got := fmt.Sprint(names(d)); got != "[. .. sub]" {
			t.Errorf("d%02d holds %s", d, got)
		}
		if got := w.read(fmt.Sprintf("d%02d/sub/f", d)); got != fmt.Sprint(d) {
			t.Errorf("file %d reads %q", d, got)
		}
	}
}
