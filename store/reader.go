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

	mu sync.RWMutex
	// stmts are prepared once, by query text. The set is bounded: queries are constants times a few sizes and filters.
	stmts map[string]*sql.Stmt // guarded by mu
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
		return nil, fmt.Errorf("prepare %s: %w", short(query), err)
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
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, st := range r.stmts {
		_ = st.Close() // the pool is closed next
	}
	return r.db.Close()
}
