package store

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
)

// readers is the pool of reading connections with their prepared statements. It is safe for concurrent use.
type readers struct {
	drv *Driver
	db  *sql.DB
	// stmts are prepared once, by query text. The set is bounded: queries are constants times a few sizes and filters.
	stmts sync.Map // string -> *sql.Stmt
}

func (r *readers) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if st, ok := r.stmts.Load(query); ok {
		return st.(*sql.Stmt), nil
	}
	st, err := r.db.PrepareContext(ctx, r.drv.rebind(query))
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", short(query), err)
	}
	if other, loaded := r.stmts.LoadOrStore(query, st); loaded {
		_ = st.Close() // somebody was faster
		return other.(*sql.Stmt), nil
	}
	return st, nil
}

func (r *readers) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := r.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", short(query), err)
	}
	return rows, nil
}

// snapshot is several queries of one state of the database. It must be short: while one is open, the database's log
// cannot be folded in beyond it.
type snapshot struct {
	r  *readers
	tx *sql.Tx
}

func (r *readers) snapshot(ctx context.Context, fn func(q querier) error) error {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin reading: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing to lose in a reading transaction
	return fn(&snapshot{r: r, tx: tx})
}

func (s *snapshot) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := s.r.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.tx.StmtContext(ctx, st).QueryContext(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", short(query), err)
	}
	return rows, nil
}

func (r *readers) close() error {
	r.stmts.Range(func(_, st any) bool {
		_ = st.(*sql.Stmt).Close() // the pool is closed next
		return true
	})
	return r.db.Close()
}
