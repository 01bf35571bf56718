package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// However much is logged, two files of bounded size are left, and the last lines are in them, whole.
func TestLogIsBounded(t *testing.T) {
	dir := t.TempDir()
	l, err := openLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	l.max = 1000
	line := strings.Repeat("x", 99) + "\n"
	for range 1000 {
		if _, err := l.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Write([]byte("last\n")); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var all []byte
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v: want the log and the one before", entries, err)
	}
	for _, name := range []string{l.path + ".1", l.path} {
		b, err := os.ReadFile(name)
		if st, serr := os.Stat(name); err != nil || serr != nil || len(b) > 1000 || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, %v, %v", name, len(b), err, serr)
		}
		all = append(all, b...)
	}
	if !bytes.HasSuffix(all, []byte(line+"last\n")) || len(all)%100 != 5 {
		t.Errorf("%d bytes, the end is %q", len(all), all[max(0, len(all)-20):])
	}
	// A link in its place is not followed.
	if err := os.Remove(l.path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(l.path+".1", l.path); err != nil {
		t.Fatal(err)
	}
	if l, err := openLog(dir); err == nil {
		_ = l.Close()
		t.Error("a link is followed")
	}
}
