package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// gathered is a database with one table, whose connection gathers.
func gathered(t *testing.T, dir string, pragmas ...string) (*sql.DB, *sql.Conn, *connector) {
	t.Helper()
	path := filepath.Join(dir, "db")
	db, k, err := openPool(t.Context(), dsn(path, "rwc", url.Values{"_journal_mode": {"WAL"}, "_synchronous": {"NORMAL"}},
		append(pragmas, "page_size(4096)", "wal_autocheckpoint(0)")...), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	run(t, conn, "CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)")
	if err := conn.Raw(func(c any) error { k.log = gatherLog(c); return nil }); err != nil || k.log == nil {
		t.Fatalf("the connection does not gather: %v", err)
	}
	return db, conn, k
}

func run(t *testing.T, conn *sql.Conn, query string, args ...any) {
	t.Helper()
	if _, err := conn.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// Pages are written many at a time. A new version of the driver may hide its files elsewhere: then this test says so.
func TestGathers(t *testing.T) {
	_, conn, k := gathered(t, t.TempDir())
	commit := func() (writes int) {
		run(t, conn, "BEGIN IMMEDIATE")
		for range 500 {
			run(t, conn, "INSERT INTO t (v) VALUES (randomblob(3900))")
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := writeCalls(t)
		run(t, conn, "COMMIT")
		return writeCalls(t) - before
	}
	with := commit()
	k.log.most = 0
	without := commit()
	t.Logf("a commit of 500 pages: %d calls of write, %d if each page is written alone", with, without)
	if with == 0 || with*10 > without {
		t.Errorf("a commit of 500 pages took %d calls of write, and %d if each page is written alone", with, without)
	}
}

// writeCalls is how often this thread has written.
func writeCalls(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/io")
	if err != nil {
		t.Skip("the kernel does not count calls: ", err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if n, ok := strings.CutPrefix(line, "syscw: "); ok {
			calls, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			return calls
		}
	}
	t.Skip("the kernel does not count calls of write")
	return 0
}

// Random transactions with a cache so small that pages go to the log, are read again and written again before the end, with parts of them taken
// back: what another connection sees is what a map has, and so is what the files have that a kill leaves.
func TestGatheredTransactions(t *testing.T) {
	seeds, rounds := uint64(2), 24
	if os.Getenv("WSFS_TEST_FULL") != "" {
		seeds, rounds = 10, 60
	} else {
		t.Log("2 histories of 24 transactions, 10 of 60 with WSFS_TEST_FULL")
	}
	for seed := range seeds {
		dir := t.TempDir()
		_, conn, k := gathered(t, dir, "cache_size(12)")
		r := rand.New(rand.NewPCG(seed, 1))
		model := map[int][]byte{}
		change := func(to map[int][]byte) {
			for range r.IntN(120) {
				key, v := r.IntN(300), bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(6000))
				if r.IntN(5) == 0 {
					run(t, conn, "DELETE FROM t WHERE k = ?", key)
					delete(to, key)
					continue
				}
				run(t, conn, "INSERT INTO t VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v", key, v)
				to[key] = v
			}
		}
		clone := func(m map[int][]byte) map[int][]byte {
			c := make(map[int][]byte, len(m))
			for k, v := range m {
				c[k] = v
			}
			return c
		}
		for n := range rounds {
			run(t, conn, "BEGIN IMMEDIATE")
			next := clone(model)
			change(next)
			if r.IntN(3) == 0 {
				run(t, conn, "SAVEPOINT s")
				change(clone(next))
				run(t, conn, "ROLLBACK TO s")
			}
			change(next)
			if r.IntN(4) == 0 {
				run(t, conn, "ROLLBACK")
			} else {
				run(t, conn, "COMMIT")
				if k.log.n != 0 {
					t.Fatalf("seed %d, transaction %d: %d bytes are kept after its end", seed, n, k.log.n)
				}
				model = next
			}
			if r.IntN(10) == 0 {
				run(t, conn, "PRAGMA wal_checkpoint(PASSIVE)")
			}
			if n%6 == 5 {
				left := t.TempDir()
				if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				_ = os.Remove(filepath.Join(left, "db-shm")) // a kill leaves it, another machine does not have it
				for _, at := range []string{dir, left} {
					same(t, filepath.Join(at, "db"), model)
				}
			}
		}
	}
}

func same(t *testing.T, path string, model map[int][]byte) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var ok string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
		t.Fatalf("%s: %s, %v", path, ok, err)
	}
	rows, err := db.Query("SELECT k, v FROM t")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var k int
		var v []byte
		if err := rows.Scan(&k, &v); err != nil {
			t.Fatal(err)
		}
		if n++; !bytes.Equal(v, model[k]) {
			t.Fatalf("%s: row %d has %d bytes, the model %d", path, k, len(v), len(model[k]))
		}
	}
	if rows.Err() != nil || n != len(model) {
		t.Fatalf("%s: %d rows, the model has %d, %v", path, n, len(model), rows.Err())
	}
}
