package versions

import (
	"context"
	"errors"
	"maps"
	"slices"
	"syscall"

	"wsfs/store"
)

// differ compares two states.
type differ struct {
	st   *store.Store
	o    DiffOptions
	a, b *diffSide
}

func missing(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR)
}

// run finds the candidates and where they are on both sides.
func (d *differ) run(ctx context.Context, t *touched) error {
	keys := slices.Collect(maps.Keys(t.names))
	for _, s := range []*diffSide{d.a, d.b} {
		if err := s.holders(ctx, keys, t.inos); err != nil {
			return err
		}
	}
	inos := slices.Sorted(maps.Keys(t.inos))
	for _, s := range []*diffSide{d.a, d.b} {
		if err := s.place(ctx, inos); err != nil {
			return err
		}
	}
	for _, ino := range inos {
		if err := d.moved(ctx, ino); err != nil {
			return err
		}
	}
	return nil
}

// moved looks at a directory that is on both sides under different paths. All below it has other paths then, though
// nothing touched it; that matters if it is asked for, or if something else is at one of the two paths.
func (d *differ) moved(ctx context.Context, ino store.Ino) error {
	if !isDir(d.a.vers[ino]) || !isDir(d.b.vers[ino]) {
		return nil
	}
	was, is := d.a.paths[ino][0], d.b.paths[ino][0]
	if was == is {
		return nil
	}
	if !d.o.Expand {
		left, err := d.b.exists(ctx, was)
		if err != nil {
			return err
		}
		taken, err := d.a.exists(ctx, is)
		if err != nil {
			return err
		}
		if !left && !taken {
			return nil
		}
	}
	if err := d.a.walk(ctx, ino, was); err != nil {
		return err
	}
	return d.b.walk(ctx, ino, is)
}

// compare pairs the paths of both sides.
func (d *differ) compare(ctx context.Context) ([]DiffEntry, error) {
	var list []DiffEntry
	gone := map[store.Ino][]string{} // paths that only A has
	var fresh []string               // paths that only B has
	for path, ino := range d.a.at {
		other, ok := d.b.at[path]
		if !ok {
			gone[ino] = append(gone[ino], path)
			continue
		}
		if e, ok := entry(path, d.a.vers[ino], d.b.vers[other]); ok {
			list = append(list, e)
		}
	}
	for path := range d.b.at {
		if _, ok := d.a.at[path]; !ok {
			fresh = append(fresh, path)
		}
	}
	for _, paths := range gone {
		slices.Sort(paths)
	}
	slices.Sort(fresh)
	renames, rest := d.byInode(gone, fresh)
	list = append(list, renames...)
	renames, rest, err := d.byReplacement(ctx, gone, rest)
	if err != nil {
		return nil, err
	}
	list = append(list, renames...)
	for _, path := range rest {
		e, _ := entry(path, nil, d.b.vers[d.b.at[path]])
		list = append(list, e)
	}
	for ino, paths := range gone {
		for _, path := range paths {
			e, _ := entry(path, d.a.vers[ino], nil)
			list = append(list, e)
		}
	}
	return list, nil
}

// byInode finds renames: the same inode under another name. It takes what it finds out of gone.
func (d *differ) byInode(gone map[store.Ino][]string, fresh []string) (renames []DiffEntry, rest []string) {
	for _, path := range fresh {
		ino := d.b.at[path]
		from := gone[ino]
		if len(from) == 0 {
			rest = append(rest, path)
			continue
		}
		gone[ino] = from[1:]
		e := DiffEntry{What: Renamed, Path: path, From: from[0], A: d.a.vers[ino], B: d.b.vers[ino]}
		if d.o.Expand && d.o.Command == 0 || !d.carried(ino) || len(e.Changed()) > 0 {
			renames = append(renames, e)
		}
	}
	return renames, rest
}

// carried reports whether ino has its name still and only moved with its directory.
func (d *differ) carried(ino store.Ino) bool {
	x, y := d.a.names[ino], d.b.names[ino]
	return len(x) == 1 && len(y) == 1 && x[0].Parent == y[0].Parent && x[0].Name == y[0].Name
}

// byReplacement finds renames of files that were saved by replacement too: the inode is new, but its versions, or what
// they replaced, lead back to one that is gone.
func (d *differ) byReplacement(ctx context.Context, gone map[store.Ino][]string, fresh []string) (renames []DiffEntry, rest []string, err error) {
	left := 0
	for ino, paths := range gone {
		if v := d.a.vers[ino]; v.Type() == syscall.S_IFREG {
			left += len(paths)
		}
	}
	for _, path := range fresh {
		v := d.b.vers[d.b.at[path]]
		if left == 0 || v.Type() != syscall.S_IFREG {
			rest = append(rest, path)
			continue
		}
		ino, err := d.ancestor(ctx, v, gone)
		if err != nil {
			return nil, nil, err
		}
		if ino == 0 {
			rest = append(rest, path)
			continue
		}
		renames = append(renames, DiffEntry{What: Renamed, Path: path, From: gone[ino][0], A: d.a.vers[ino], B: v})
		gone[ino] = gone[ino][1:]
		left--
	}
	return renames, rest, nil
}

// maxReplaced bounds how far back a file that has a new path is followed to what it replaced.
const maxReplaced = 64

func (d *differ) ancestor(ctx context.Context, v *store.Version, gone map[store.Ino][]string) (store.Ino, error) {
	for range maxReplaced {
		id := v.Replaced
		if id == 0 {
			id = v.Parent
		}
		if id == 0 {
			return 0, nil
		}
		old, err := d.st.VersionByID(ctx, id)
		if errors.Is(err, syscall.ENOENT) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		if paths := gone[old.Ino]; old.Ino != v.Ino && len(paths) > 0 && d.a.vers[old.Ino].Type() == syscall.S_IFREG {
			return old.Ino, nil
		}
		v = old
	}
	return 0, nil
}
