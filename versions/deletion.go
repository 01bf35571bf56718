package versions

import (
	"context"
	"errors"
	"syscall"

	"wsfs/store"
)

// Gone is what became of a path that a state does not have.
type Gone struct {
	Entry *Entry         // who deleted it, or moved it away; nil if only a directory above it moved
	Last  *store.Version // what it was at last, nil if unknown
	Path  string         // where it is now, "" if nowhere
}

// WhatBecameOf finds out why v has nothing at path. It wraps ENOENT if nothing ever had the path, and returns nil if
// there is something.
func WhatBecameOf(ctx context.Context, st *store.Store, v *store.View, path string) (*Gone, error) {
	path = Clean(path)
	if _, _, err := v.Resolve(ctx, path); err == nil || !missing(err) {
		return nil, err
	}
	t, err := findTarget(ctx, st, v, path)
	if err != nil {
		return nil, err
	}
	g := &Gone{}
	err = Log(ctx, st, LogQuery{View: v, Path: path}, func(e *Entry) error {
		if e.What == Deleted && e.Path == path || e.What == Renamed && e.From == path {
			g.Entry, g.Last = e, e.Old
			if g.Last == nil {
				g.Last = e.New
			}
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	switch now, err := PathOf(ctx, v, t.ino); {
	case err == nil:
		g.Path = now
	case !errors.Is(err, syscall.ENOENT):
		return nil, err
	}
	if g.Last == nil {
		if g.Last, err = v.Version(ctx, t.ino); errors.Is(err, syscall.ENOENT) {
			g.Last, err = nil, nil
		}
	}
	return g, err
}
