package store_test

import (
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
)

func TestPlansPrint(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	drv := sqlite.Driver()
	if err := store.Init(ctx, dir, drv); err != nil {
		t.Fatal(err)
	}
	db, err := drv.Open(ctx, dir, store.ModeReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Reader.Close()
	for name, q := range store.Queries(16) {
		args := make([]any, 0)
		for range q {
			args = append(args, int64(1))
		}
		n := 0
		for _, c := range q {
			if c == '?' {
				n++
			}
		}
		p, err := drv.Plan(ctx, db.Reader, q, args[:n]...)
		t.Log(name, err, "\n", p)
	}
}
