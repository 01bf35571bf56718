package sqlite

import (
	"context"
	"strconv"

	"wsfs/store"
)

// free counts the pages that hold nothing.
func free(ctx context.Context, q store.Queryer) (int64, error) {
	var n int64
	err := scanOne(ctx, q, "PRAGMA freelist_count", &n)
	return n * pageSize, err
}

// shrink moves pages from the end of the file into free ones. A database made before schema 3 does not know which page
// belongs to which: that one has to be rebuilt once.
func shrink(ctx context.Context, q store.Queryer, bytes int64) (bool, error) {
	var mode int64
	if err := scanOne(ctx, q, "PRAGMA auto_vacuum", &mode); err != nil || mode != 2 {
		return false, err
	}
	rows, err := q.QueryContext(ctx, "PRAGMA incremental_vacuum("+itoa(max(1, bytes/pageSize))+")")
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() { // each step moves a page
	}
	return true, rows.Err()
}

func rebuild(ctx context.Context, q store.Execer) error {
	_, err := q.ExecContext(ctx, "VACUUM")
	return err
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
