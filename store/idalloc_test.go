package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
)

// fakeCounters is table counter in memory.
type fakeCounters struct {
	mu       sync.Mutex
	next     map[string]int64
	reserves int
	err      error
}

func (c *fakeCounters) reserveIDs(_ context.Context, names []string, n int64) ([]int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	c.reserves++
	out := make([]int64, len(names))
	for i, name := range names {
		out[i] = max(1, c.next[name])
		c.next[name] = out[i] + n
	}
	return out, nil
}

func (c *fakeCounters) returnIDs(_ context.Context, names []string, next []int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, name := range names {
		c.next[name] = next[i]
	}
	return nil
}

func openIDs(t *testing.T, c *fakeCounters) *idAlloc {
	t.Helper()
	a := &idAlloc{}
	if err := a.open(context.Background(), c, newBreaker(nil), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestIDs(t *testing.T) {
	c := &fakeCounters{next: make(map[string]int64)}
	a := openIDs(t, c)
	if n := a.take(idIno); n != 2 {
		t.Fatalf("the first inode after the root is %d", n)
	}
	if n := a.take(idCommand); n != 1 {
		t.Fatalf("the first command is %d", n)
	}
	const each, workers = idBlock, 4
	got := make([][]int64, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range each {
				got[w] = append(got[w], a.take(idVersion))
			}
		})
	}
	wg.Wait()
	seen := make([]bool, each*workers+1)
	for _, ns := range got {
		for _, n := range ns {
			if n <= 0 || n > each*workers || seen[n] {
				t.Fatalf("id %d given twice, or out of order", n)
			}
			seen[n] = true
		}
	}
	a.refills.Wait()
	if n := c.reserves; n < 4 || n > 8 {
		t.Fatalf("%d reservations for %d ids", n, each*workers)
	}
	// A clean stop wastes nothing, a kill wastes a block and nothing else.
	if err := a.close(context.Background(), true); err != nil {
		t.Fatal(err)
	}
	a = openIDs(t, c)
	if n := a.take(idIno); n != 3 {
		t.Fatalf("after a clean stop: %d", n)
	}
	a = openIDs(t, c)
	if n := a.take(idIno); n != 3+idBlock {
		t.Fatalf("after a kill: %d", n)
	}
}

func TestIDsRunOut(t *testing.T) {
	c := &fakeCounters{next: make(map[string]int64)}
	a := openIDs(t, c)
	c.mu.Lock()
	c.err = errors.New("fake")
	c.mu.Unlock()
	for i := range idBlock {
		if n := a.take(idProcess); n != int64(i+1) {
			t.Fatalf("got %d", n)
		}
	}
	if n := a.take(idProcess); n != 0 || !errors.Is(a.brk.err(), c.err) {
		t.Fatalf("got %d, store stopped with %v", n, a.brk.err())
	}
	c.next["ino"] = 1<<40 - idBlock + 1
	c.err = nil
	if err := (&idAlloc{}).open(context.Background(), c, newBreaker(nil), slog.New(slog.DiscardHandler)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("inode numbers used up: %v", err)
	}
	var readOnly idAlloc
	if n := readOnly.take(idIno); n != 0 {
		t.Fatalf("read-only store gives %d", n)
	}
}
