package versions

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"wsfs/store"
)

// Node is one path of a past tree.
type Node struct {
	Path    string // from where the walk began, "" for that itself
	Version *store.Version
	Link    string // path of the same file where the walk met it before, if Linked
	Linked  bool
}

// Walk calls enter for start and everything below it, a directory before its entries and those in byte order, and leave
// for each directory after them. Names that would lead out of a directory they are written to (a damaged database may
// hold any) are an error that wraps EIO.
func Walk(ctx context.Context, v *store.View, start *store.Version, enter, leave func(Node) error) error {
	w := &walker{v: v, enter: enter, leave: leave, first: map[store.Ino]string{}, above: map[store.Ino]bool{}}
	return w.walk(ctx, "", start)
}

type walker struct {
	v            *store.View
	enter, leave func(Node) error
	first        map[store.Ino]string // files with several names: where they were met first
	above        map[store.Ino]bool   // directories being walked
}

func (w *walker) walk(ctx context.Context, path string, ver *store.Version) error {
	n := Node{Path: path, Version: ver}
	if !ver.IsDir() {
		if ver.Nlink > 1 {
			if n.Link, n.Linked = w.first[ver.Ino]; !n.Linked {
				w.first[ver.Ino] = path
			}
		}
		return w.enter(n)
	}
	if w.above[ver.Ino] {
		return fmt.Errorf("directory %q contains itself: %w", path, syscall.EIO)
	}
	w.above[ver.Ino] = true
	defer delete(w.above, ver.Ino)
	if err := w.enter(n); err != nil {
		return err
	}
	type entry struct {
		name string
		ver  *store.Version
	}
	var entries []entry
	err := w.v.ReadDir(ctx, ver.Ino, func(name store.Name, ver *store.Version) error {
		if name.Name == "" || name.Name == "." || name.Name == ".." || strings.ContainsAny(name.Name, "/\x00") {
			return fmt.Errorf("directory %q holds the impossible name %q: %w", path, name.Name, syscall.EIO)
		}
		if ver == nil {
			return fmt.Errorf("directory %q: %q has no attributes; `wsfs check` says more: %w", path, name.Name, syscall.EIO)
		}
		entries = append(entries, entry{name.Name, ver})
		return nil
	})
	if err != nil {
		return err
	}
	for i := range entries {
		sub := entries[i].name
		if path != "" {
			sub = path + "/" + sub
		}
		if err := w.walk(ctx, sub, entries[i].ver); err != nil {
			return err
		}
	}
	return w.leave(n)
}
