// Package sqlite is the embedded database of a store: one file, wsfs.db, in write-ahead mode.
//
// It alone imports modernc.org/sqlite. What it keeps true: one connection writes, every other one is query-only; the
// write-ahead log is never checkpointed by a commit, only by Driver.Checkpoint; a database that a newer wsfs made, or
// that is not one of ours, is recognised before anything is opened for writing.
//
// Trap: this process must never open and close wsfs.db by other means than SQLite. Closing any descriptor of a file
// drops all POSIX locks that the process holds on it, those of the open connections included.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"wsfs/store"
)

const (
	// File is the database's name in a store's directory.
	File = "wsfs.db"
	// applicationID is "wsfs" in ASCII; file(1) shows it.
	applicationID = 0x77736673
	// pageSize: rows are small and many go to random places; 8192 wrote 40 % more for a new file.
	pageSize = 4096
	// logKept is what stays of the log's file once it is folded in. The length of the file tells when that is due again, so this
	// must be well below: at CheckpointBytes, every transaction after the first checkpoint came with one of its own.
	logKept = store.CheckpointBytes / 4
	// busyTimeout, in ms, is for what another process holds: sqlite3 on the command line, a backup.
	busyTimeout = 10_000
)

// Driver returns the hooks for package store.
func Driver() store.Driver {
	return store.Driver{
		Name: "sqlite",
		File: File,
		Types: store.Types{
			Int: "INTEGER", Serial: "INTEGER", Bytes: "BLOB", Text: "TEXT", Clustered: " WITHOUT ROWID",
		},
		Probe:      probe,
		Open:       open,
		Begin:      "BEGIN IMMEDIATE",
		Commit:     "COMMIT",
		Rollback:   "ROLLBACK",
		InsertInto: "INSERT OR ROLLBACK INTO", // no statement journal
		SetVersion: setVersion,
		Version:    version,
		Classify:   classify,
		Checkpoint: checkpoint,
		Bulk:       bulkConn,
		EmptyLog:   emptyLog,
		LogSize:    logSize,
		CopyTo:     copyTo,
		OpenFile:   openFile,
		Sync:       syncLog,
		Warm:       warm,
		Integrity:  integrity,
		Free:       free,
		Shrink:     shrink,
		Rebuild:    rebuild,
		Plan:       plan,
	}
}

// probe reads the header through a connection that takes no lock, makes no file and ignores the log. The header in
// the file itself is always good enough: migrations end with a checkpoint.
func probe(dir string) (int, error) {
	path := filepath.Join(dir, File)
	st, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if st.Size() == 0 {
		if logSize(dir) > 0 { // an interrupted Init: all is still in the log
			return 0, nil
		}
		return 0, fmt.Errorf("%s is empty: restore it from a backup, or remove it and make a new store: %w", path, store.ErrCorrupt)
	}
	// A checkpoint that was cut short leaves a header that names more pages than the file has, until the log, which has
	// them, is folded in again. writable_schema is what makes SQLite look at the header all the same.
	db, _, err := openDB(dsn(path, "ro", url.Values{"immutable": {"1"}}, "writable_schema(1)"))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var app, v int
	if err := db.QueryRow("PRAGMA application_id").Scan(&app); err != nil {
		if classify(err) == store.ClassCorrupt {
			return 0, fmt.Errorf("%s is no database any more (%w); restore it from a backup: %w", path, err, store.ErrCorrupt)
		}
		return 0, fmt.Errorf("read the header of %s: %w", path, err)
	}
	if err := db.QueryRow("PRAGMA user_version").Scan(&v); err != nil {
		return 0, fmt.Errorf("read the schema version of %s: %w", path, err)
	}
	if app != applicationID && (app != 0 || v != 0) {
		return 0, fmt.Errorf("%s has application id %#x: %w", path, app, store.ErrForeign)
	}
	return v, nil
}

