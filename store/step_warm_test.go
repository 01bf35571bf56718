package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// TestWarmSteps reads items ahead while their changes come, and compares with what is read afterwards: any part of the span,
// with more before and behind it, and with versions that were amended in between.
func TestWarmSteps(t *testing.T) {
	ctx := t.Context()
	st := storetest.New(t, sqlite.Driver(), store.Options{})
	s := newSmall(t, st)
	read := func(ctx context.Context, sp store.Span, versions bool) (list []string) {
		t.Helper()
		err := st.StepItems(ctx, sp, versions, func(st *store.Step, it *store.Item, v *store.Version) error {
			if v == nil {
				v = &store.Version{}
			}
			list = append(list, fmt.Sprint(*st, *it, *v))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	fill := func(n int) {
		for range n {
			s.create(fmt.Sprint("file", s.seq))
		}
		s.flush(t)
	}
	fill(1000)
	first := s.seq
	const more = 2500
	sp := store.Span{Timeline: 1, After: first, UpTo: first + 3*more}
	warm, stop := st.WarmSteps(ctx, sp)
	defer stop()
	for range 4 {
		fill(more)
	}
	same := func(r *rand.Rand) {
		t.Helper()
		a, b := store.Seq(r.Int64N(int64(s.seq))), store.Seq(r.Int64N(int64(s.seq)))
		sp := store.Span{Timeline: 1, After: min(a, b), UpTo: max(a, b)}
		versions := r.IntN(3) > 0
		if got, want := read(warm, sp, versions), read(ctx, sp, versions); !slices.Equal(got, want) {
			t.Fatalf("after %d up to %d: %d items, want %d, or others", sp.After, sp.UpTo, len(got), len(want))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		same(r)
	}
	op := s.op(store.OpSetattr)
	name := fmt.Sprint("file", first+more)
	v := s.files[name]
	op.Amend, op.Seq, v.Mode = true, v.Seq, v.Mode|0o111
	op.Versions = []store.Version{v}
	s.flush(t)
	at := store.Span{Timeline: 1, After: v.Seq - 1, UpTo: v.Seq}
	if got := read(warm, at, true); !slices.Equal(got, read(ctx, at, true)) {
		t.Error("an amended version is shown as it was:", got)
	}
}
