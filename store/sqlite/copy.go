package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	sqlite3 "modernc.org/sqlite"
)

// copyPages is how many pages are copied between two calls of progress.
const copyPages = 1024

// copyTo copies with SQLite's backup API, page by page, so that copies of one database are alike and programs that
// store equal parts of files once have little to store. The state is that of one reading transaction: without it, a
// commit between two steps would begin the copy again.
func copyTo(ctx context.Context, conn *sql.Conn, dir string, progress func(done, total int64) error) (err error) {
	path := filepath.Join(dir, File)
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() {
		_, e := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		err = errors.Join(err, e)
	}()
	var n int64
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil {
		return err // this begins to read
	}
	if err := makeFile(path); err != nil {
		return err
	}
	// Nobody sees the copy before it is whole: it needs no log of its own, and the caller syncs it.
	to := dsn(path, "rwc", nil, "journal_mode(OFF)", "synchronous(OFF)")
	if err := conn.Raw(func(c any) error { return copyPagesTo(c, to, progress) }); err != nil {
		return fmt.Errorf("copy the database to %s: %w", path, err)
	}
	// In write-ahead mode even a reader has to make files beside it.
	db, err := sql.Open("sqlite", dsn(path, "rw", url.Values{"_journal_mode": {"DELETE"}}, "synchronous(OFF)"))
	if err != nil {
		return err
	}
	var mode string
	err = db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
	if err == nil && mode != "delete" {
		err = fmt.Errorf("the copy %s stays in journal mode %s", path, mode)
	}
	return errors.Join(err, db.Close())
}

func copyPagesTo(c any, to string, progress func(done, total int64) error) error {
	src, ok := c.(interface {
		NewBackup(dst string) (*sqlite3.Backup, error)
	})
	if !ok {
		return errors.New("the driver's connection has no backup")
	}
	b, err := src.NewBackup(to)
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		if more, err = b.Step(copyPages); err == nil {
			total := int64(b.PageCount())
			err = progress((total-int64(b.Remaining()))*pageSize, total*pageSize)
		}
	}
	return errors.Join(err, b.Finish())
}

// makeFile makes an empty database that only its owner may read; SQLite gives the files beside it the same mode.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}
