package store_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"wsfs/store/sqlite"
)

// A kill in the middle of a checkpoint leaves a database file whose header names pages that are only in the log. That
// is no damage, and the store must open.
func TestKilledInCheckpoint(t *testing.T) {
	dir := newKillStore(t)
	acked := kill(t, dir, "committed#20", time.Minute)
	path := filepath.Join(dir, sqlite.File)
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if len(log) < 32 {
		t.Fatalf("a log of %d bytes", len(log))
	}
	// The log is a header of 32 bytes and frames of 24 bytes and a page; the first page carries the size.
	page := int(binary.BigEndian.Uint32(log[8:]))
	var first []byte
	for off := 32; off+24+page <= len(log); off += 24 + page {
		if binary.BigEndian.Uint32(log[off:]) == 1 {
			first = log[off+24 : off+24+page]
		}
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if first == nil || int64(binary.BigEndian.Uint32(first[28:]))*int64(page) <= st.Size() {
		t.Fatal("the database did not grow: the test tests nothing")
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(first, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	verify(t, dir, 0, acked, true)
}
