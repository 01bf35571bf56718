package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite"

	"wsfs/store"
)

// A new version of the driver may hide its handle elsewhere: then connections are slower, and this test says so.
func TestWithoutMutex(t *testing.T) {
	c, err := sqlite3.NewConnector(t.TempDir() + "/db")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !withoutMutex(conn) {
		t.Fatal("the connection keeps its mutex")
	}
	if withoutMutex(conn) {
		t.Fatal("the mutex was taken away twice")
	}
	if withoutMutex(driver.Conn(nil)) {
		t.Fatal("nothing had a mutex")
	}
}

func testConn(t *testing.T) store.Conn {
	t.Helper()
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, Driver()); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(dsn(dir+"/"+File, "ro", nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Values come back as they were given: NULL is not nothing, and bytes are bytes.
func TestConnValues(t *testing.T) {
	c := testConn(t)
	long := bytes.Repeat([]byte("x\x00\xff"), 5000) // the memory for values has to grow
	for range 2 {
		n := 0
		err := c.Each(t.Context(), "SELECT ?, ?, ?, ?, ?, typeof(?), typeof(?), 1.5", []any{int64(-1) << 63, "text\x00", long, nil, []byte{}, []byte{}, []byte(nil)},
			func(r store.Row) error {
				n++
				if v, ok := r.Int(0); !ok || v != -1<<63 {
					t.Errorf("the number is %d, %t", v, ok)
				}
				for i, want := range map[int]string{1: "text\x00", 2: string(long), 3: "", 4: "", 5: "blob", 6: "null"} {
					if v, ok := r.Bytes(i); !ok || string(v) != want {
						t.Errorf("column %d is %.20q, %t", i, v, ok)
					}
				}
				if !r.Null(3) || r.Null(4) || r.Null(0) {
					t.Error("NULL is not where it should be")
				}
				if v, ok := r.Int(3); v != 0 || !ok {
					t.Errorf("NULL as a number is %d, %t", v, ok)
				}
				_, text := r.Int(1)
				_, number := r.Bytes(0)
				_, float := r.Int(7)
				if text || number || float {
					t.Error("a value was taken for one of another type")
				}
				return nil
			})
		if err != nil || n != 1 {
			t.Fatalf("%d rows, %v", n, err)
		}
	}
}

// What fails leaves the connection as good as new, and nothing is written through it.
func TestConnFails(t *testing.T) {
	c := testConn(t)
	none := func(store.Row) error { return nil }
	numbers := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n"
	mine := errors.New("mine")
	rows := 0
	if err := c.Each(t.Context(), numbers, []any{int64(1000)}, func(store.Row) error {
		if rows++; rows < 10 {
			return nil
		}
		return mine
	}); !errors.Is(err, mine) || rows != 10 {
		t.Errorf("%v after %d rows", err, rows)
	}
	for _, query := range []string{"SELECT nothing FROM nowhere", "CREATE TABLE x(y)", "DELETE FROM timeline"} {
		if err := c.Each(t.Context(), query, nil, none); err == nil {
			t.Errorf("%s went well", query)
		}
	}
	if err := c.Each(t.Context(), "DELETE FROM timeline", nil, none); classify(err) != store.ClassReadOnly {
		t.Errorf("%v is of class %d", err, classify(err))
	}
	if err := c.Each(t.Context(), numbers, nil, none); err == nil {
		t.Error("a parameter without a value was taken")
	}
	if err := c.Each(t.Context(), numbers, []any{3.5}, none); err == nil {
		t.Error("a value of a type that is none of SQLite's was taken")
	}
	if err := c.Each(t.Context(), numbers, []any{int64(1)}, func(store.Row) error { return c.Each(t.Context(), "SELECT 1", nil, none) }); err == nil {
		t.Error("a connection that answers took another question")
	}
	rows = 0
	if err := c.Each(t.Context(), numbers, []any{int64(5)}, func(store.Row) error { rows++; return nil }); err != nil || rows != 5 {
		t.Errorf("%v after %d rows", err, rows)
	}
}

// The end of a context ends a query that gives no row, and not the next one.
func TestConnInterrupted(t *testing.T) {
	c := testConn(t)
	endless := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Each(ctx, endless, nil, func(store.Row) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := c.Each(ctx, "SELECT 1", nil, func(store.Row) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	for range 1000 { // the end of a context meets the end of its query
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if err := c.Each(ctx, "SELECT 1", nil, func(store.Row) error { return nil }); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		n := 0
		if err := c.Each(t.Context(), "SELECT 1", nil, func(store.Row) error { n++; return nil }); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}
}
