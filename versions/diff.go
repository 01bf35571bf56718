package versions

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"syscall"

	"wsfs/store"
)

// What a DiffEntry says. The words are part of the JSON output: never change one.
const (
	Added    = "added"
	Removed  = "removed"
	Modified = "modified" // other content, or another target of a symbolic link
	Retyped  = "type"     // something of another type has the name
)

// DiffEntry is one path in which two states differ. The versions tell the rest: A is what it was, B what it became.
type DiffEntry struct {
	What string // Added, Removed, Modified, Renamed, Retyped, or the weightiest of Mode, Owner, Xattr
	Path string // in B; of what was removed in A
	From string // of a Renamed entry: the path in A
	A, B *store.Version
	// Mixed: with DiffOptions.Command, others changed it too between the two states.
	Mixed bool

	ahead *diffAhead // shared by the entries of one Diff
}

// Content reports whether the bytes of the file, or the target of the link, differ. What exists on one side only does.
func (e *DiffEntry) Content() bool {
	return e.A == nil || e.B == nil || e.A.Type() != e.B.Type() || e.A.Content != e.B.Content || e.A.Target != e.B.Target
}

// Changed lists what differs between the two sides of something that both have: content, mode, owner, xattr.
func (e *DiffEntry) Changed() []string {
	if e.A == nil || e.B == nil {
		return nil
	}
	var list []string
	a, b := e.A, e.B
	if e.Content() {
		list = append(list, "content")
	}
	if a.Mode&0o7777 != b.Mode&0o7777 {
		list = append(list, Mode)
	}
	if a.UID != b.UID || a.GID != b.GID {
		list = append(list, Owner)
	}
	if !maps.EqualFunc(a.Xattrs, b.Xattrs, bytes.Equal) {
		list = append(list, Xattr)
	}
	return list
}

// DiffOptions say what Diff returns. The zero value works.
type DiffOptions struct {
	// Paths keeps what is at or below one of these, on either side; empty: everything.
	Paths []string
	// Expand lists all that moved with a renamed directory. Without it the directory is one entry, however much it
	// holds, and what is below it is listed only if it differs in more than that.
	Expand bool
	// Command keeps only what this command touched.
	Command store.CommandID
}

// Diff is in what a and b differ, in the order of the paths. Its cost is that of the changes between them, not that of
// the tree: both states go back to a common one, and only what changes after that touched is looked at, in both views.
// Times are no difference, nor is the number of links.
//
// What has the same path on both sides is compared, whether or not it is the same inode: that is what patches say and
// what saves by replacement mean. What has not is a rename if it is the same inode, or one that replaced it.
func Diff(ctx context.Context, st *store.Store, a, b *store.View, o DiffOptions) ([]DiffEntry, error) {
	var err error
	if a, err = st.Pin(ctx, a); err != nil {
		return nil, err
	}
	if b, err = st.Pin(ctx, b); err != nil {
		return nil, err
	}
	o.Expand = o.Expand || len(o.Paths) > 0 // a path below a directory that moved
	t := newTouched()
	if err := t.collect(ctx, st, a, b, o.Command); err != nil {
		return nil, err
	}
	d := &differ{st: st, o: o, a: newDiffSide(a), b: newDiffSide(b)}
	if err := d.run(ctx, t); err != nil {
		return nil, err
	}
	list, err := d.compare(ctx)
	if err != nil {
		return nil, err
	}
	if o.Command != 0 {
		if err := d.mixed(ctx, list); err != nil {
			return nil, err
		}
	}
	list = slices.DeleteFunc(list, func(e DiffEntry) bool { return !e.within(o.Paths) })
	slices.SortFunc(list, func(x, y DiffEntry) int { return strings.Compare(x.Path, y.Path) })
	ahead := &diffAhead{entries: list}
	for i := range list {
		list[i].ahead = ahead
	}
	return list, nil
}

// within reports whether e is at or below one of paths, on either side.
func (e *DiffEntry) within(paths []string) bool {
	if len(paths) == 0 {
		return true
	}
	return slices.ContainsFunc(paths, func(p string) bool {
		return below(e.Path, p) || e.What == Renamed && below(e.From, p)
	})
}

// below reports whether path is dir or in it.
func below(path, dir string) bool {
	dir = Clean(dir)
	return dir == "" || path == dir || strings.HasPrefix(path, dir+"/")
}

// entry compares what two sides have at one path; ok is false if that is the same.
func entry(path string, a, b *store.Version) (e DiffEntry, ok bool) {
	e = DiffEntry{Path: path, A: a, B: b}
	switch {
	case a == nil:
		e.What = Added
	case b == nil:
		e.What = Removed
	case a.ID == b.ID:
		return e, false
	case a.Type() != b.Type() || a.Rdev != b.Rdev:
		e.What = Retyped
	case a.Content != b.Content || a.Target != b.Target:
		e.What = Modified
	default:
		changed := e.Changed()
		if len(changed) == 0 {
			return e, false
		}
		e.What = changed[0]
	}
	return e, true
}

func isDir(v *store.Version) bool { return v != nil && v.Type() == syscall.S_IFDIR }
