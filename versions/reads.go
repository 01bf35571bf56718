package versions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"wsfs/store"
)

// ConflictRead is why a merge is refused that must not happen if something that was read has changed. A word as those of merge.go.
const ConflictRead = "read/write"

// Reads is what was read of a state; as fs.Reads.
type Reads struct {
	Contents []store.Ino
	Listings []store.Ino
	Names    []store.DirName
	All      bool
}

// readCheck compares what was read in one state with another.
type readCheck struct {
	was, now           *mergeSide
	contents, listings map[store.Ino]bool
	names              map[store.DirName]bool
	all                bool
	out                map[string]MergeConflict
}

// ReadsChanged is what was read at base and is no more the same at now, by path. Content that was opened has changed if it has other bytes, wherever
// its name is; a listing if a name in it came, went or leads to something of another type; a name if it came, went or leads to
// something of another type, or to another directory. Attributes are not looked at. The cost is that of the changes between the two states.
func ReadsChanged(ctx context.Context, st *store.Store, base, now Place, reads *Reads) ([]MergeConflict, error) {
	was, err := st.ViewAt(ctx, base.Timeline, base.Seq)
	if err != nil {
		return nil, fmt.Errorf("read the state that was read: %w", err)
	}
	is, err := st.ViewAt(ctx, now.Timeline, now.Seq)
	if err != nil {
		return nil, err
	}
	t := newTouched()
	if err := t.collect(ctx, st, was, is, 0); err != nil {
		return nil, err
	}
	c := &readCheck{
		was: newMergeSide(was), now: newMergeSide(is), contents: map[store.Ino]bool{}, listings: map[store.Ino]bool{},
		names: map[store.DirName]bool{}, all: reads.All, out: map[string]MergeConflict{},
	}
	for _, ino := range reads.Contents {
		c.contents[ino] = true
	}
	for _, ino := range reads.Listings {
		c.listings[ino] = true
	}
	for _, k := range reads.Names {
		c.names[k] = true
	}
	keys := make([]store.DirName, 0, len(t.names))
	for k := range t.names {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareNames)
	inos := sortedInos(t.inos)
	for _, s := range []*mergeSide{c.was, c.now} {
		if err := s.lookup(ctx, keys); err != nil {
			return nil, err
		}
		if err := s.load(ctx, inos); err != nil {
			return nil, err
		}
	}
	for _, ino := range inos {
		if err := c.content(ctx, ino); err != nil {
			return nil, err
		}
	}
	for _, k := range keys {
		if err := c.name(ctx, k); err != nil {
			return nil, err
		}
	}
	out := make([]MergeConflict, 0, len(c.out))
	for _, x := range c.out {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b MergeConflict) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

func (c *readCheck) content(ctx context.Context, ino store.Ino) error {
	a, b := c.was.vers[ino], c.now.vers[ino]
	if !c.all && !c.contents[ino] || a == nil || b == nil || sameBytes(a, b) {
		return nil // one that has no name any more is found by that
	}
	path, _, err := c.now.path(ctx, ino)
	if err != nil {
		return err
	}
	c.add(path, ino, "it was read, and its content has changed since")
	return nil
}

func sameBytes(a, b *store.Version) bool {
	return a.Type() == b.Type() && a.Content == b.Content && a.Size == b.Size && a.Target == b.Target
}

func (c *readCheck) name(ctx context.Context, k store.DirName) error {
	a, b := c.was.at[k], c.now.at[k]
	listed, asked := c.all || c.listings[k.Parent], c.names[k]
	if a == b || !listed && !asked && !c.contents[a] {
		return nil
	}
	what := ""
	switch v, w := c.was.vers[a], c.now.vers[b]; {
	case a == 0 && asked:
		what = "it was looked for and was not there, and it is now"
	case a == 0:
		what = "its directory was listed without it, and it is there now"
	case b == 0:
		what = "it was there, and is not any more"
	case v == nil || w == nil || v.Type() != w.Type() || v.Type() == dirType:
		what = "the name leads to something else than it did"
	case (c.all || c.contents[a]) && !sameBytes(v, w):
		what = "it was read, and its content has changed since"
	default:
		return nil // saved by replacement, and not read
	}
	side := c.now
	dir, ok, err := side.path(ctx, k.Parent)
	if err == nil && !ok {
		dir, _, err = c.was.path(ctx, k.Parent)
	}
	if err != nil {
		return err
	}
	c.add(join(dir, k.Name), max(a, b), what)
	return nil
}

func (c *readCheck) add(path string, ino store.Ino, what string) {
	if _, ok := c.out[path]; !ok {
		c.out[path] = MergeConflict{Why: ConflictRead, Path: path, Detail: what, Ino: ino, Ours: c.now.vers[ino]}
	}
}
