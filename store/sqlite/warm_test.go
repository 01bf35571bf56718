package sqlite

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"wsfs/store"
)

// The database is read ahead through a descriptor that is open already, and none is opened or closed for it.
func TestWarm(t *testing.T) {
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, Driver()); err != nil {
		t.Fatal(err)
	}
	if err := warm(dir); err == nil {
		t.Fatal("a database that nobody has open was read")
	}
	c, err := openConn(dsn(filepath.Join(dir, File), "ro", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	next := func() int {
		fd, err := unix.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fd)
		return fd
	}
	before := next()
	if err := warm(dir); err != nil {
		t.Fatal(err)
	}
	if after := next(); after != before {
		t.Errorf("the next descriptor was %d and is %d", before, after)
	}
}
