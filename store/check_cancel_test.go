package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// tired is cancelled from some question on.
type tired struct {
	context.Context
	left atomic.Int64
}

func (t *tired) Err() error {
	if t.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A check that is interrupted, wherever it is, says so and accuses nothing.
func TestInterruptedCheck(t *testing.T) {
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), dir, sqlite.Driver(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	storetest.Populate(t, st, 4, 100)
	interrupted := 0
	for n := int64(0); ; n += 1 + n/16 {
		ctx := &tired{Context: t.Context()}
		ctx.left.Store(n)
		err := st.Check(ctx, func(p store.Problem) { t.Errorf("interrupted at question %d: rule %d: %s", n, p.Rule, p.Text) })
		if t.Failed() {
			return
		}
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted at question %d: %v", n, err)
		}
		interrupted++
	}
	t.Logf("interrupted %d times", interrupted)
	if interrupted == 0 {
		t.Error("nobody asked")
	}
}
