package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// A store from somebody else, with links in it: nothing that they lead to is opened, made, changed or cut.
func TestLinksInAStore(t *testing.T) {
	good := filepath.Join(t.TempDir(), "store")
	if err := store.Init(t.Context(), good, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), good, sqlite.Driver(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Populate(t, st, 31, 30)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	for _, name := range []string{
		"lock", "wsfs.db", "wsfs.db-wal", "wsfs.db-shm", "packs", "packs/00000002.pack", "packs/00000001.pack", "journal", "journal/00000007.wj",
		"daemon.log", "mounts", "cache", "scratch", "backup.json", "next", "anything",
	} {
		for _, target := range []string{victim, outside, filepath.Join(outside, "absent")} {
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(dir, name)
			if err := errors.Join(os.RemoveAll(link), os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(target, link)); err != nil {
				t.Fatal(err)
			}
			for _, ro := range []bool{true, false} {
				st, err := store.Open(t.Context(), dir, sqlite.Driver(), store.Options{ReadOnly: ro})
				if err == nil {
					err = st.Close()
					t.Errorf("a store in which %s leads to %s opens (read-only %v), %v", name, target, ro, err)
				} else if !errors.Is(err, syscall.EINVAL) {
					t.Errorf("%s -> %s: %v, want EINVAL", name, target, err)
				}
			}
			text, err := os.ReadFile(victim)
			if list, derr := os.ReadDir(outside); err != nil || derr != nil || string(text) != "precious" || len(list) != 1 {
				t.Fatalf("%s -> %s: outside there is %v with %q (%v, %v)", name, target, list, text, err, derr)
			}
		}
	}
}

// Any value in any column: reading and checking the store may fail, but does not panic, hang or take memory without end.
func TestHostileRows(t *testing.T) {
	good := filepath.Join(t.TempDir(), "store")
	if err := store.Init(t.Context(), good, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), good, sqlite.Driver(), store.Options{Blob: blob.Options{PackSize: 64 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Populate(t, st, 32, 60)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	columns := columnsOf(t, good)
	rnd := rand.New(rand.NewPCG(33, 1))
	values := []string{
		"-1", "0", "1", "9223372036854775807", "-9223372036854775808", "4294967296", "1e300", "NULL", "'text'", "x'ff00'",
		"zeroblob(3000000)", "'[[1,1],[2,9223372036854775807]]'", "printf('%.*c', 100000, '[')", "x'ffffffffffffffffff01'",
	}
	rounds := 12
	if os.Getenv("WSFS_TEST_FULL") != "" {
		rounds = 60
	}
	t.Logf("%d spoilt stores; 60 with WSFS_TEST_FULL", rounds)
	for range rounds {
		col := columns[rnd.IntN(len(columns))]
		value := values[rnd.IntN(len(values))]
		table, name, _ := strings.Cut(col, ".")
		set := fmt.Sprintf("UPDATE OR IGNORE %s SET %s = %s", table, name, value)
		if rnd.IntN(2) == 0 {
			set += fmt.Sprintf(" WHERE %s = (SELECT max(%s) FROM %s)", name, name, table)
		}
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
			t.Fatal(err)
		}
		spoil(t, dir, set)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for _, ro := range []bool{true, false} {
			st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{ReadOnly: ro})
			if err != nil {
				continue
			}
			_ = st.CheckFiles(ctx, func(store.Problem) {}) // that it returns is what counts
			readEverything(ctx, st)
			if ro {
				_, _ = st.Backup(ctx, filepath.Join(t.TempDir(), "backup"), store.BackupOptions{})
			}
			_ = st.Close()
		}
		if ctx.Err() != nil {
			t.Errorf("%s: no end", set)
		}
		cancel()
	}
}

// columnsOf are the columns of all tables of a store that nobody has open, as TABLE.COLUMN.
func columnsOf(t *testing.T, dir string) (list []string) {
	t.Helper()
	db := database(t, dir)
	rows, err := db.QueryContext(t.Context(), `SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		list = append(list, name)
	}
	if err := rows.Err(); err != nil || len(list) < 50 {
		t.Fatalf("columns %v, %v", list, err)
	}
	return list
}

func database(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sqlite.Driver().Open(t.Context(), dir, store.ModeWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Reader.Close(); _ = db.Writer.Close() })
	return db.Writer
}

// spoil changes rows behind the store's back, and makes the database's file whole.
func spoil(t *testing.T, dir, query string) {
	t.Helper()
	db, err := sqlite.Driver().Open(t.Context(), dir, store.ModeWrite)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = db.Writer.ExecContext(t.Context(), query) // some break a constraint: then nothing is spoilt
	if err := errors.Join(db.Reader.Close(), db.Writer.Close()); err != nil {
		t.Fatal(err)
	}
}

// readEverything walks all workspaces with all contents.
func readEverything(ctx context.Context, st *store.Store) {
	list, err := st.Workspaces(ctx)
	if err != nil {
		return
	}
	buf := make([]byte, 1<<16)
	for _, ws := range list {
		v, err := st.ViewOf(ctx, ws)
		if err != nil {
			continue
		}
		left := 2000
		var walk func(dir store.Ino, depth int)
		walk = func(dir store.Ino, depth int) {
			var dirs []store.Ino
			_ = v.ReadDir(ctx, dir, func(n store.Name, ver *store.Version) error {
				if left--; left < 0 {
					return errors.New("enough")
				}
				if ver.IsDir() {
					dirs = append(dirs, n.Ino)
				} else {
					_, _ = st.Blobs().ReadAt(ctx, blob.Content{Ref: ver.Content, Size: ver.Size}, buf, 0)
				}
				return nil
			})
			for _, d := range dirs {
				if depth < 50 && left > 0 {
					walk(d, depth+1)
				}
			}
		}
		walk(store.RootIno, 0)
	}
}
