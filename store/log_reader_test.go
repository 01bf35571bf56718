package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"syscall"
	"testing"
	"time"

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
	group := func() { t.Helper(); s.bulky(t, &n) }
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

// bulky makes some 4 MiB of the database's log: a group of 60 changes, which it counts.
func (s *small) bulky(t *testing.T, n *int) {
	t.Helper()
	for range 60 {
		*n++
		op := s.op(store.OpCreate)
		v := store.Version{Ino: s.st.NewIno(), Mode: syscall.S_IFREG | 0o644, Nlink: 1, Xattrs: map[string][]byte{"user.x": make([]byte, 60_000)}}
		op.Names = []store.Name{{Parent: 1, Name: fmt.Sprint("file", *n), Ino: v.Ino, Type: syscall.S_IFREG}}
		s.version(op, &v)
		s.version(op, &s.root)
	}
	s.flush(t)
}

// When the log is so long that readers are waited for, somebody else's reader keeps no writer for long, however long he reads. (With the
// patience of other calls, each of these takes ten seconds.)
func TestForeignReaderIsNotWaitedFor(t *testing.T) {
	ctx := t.Context()
	drv := sqlite.Driver()
	size, fold := drv.LogSize, drv.Checkpoint
	drv.LogSize = func(dir string) int64 { return 256 * size(dir) } // so that 2 MiB are as many as 512
	var waited []time.Duration
	drv.Checkpoint = func(ctx context.Context, q store.Queryer, wait time.Duration) (int64, error) {
		start := time.Now()
		left, err := fold(ctx, q, wait)
		if wait > 0 && left > 0 { // in vain
			waited = append(waited, time.Since(start))
		}
		return left, err
	}
	st := storetest.New(t, drv, store.Options{})
	s := newSmall(t, st)
	n := 0
	s.bulky(t, &n)
	onDatabase(t, st.Dir(), func(db *sql.DB) {
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, q := range []string{"BEGIN", "SELECT count(*) FROM file_node"} {
			if _, err := conn.ExecContext(ctx, q); err != nil {
				t.Fatal(err)
			}
		}
		for len(waited) < 2 {
			if s.bulky(t, &n); n > 3000 {
				t.Fatalf("%d changes beside a reader, a log of %d bytes, and readers were waited for %d times", n, size(st.Dir()), len(waited))
			}
		}
	})
	for _, d := range waited {
		if d > 5*time.Second {
			t.Errorf("writers waited for %v", waited)
			break
		}
	}
	t.Logf("%d changes; readers were waited for: %v", n, waited)
	waited = nil
	if left, err := st.Checkpoint(ctx, true); err != nil || left != 0 || size(st.Dir()) != 0 {
		t.Errorf("without the reader, of the log are left %d bytes in a file of %d (%v)", left, size(st.Dir()), err)
	}
}