func dsn(path, mode string, more url.Values, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_pragma": pragmas}
	for k, v := range more {
		q[k] = v
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

func open(ctx context.Context, dir string, mode store.Mode) (store.DB, error) {
	path := filepath.Join(dir, File)
	var db store.DB
	if mode != store.ModeReadOnly {
		m := "rw"
		if mode == store.ModeCreate {
			m = "rwc"
			if err := makeFile(path); err != nil && !errors.Is(err, os.ErrExist) {
				return db, err
			}
		}
		// The directory keeps others out; this does so where somebody has opened that. SQLite gives its other files the same mode.
		if st, err := os.Stat(path); err == nil && st.Mode().Perm()&0o077 != 0 {
			if err := os.Chmod(path, 0o600); err != nil && !errors.Is(err, syscall.EPERM) { // it may be somebody else's
				return db, err
			}
		}
		// The journal mode is not among the pragmas: it must come after page_size.
		w, k, err := openPool(ctx, dsn(path, m, url.Values{"_journal_mode": {"WAL"}, "_synchronous": {"NORMAL"}},
			fmt.Sprintf("busy_timeout(%d)", busyTimeout), fmt.Sprintf("page_size(%d)", pageSize), "auto_vacuum(2)", "wal_autocheckpoint(0)", "cache_size(-65536)",
			"temp_store(memory)", fmt.Sprintf("journal_size_limit(%d)", logKept)), 1)
		if err != nil {
			return db, fmt.Errorf("open %s: %w", path, err)
		}
		db.Writer = w
		if conn, err := w.Conn(ctx); err == nil {
			_ = conn.Raw(func(c any) error { k.log = gatherLog(c); return nil }) // it returns nil
			_ = conn.Close()                                                     // it goes back to the pool
		}
	}
	// Readers may create the -shm file, but never write the database: query_only, and they never checkpoint.
	pragmas := append([]string{fmt.Sprintf("busy_timeout(%d)", busyTimeout)}, readerPragmas()...)
	db.Readers = max(4, 2*runtime.NumCPU())
	r, _, err := openPool(ctx, dsn(path, "ro", nil, pragmas...), db.Readers)
	if err != nil {
		if db.Writer != nil {
			_ = db.Writer.Close() // the first error counts
		}
		return store.DB{}, fmt.Errorf("open %s for reading: %w", path, err)
	}
	db.Reader = r
	db.Conn = func() (store.Conn, error) { return openConn(dsn(path, "ro", nil)) }
	return db, nil
}

// readerPragmas are what every connection for reading begins with.
func readerPragmas() []string {
	return []string{"query_only(1)", "wal_autocheckpoint(0)", "cache_size(-16384)", "temp_store(memory)"}
}

func openPool(ctx context.Context, dsn string, conns int) (*sql.DB, *connector, error) {
	db, k, err := openDB(dsn)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	// A query that touches the file: opening alone reads nothing.
	var n int64
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil {
		_ = db.Close() // the first error counts
		return nil, nil, err
	}
	return db, k, nil
}

func setVersion(ctx context.Context, q store.Execer, version int) error {
	for _, p := range []string{
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", version),
	} {
		if _, err := q.ExecContext(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func version(ctx context.Context, q store.Queryer) (int, error) {
	var v int
	err := scanOne(ctx, q, "PRAGMA user_version", &v)
	return v, err
}

func scanOne(ctx context.Context, q store.Queryer, query string, dest ...any) error {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
	}
	return rows.Err()
}

func classify(err error) store.Class {
	var e interface { // *sqlite3.Error and *sqliteError
		error
		Code() int
	}
	if !errors.As(err, &e) {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return store.ClassFull
		}
		return store.ClassOther
	}
	switch e.Code() & 0xff { // the low byte is the primary code
	case 5, 6: // SQLITE_BUSY, SQLITE_LOCKED
		return store.ClassBusy
	case 13: // SQLITE_FULL
		return store.ClassFull
	case 11, 26: // SQLITE_CORRUPT, SQLITE_NOTADB
		return store.ClassCorrupt
	case 8: // SQLITE_READONLY
		return store.ClassReadOnly
	}
	return store.ClassOther
}

func checkpoint(ctx context.Context, q store.Queryer, wait time.Duration) (int64, error) {
	if wait > 0 {
		return truncateLog(ctx, q, wait)
	}
	var busy, pages, done int64
	if err := scanOne(ctx, q, "PRAGMA wal_checkpoint(PASSIVE)", &busy, &pages, &done); err != nil {
		return 0, err
	}
	return max(0, pages-done) * pageSize, nil
}

func emptyLog(ctx context.Context, q store.Queryer) error {
	_, err := truncateLog(ctx, q, 0)
	return err
}

// truncateLog waits for readers no longer than it is told, whatever the connection waits else.
func truncateLog(ctx context.Context, q store.Queryer, wait time.Duration) (left int64, err error) {
	var busy, pages, done, was int64
	if err := scanOne(ctx, q, fmt.Sprintf("PRAGMA busy_timeout(%d)", wait.Milliseconds()), &was); err != nil {
		return 0, err
	}
	err = scanOne(ctx, q, "PRAGMA wal_checkpoint(TRUNCATE)", &busy, &pages, &done)
	err = errors.Join(err, scanOne(ctx, q, fmt.Sprintf("PRAGMA busy_timeout(%d)", busyTimeout), &was))
	return max(0, pages-done) * pageSize, err
}

func logSize(dir string) int64 {
	st, err := os.Stat(filepath.Join(dir, File+"-wal"))
	if err != nil {
		return 0
	}
	return st.Size()
}

// syncLog makes commits durable without folding them in. If the log was restarted meanwhile, the checkpoint before
// that has synced the database. Only the main file carries locks, so opening the log by hand is safe.
func syncLog(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, File+"-wal"), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := syscall.Fdatasync(int(f.Fd())); err != nil {
		_ = f.Close() // the first error counts
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return f.Close()
}

func integrity(ctx context.Context, q store.Queryer, report func(string)) error {
	rows, err := q.QueryContext(ctx, "PRAGMA integrity_check(100)")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		if line != "ok" {
			report(line)
		}
	}
	return rows.Err()
}

func plan(ctx context.Context, q store.Queryer, query string, args ...any) (string, error) {
	rows, err := q.QueryContext(ctx, "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var id, parent, x int
		var detail string
		if err := rows.Scan(&id, &parent, &x, &detail); err != nil {
			return "", err
		}
		b.WriteString(detail + "\n")
	}
	return b.String(), rows.Err()
}
