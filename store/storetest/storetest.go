// Package storetest is the suite that every database driver of package store must pass. Its heart are random histories
// of several workspaces, with hard links, renames over names, exchanges, forks of forks and rollbacks, compared with a
// model that copies the whole tree at every change.
package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"wsfs/store"
)

// Run runs the suite against a driver whose stores are directories.
func Run(t *testing.T, drv store.Driver) {
	seeds := uint64(2)
	if slow || testing.Short() {
		seeds = 1
	}
	t.Run("open", func(t *testing.T) { testOpen(t, drv) })
	t.Run("pointers", func(t *testing.T) { testPointers(t, drv) })
	t.Run("segments", func(t *testing.T) { testSegments(t, drv) })
	t.Run("backup", func(t *testing.T) { testBackup(t, drv) })
	t.Run("elide", func(t *testing.T) {
		for _, group := range []int{1, 64} {
			t.Run(fmt.Sprint("group", group), func(t *testing.T) { testElide(t, drv, group) })
		}
	})
	t.Run("changes", func(t *testing.T) { testChanges(t, drv) })
	t.Run("collect", func(t *testing.T) {
		for _, group := range []int{1, 64} {
			for seed := range seeds {
				t.Run(fmt.Sprint("group", group, "seed", seed), func(t *testing.T) { testCollect(t, drv, group, seed) })
			}
		}
	})
	t.Run("classes", func(t *testing.T) {
		for _, group := range []int{1, 64} {
			for seed := range seeds {
				t.Run(fmt.Sprint("group", group, "seed", seed), func(t *testing.T) { testClasses(t, drv, group, seed) })
			}
		}
	})
	t.Run("churn", func(t *testing.T) { testChurn(t, drv) })
	t.Run("rings", func(t *testing.T) { testRings(t, drv) })
	t.Run("history", func(t *testing.T) {
		for _, group := range []int{1, 32, 1024} {
			t.Run(fmt.Sprint("group", group), func(t *testing.T) {
				for seed := range seeds {
					t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { testHistory(t, drv, group, seed) })
				}
			})
		}
	})
}

// New makes and opens a store in a fresh directory. When the test ends it is checked and closed.
func New(t *testing.T, drv store.Driver, o store.Options) *store.Store {
	t.Helper()
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, drv); err != nil {
		t.Fatal(err)
	}
	return Open(t, dir, drv, o)
}

// Open opens a store. When the test ends it is checked and closed.
func Open(t *testing.T, dir string, drv store.Driver, o store.Options) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), dir, drv, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Apply(context.Background(), st.Last()); err != nil {
			t.Errorf("apply what is queued: %v", err)
		}
		Check(t, st)
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return st
}

// Check fails the test for every broken invariant of the store.
func Check(t testing.TB, st *store.Store) {
	t.Helper()
	n := 0
	err := st.Check(context.Background(), func(p store.Problem) {
		if n++; n <= 20 {
			t.Errorf("check: %v", p)
		}
	})
	if n > 20 {
		t.Errorf("check: and %d problems more", n-20)
	}
	if err != nil {
		t.Errorf("check: %v", err)
	}
}

// Populate fills a fresh store with a random history of several workspaces, the first of which is called main: names of
// any bytes, hard links, contents of all sizes, forks and rollbacks. The same seed gives the same history.
func Populate(t *testing.T, st *store.Store, seed uint64, steps int) {
	t.Helper()
	w := newWorld(t, st, seed, 0)
	w.create("main")
	w.live(steps)
}

func testHistory(t *testing.T, drv store.Driver, group int, seed uint64) {
	steps := 300
	if slow || testing.Short() {
		steps = 80
	}
	st := New(t, drv, store.Options{GroupOps: group, GroupDelay: 200 * time.Millisecond})
	w := newWorld(t, st, seed, group)
	w.create("main")
	w.live(steps)
	w.compareHeads()
	w.comparePasts()
	w.compareBytes()
	w.compareChanges()
}
