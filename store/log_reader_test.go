package store_test

import (
	"database/sql"
	"fmt"
	"syscall"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// Trap (s55): somebody's sqlite3 holds a read transaction, and the database's log grows, since nothing can be folded in that he does not
// see. Changes go on all the while, he sees one state, and when he goes so does the log: it is not rewritten from its end on for ever,
// nor folded in anew for each group because its file stays long. (No reader of ours is such a one: TestViewsDoNotStarveCheckpoints.)
func TestLogBesideForeignReader(t *testing.T) {
	ctx := t.Context()
	drv := sqlite.Driver()
	size := drv.LogSize
	drv.LogSize = func(dir string) int64 { return 2 * size(dir) } // so that half of it does
	st := storetest.New(t, drv, store.Options{})
	s := newSmall(t, st)
	n := 0
	group := func() { // some 4 MiB of log
		t.Helper()
		for range 60 {
			n++
			op := s.op(store.OpCreate)
			v := store.Version{Ino: s.st.NewIno(), Mode: syscall.S_IFREG | 0o644, Nlink: 1, Xattrs: map[string][]byte{"user.x": make([]byte, 60_000)}}
			op.Names = []store.Name{{Parent: 1, Name: fmt.Sprint("file", n), Ino: v.Ino, Type: syscall.S_IFREG}}
			s.version(op, &v)
			s.version(op, &s.root)
		}
		s.flush(t)
	}
	group()
	onDatabase(t, st.Dir(), func(db *sql.DB) {
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		count := func() (n int) {
			t.Helper()
			if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM file_node").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
			t.Fatal(err)
		}
		before := count()
		for st.LogSize() < store.CheckpointBytes*3/2 {
			group()
			if n > 6000 {
				t.Fatalf("the log has %d bytes after %d changes beside a reader: this tells nothing", st.LogSize(), n)
			}
		}
		if got := count(); got != before || before != 60 {
			t.Errorf("a reader finds %d names and then %d", before, got)
		}
		if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
			t.Fatal(err)
		}
	})
	with := n
	for least := int64(store.CheckpointBytes); least > store.CheckpointBytes/2; least = min(least, st.LogSize()) {
		group()
		if n-with > 3000 {
			t.Fatalf("the reader has gone, and %d changes later the log still has %d bytes", n-with, st.LogSize())
		}
	}
	if rows, err := st.Count(ctx, "SELECT count(*) FROM file_node"); err != nil || int(rows) != n {
		t.Errorf("%d names, %v, want %d", rows, err, n)
	}
}
