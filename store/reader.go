package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// readers are the reading connections with their prepared statements: those of database/sql, and the quicker ones of the driver, if it
// has any. It is safe for concurrent use.
type readers struct {
	drv  *Driver
	db   *sql.DB
	open func() (Conn, error)
	free chan struct{} // one for each connection in use
	last func() error  // see DB.Close; it may be nil

	mu sync.RWMutex
	// stmts are prepared once, by query text. The set is bounded: queries are constants times a few sizes and filters.
	stmts map[string]*sql.Stmt // guarded by mu
	idle  []Conn               // guarded by mu; the one used last is taken first: it has pages in memory
}

func newReaders(drv *Driver, db DB) *readers {
	return &readers{drv: drv, db: db.Reader, open: db.Conn, last: db.Close, free: make(chan struct{}, max(1, db.Readers))}
}

// with lends fn a connection of the driver. One that fn does not leave as it got it is closed.
func (r *readers) with(ctx context.Context, fn func(c Conn) (clean bool, err error)) error {
	select {
	case r.free <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.free }()
	var c Conn
	r.mu.Lock()
	if n := len(r.idle); n > 0 {
		c, r.idle = r.idle[n-1], r.idle[:n-1]
	}
	r.mu.Unlock()
	if c == nil {
		var err error
		if c, err = r.open(); err != nil {
			return fmt.Errorf("open a connection for reading: %w", err)
		}
	}
	clean, err := fn(c)
	if !clean {
		return errors.Join(err, c.Close())
	}
	r.mu.Lock()
	r.idle = append(r.idle, c)
	r.mu.Unlock()
	return err
}

func (r *readers) each(ctx context.Context, query string, args []any, scan func(result) error) error {
	if r.open != nil {
		return r.with(ctx, func(c Conn) (bool, error) { return true, snapshot{r, c}.each(ctx, query, args, scan) })
	}
	st, err := r.prepare(ctx, query)
	if err != nil {
		return err
	}
	return eachOf(ctx, st, args, scan)
}

func (r *readers) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	r.mu.RLock()
	st, ok := r.stmts[query]
	r.mu.RUnlock()
	if ok {
		return st, nil
	}
	st, err := r.db.PrepareContext(ctx, r.drv.rebind(query))
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	r.mu.Lock()
	other, ok := r.stmts[query]
	if !ok {
		if r.stmts == nil {
			r.stmts = map[string]*sql.Stmt{}
		}
		r.stmts[query] = st
	}
	r.mu.Unlock()
	if ok {
		_ = st.Close() // somebody was faster
		return other, nil
	}
	return st, nil
}

// snapshot is one connection of the driver, and in readers.snapshot several queries of one state of the database. That must be short: while
// one is open, the database's log cannot be folded in beyond it.
type snapshot struct {
	r *readers
	c Conn
}

func (s snapshot) each(ctx context.Context, query string, args []any, scan func(result) error) error {
	return s.c.Each(ctx, s.r.drv.rebind(query), args, func(row Row) error { return scan(result{row: row}) })
}

func (r *readers) snapshot(ctx context.Context, fn func(q querier) error) error {
	if r.open == nil {
		return r.longSnapshot(ctx, fn)
	}
	return r.with(ctx, func(c Conn) (bool, error) {
		none := func(Row) error { return nil }
		if err := c.Each(ctx, "BEGIN", nil, none); err != nil {
			return false, fmt.Errorf("begin reading: %w", err)
		}
		err := fn(snapshot{r, c})
		end := c.Each(context.WithoutCancel(ctx), "COMMIT", nil, none)
		return end == nil, errors.Join(err, end)
	})
}

// longSnapshot is a transaction of database/sql, in which one query may be asked while another one is answered.
type longSnapshot struct {
	r  *readers
	tx *sql.Tx
}

func (r *readers) longSnapshot(ctx context.Context, fn func(q querier) error) error {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin reading: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing to lose in a reading transaction
	return fn(&longSnapshot{r: r, tx: tx})
}

func (s *longSnapshot) each(ctx context.Context, query string, args []any, scan func(result) error) error {
	st, err := s.r.prepare(ctx, query)
	if err != nil {
		return err
	}
	return eachOf(ctx, s.tx.StmtContext(ctx, st), args, scan)
}

func (r *readers) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, c := range r.idle {
		errs = append(errs, c.Close())
	}
	r.idle = nil
	for _, st := range r.stmts {
		_ = st.Close() // the pool is closed next
	}
	errs = append(errs, r.db.Close())
	if r.last != nil {
		errs = append(errs, r.last())
	}
	return errors.Join(errs...)
}
