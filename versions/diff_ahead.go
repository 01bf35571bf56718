package versions

import (
	"context"
	"sync"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

const (
	// diffAheadTexts is how many texts are looked up when the first one is read, diffAheadBytes the largest of them.
	diffAheadTexts = 1024
	diffAheadBytes = 1 << 20
)

// diffAhead looks up where the texts of a Diff are, all at once, when the first is asked for: most who read one read all. A nil one
// looks nothing up.
type diffAhead struct {
	entries []DiffEntry
	once    sync.Once
	leaves  *blob.Leaves
}

// content is contentOf.
func (a *diffAhead) content(ctx context.Context, st *store.Store, v *store.Version) ([]byte, error) {
	if a == nil || !small(v) {
		return contentOf(ctx, st, v)
	}
	a.once.Do(func() {
		a.leaves = blob.NewLeaves(diffAheadBytes)
		var list []blob.Content
		for i := range a.entries {
			e := &a.entries[i]
			for _, v := range []*store.Version{e.A, e.B} {
				if len(list) < diffAheadTexts && e.Content() && small(v) {
					list = append(list, blob.Content{Ref: v.Content, Size: v.Size})
				}
			}
		}
		if len(list) > 2 {
			a.leaves.Expect(ctx, st.Blobs(), list)
		}
	})
	return readWith(ctx, st, v, make([]byte, v.Size), a.leaves)
}

func small(v *store.Version) bool {
	return v != nil && v.Type() == syscall.S_IFREG && v.Size > 0 && v.Size <= diffAheadBytes
}
