package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
)

// copyPages is how many pages are copied between two calls of progress.
const copyPages = 1024

// walFlags are the bytes of the database's header that say which kind of log it has: 1 none of its own, 2 one for writing ahead.
var walFlags = [2]int{18, 19}

// copyTo copies page by page, so that copies of one database are alike and programs that store equal parts of files once have little to
// store. The state is that of one reading transaction. SQLite itself would open the copy by its path, which somebody who can write to a
// directory above could have lead elsewhere; and in write-ahead mode even a reader has to make files beside it.
func copyTo(ctx context.Context, conn *sql.Conn, to io.Writer, progress func(done, total int64) error) (err error) {
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() {
		_, e := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		err = errors.Join(err, e)
	}()
	var total, done int64
	if err := conn.QueryRowContext(ctx, "SELECT page_count FROM pragma_page_count").Scan(&total); err != nil {
		return err // this begins to read
	}
	rows, err := conn.QueryContext(ctx, "SELECT pgno, data FROM sqlite_dbpage ORDER BY pgno")
	if err != nil {
		return err
	}
	defer rows.Close()
	w := bufio.NewWriterSize(to, 1<<20)
	for rows.Next() {
		var n int64
		var page sql.RawBytes
		if err := rows.Scan(&n, &page); err != nil {
			return err
		}
		if done++; n != done {
			return fmt.Errorf("page %d of %d has number %d", done, total, n)
		}
		if n == 1 {
			page = bytes.Clone(page)
			page[walFlags[0]], page[walFlags[1]] = 1, 1
		}
		if _, err := w.Write(page); err != nil {
			return err
		}
		if done%copyPages == 0 {
			if err := progress(done*pageSize, total*pageSize); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if done != total {
		return fmt.Errorf("the database has %d pages, %d could be read", total, done)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return progress(done*pageSize, total*pageSize)
}

// makeFile makes an empty database that only its owner may read; SQLite gives the files beside it the same mode.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}
