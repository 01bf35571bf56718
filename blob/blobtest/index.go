// Package blobtest has an index in memory for tests of what uses blobs, and the suite that every way to open a
// blob.Store must pass.
package blobtest

import (
	"context"
	"fmt"
	"sync"

	"wsfs/blob"
)

// Index is a blob.BatchIndex in memory. The zero value is empty and ready. Safe for any number of goroutines.
type Index struct {
	mu    sync.Mutex
	locs  map[blob.Ref]blob.Location // guarded by mu
	fail  error                      // guarded by mu
	asked int                        // guarded by mu
}

// Insert adds rows, as the applier's transaction does.
func (x *Index) Insert(locs ...blob.Location) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.locs == nil {
		x.locs = map[blob.Ref]blob.Location{}
	}
	for _, l := range locs {
		x.locs[l.Ref] = l
	}
}

// Delete forgets a row.
func (x *Index) Delete(ref blob.Ref) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.locs, ref)
}

// Fail makes every look-up return err, until it is called with nil.
func (x *Index) Fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fail = err
}

// Asked returns how many look-ups there were, a batch counted as one.
func (x *Index) Asked() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asked
}

// All returns every row, in no order.
func (x *Index) All() []blob.Location {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]blob.Location, 0, len(x.locs))
	for _, l := range x.locs {
		all = append(all, l)
	}
	return all
}

// Locate implements blob.Index.
func (x *Index) Locate(ctx context.Context, ref blob.Ref) (blob.Location, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked++
	if x.fail != nil {
		return blob.Location{}, x.fail
	}
	l, ok := x.locs[ref]
	if !ok {
		return l, fmt.Errorf("blobtest: no row for %v: %w", ref, blob.ErrNotFound)
	}
	return l, ctx.Err()
}

// LocateMany implements blob.BatchIndex.
func (x *Index) LocateMany(ctx context.Context, refs []blob.Ref, found func(blob.Location)) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked++
	if x.fail != nil {
		return x.fail
	}
	for _, ref := range refs {
		if l, ok := x.locs[ref]; ok {
			found(l)
		}
	}
	return ctx.Err()
}
