package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// bulk collects rows for one INSERT or DELETE and runs it in as few statements as possible: most of the cost of a small
// row is the way into the database, not the row.
type bulk struct {
	head, row, tail string
	cols            int // values a row: the ? in row
	args            []any
	queries         [bulkSteps]string // by size
}

// bulkSizes are the rows per statement, largest first; each size is one prepared statement. 32 and 512 at most were no
// better in BenchmarkApply.
func bulkSizes() [bulkSteps]int { return [...]int{128, 16, 4, 1} }

const bulkSteps = 4

// newInsert inserts into a table and columns. row is what VALUES repeats: ? and constants. tail may be ON CONFLICT.
func newInsert(drv *Driver, into, row, tail string) bulk {
	return bulk{head: drv.InsertInto + " " + into + " VALUES ", row: row, cols: strings.Count(row, "?"), tail: tail}
}

// newDelete deletes from a table by its key.
func newDelete(table, key string) bulk {
	cols := strings.Count(key, ",") + 1
	return bulk{head: "DELETE FROM " + table + " WHERE (" + key + ") IN (VALUES ", row: tuples(1, cols), cols: cols, tail: ")"}
}

func (b *bulk) add(vals ...any) { b.args = append(b.args, vals...) }

func (b *bulk) flush(ctx context.Context, w *writer) error {
	if len(b.args) == 0 {
		return nil
	}
	// Around database/sql and the driver, which copy and convert each value once more: a fifth of the time of a group.
	args := b.args
	for i, n := range bulkSizes() {
		for len(args) >= n*b.cols {
			if b.queries[i] == "" {
				b.queries[i] = w.drv.rebind(b.head + strings.Repeat(b.row+",", n-1) + b.row + b.tail)
			}
			if err := w.bulk.Each(ctx, b.queries[i], args[:n*b.cols], func(Row) error { return nil }); err != nil {
				return fmt.Errorf("%s: %w", short(b.head), err)
			}
			args = args[n*b.cols:]
		}
	}
	b.reset()
	return nil
}

// reset forgets the rows; a transaction that failed has left some.
func (b *bulk) reset() {
	clear(b.args)
	b.args = b.args[:0]
}

// tuples is "(?,?),(?,?)": rows of cols placeholders.
func tuples(rows, cols int) string {
	row := "(" + strings.Repeat("?,", cols-1) + "?)"
	return strings.Repeat(row+",", rows-1) + row
}

// keyed runs query, which holds "VALUES %s", for any number of keys in as few statements as possible and calls scan
// for each row. keys holds cols values a key: its number for the caller, the timeline, and the rest; pads match nothing.
func keyed(ctx context.Context, q querier, query string, cols int, keys []any, scan func(result) error) error {
	for len(keys) > 0 {
		n := min(len(keys)/cols, maxKeys)
		size := n
		for _, s := range keySizes() {
			if s >= n {
				size = s
				break
			}
		}
		args := make([]any, size*cols)
		copy(args, keys[:n*cols])
		for i := n * cols; i < len(args); i++ {
			args[i] = args[i%cols] // the types of a real key
			if i%cols == 1 {
				args[i] = int64(-1) // a timeline that does not exist
			}
		}
		if err := eachRow(ctx, q, withKeys(query, size, cols), args, scan); err != nil {
			return err
		}
		keys = keys[n*cols:]
	}
	return nil
}

// withKeys fills in the list of keys of a query for keyed.
func withKeys(query string, keys, cols int) string {
	return strings.Replace(query, "%s", tuples(keys, cols), 1)
}

// keySizes are the keys per statement of keyed.
func keySizes() []int { return []int{1, 2, 4, 8, 16, 32, 64, 128, maxKeys} }

const maxKeys = 256

// querier is where a query runs: the writer's transaction, a reader's, or the pool.
type querier interface {
	// each calls scan with each row of a query, and stops at its first error.
	each(ctx context.Context, query string, args []any, scan func(result) error) error
}

func eachRow(ctx context.Context, q querier, query string, args []any, scan func(result) error) error {
	if err := q.each(ctx, query, args, scan); err != nil {
		return fmt.Errorf("%s: %w", short(query), err)
	}
	return nil
}

// eachOf is querier.each of a statement of database/sql.
func eachOf(ctx context.Context, st *sql.Stmt, args []any, scan func(result) error) error {
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(result{rows: rows}); err != nil {
			return err
		}
	}
	return rows.Err()
}
