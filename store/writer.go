package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
)

// writer is the one writing connection. mu is held for a whole transaction; the applier, the id blocks and
// checkpoints take turns.
type writer struct {
	drv  *Driver
	mu   sync.Mutex
	db   *sql.DB
	conn *sql.Conn
	bulk Conn // the same connection, for statements with many rows. Guarded by mu.
	// stmts are prepared once, by query text. Guarded by mu.
	stmts map[string]*sql.Stmt
}

func newWriter(ctx context.Context, drv *Driver, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{drv: drv, db: db, conn: conn, stmts: make(map[string]*sql.Stmt)}
	err = conn.Raw(func(c any) (err error) {
		w.bulk, err = drv.Bulk(c)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return w, nil
}

func (w *writer) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	errs := []error{w.bulk.Close()}
	for _, st := range w.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

// tx runs fn in one write transaction. A transaction is never interrupted half way: ctx only carries values.
func (w *writer) tx(ctx context.Context, fn func(ctx context.Context) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	if _, err := w.exec(ctx, w.drv.Begin); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err := fn(ctx)
	if err == nil {
		if _, err = w.exec(ctx, w.drv.Commit); err == nil {
			return nil
		}
		err = fmt.Errorf("commit: %w", err)
	}
	// After some failures (disk full) the database has rolled back by itself; then this is an error and harmless.
	_, _ = w.exec(ctx, w.drv.Rollback)
	return err
}

func (w *writer) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := w.stmts[query]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(ctx, w.drv.rebind(query))
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", short(query), err)
	}
	w.stmts[query] = st
	return st, nil
}

func (w *writer) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := w.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	r, err := st.ExecContext(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", short(query), err)
	}
	return r, nil
}

func (w *writer) each(ctx context.Context, query string, args []any, scan func(result) error) error {
	st, err := w.prepare(ctx, query)
	if err != nil {
		return err
	}
	return eachOf(ctx, st, args, scan)
}

func (d *Driver) rebind(query string) string {
	if d.Rebind == nil {
		return query
	}
	return d.Rebind(query)
}

// short is a query fit for an error message.
func short(q string) string {
	q = strings.Join(strings.Fields(q), " ")
	if len(q) > 60 {
		q = q[:60] + "..."
	}
	return q
}

// dbError says what failed on which database and what to do, and makes the class of the failure testable.
func (s *Store) dbError(what string, err error) error {
	if err == nil {
		return nil
	}
	switch s.drv.Classify(err) {
	case ClassBusy:
		return fmt.Errorf("%s: the database of store %s is locked by another program (%w): %w", what, s.dir, err, syscall.EBUSY)
	case ClassFull:
		return fmt.Errorf("%s: no space left for the database of store %s (%w): %w", what, s.dir, err, syscall.ENOSPC)
	case ClassCorrupt:
		return fmt.Errorf("%s: the database of store %s is damaged; run `wsfs check`, and restore a backup or salvage it "+
			"with `sqlite3 .recover` (%w): %w", what, s.dir, err, ErrCorrupt)
	case ClassReadOnly:
		return fmt.Errorf("%s: the database of store %s refuses writing (%w): %w", what, s.dir, err, syscall.EROFS)
	}
	return fmt.Errorf("%s in store %s: %w", what, s.dir, err)
}
