package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// compareHeads compares every workspace as it is now with the model, times included.
func (w *world) compareHeads() {
	w.t.Helper()
	for _, t := range w.trees {
		ws, err := w.st.Workspace(w.t.Context(), t.ws.Name)
		if err != nil {
			w.t.Fatalf("workspace %s: %v", t.ws.Name, err)
		}
		if !reflect.DeepEqual(*ws, t.ws) {
			w.t.Fatalf("workspace %s:\n got %+v\nwant %+v", t.ws.Name, *ws, t.ws)
		}
		v, err := w.st.ViewOf(w.t.Context(), ws)
		if err != nil {
			w.t.Fatalf("view of %s: %v", t.ws.Name, err)
		}
		w.compare(fmt.Sprintf("head of %s", t.ws.Name), v, t.now, true)
	}
}

// comparePasts compares every state that there ever was.
func (w *world) comparePasts() {
	w.t.Helper()
	for p, s := range w.past {
		// The same place by the name of a timeline that starts above it.
		at := p
		for child, par := range w.parents {
			if par.timeline == p.timeline && p.seq <= par.seq {
				at.timeline = child
			}
		}
		v, err := w.st.ViewAt(w.t.Context(), at.timeline, at.seq)
		if err != nil {
			w.t.Fatalf("view at %v: %v", at, err)
		}
		w.compare(fmt.Sprintf("timeline %d at seq %d", p.timeline, p.seq), v, s, w.all || w.exact[p])
		if w.t.Failed() {
			return
		}
	}
}

// compare asks every question about a view. exact: the times of directories count; otherwise they may be those of the
// group of ops before.
func (w *world) compare(what string, v *store.View, want state, exact bool) {
	w.t.Helper()
	ctx := w.t.Context()
	paths := make(map[store.Ino]int)
	var walk func(dir store.Ino, path string)
	walk = func(dir store.Ino, path string) {
		var got []string
		err := v.ReadDir(ctx, dir, func(n store.Name, ver *store.Version) error {
			got = append(got, n.Name)
			kid := want[dir].kids[n.Name]
			if kid != n.Ino || n.Parent != dir {
				w.t.Errorf("%s: readdir %q: %q is inode %d in %d, want %d in %d", what, path, n.Name, n.Ino, n.Parent, kid, dir)
				return nil
			}
			w.compareVersion(what+": readdir "+path+"/"+n.Name, ver, &want[kid].v, exact)
			if n.Type != ver.Type() {
				w.t.Errorf("%s: readdir %q: type %#o, mode %#o", what, path, n.Type, ver.Mode)
			}
			return nil
		})
		if err != nil {
			w.t.Fatalf("%s: readdir %q: %v", what, path, err)
		}
		if names := slices.Sorted(maps.Keys(want[dir].kids)); !slices.Equal(got, names) {
			w.t.Fatalf("%s: readdir %q:\n got %q\nwant %q", what, path, got, names)
		}
		for _, name := range got {
			kid := want[dir].kids[name]
			paths[kid]++
			w.compareLookup(what, v, dir, name, want[kid])
			if want[kid].v.IsDir() {
				walk(kid, path+"/"+name)
			} else if w.rnd.IntN(8) == 0 {
				w.compareResolve(what, v, path+"/"+name, &want[kid].v, exact)
			}
		}
		for _, absent := range []string{"a", "b", "x\xff\xfe", "nothing"} {
			if want[dir].kids[absent] == 0 {
				if n, err := v.Lookup(ctx, dir, absent); !errors.Is(err, syscall.ENOENT) {
					w.t.Errorf("%s: lookup %q in %q: %+v, %v, want ENOENT", what, absent, path, n, err)
				}
			}
		}
	}
	walk(store.RootIno, "")
	// Inodes without a name keep their state; those not made yet have none.
	for ino, n := range want {
		ver, err := v.Version(ctx, ino)
		if w.gone != nil && n.v.Nlink == 0 && errors.Is(err, syscall.ENOENT) {
			continue // collected
		}
		if err != nil {
			w.t.Errorf("%s: inode %d: %v", what, ino, err)
			continue
		}
		w.compareVersion(fmt.Sprintf("%s: inode %d", what, ino), ver, &n.v, exact)
		if w.rnd.IntN(4) == 0 {
			w.compareNames(what, v, ino, paths[ino])
		}
	}
	if _, err := v.Version(ctx, 1<<39); !errors.Is(err, syscall.ENOENT) {
		w.t.Errorf("%s: an inode that never was: %v, want ENOENT", what, err)
	}
}

func (w *world) compareNames(what string, v *store.View, ino store.Ino, want int) {
	w.t.Helper()
	names, err := v.NamesOf(w.t.Context(), ino)
	if err != nil || len(names) != want {
		w.t.Errorf("%s: inode %d has names %v, %v, want %d of them", what, ino, names, err, want)
	}
}

func (w *world) compareLookup(what string, v *store.View, dir store.Ino, name string, want *node) {
	w.t.Helper()
	n, err := v.Lookup(w.t.Context(), dir, name)
	if err != nil || n.Ino != want.v.Ino || n.Type != want.v.Type() || n.Name != name || n.Parent != dir {
		w.t.Errorf("%s: lookup %q in %d: %+v, %v, want inode %d", what, name, dir, n, err, want.v.Ino)
	}
}

func (w *world) compareResolve(what string, v *store.View, path string, want *store.Version, exact bool) {
	w.t.Helper()
	if strings.Contains(path, "\n") { // nothing special; a path like any other
		path = "/." + path
	}
	n, ver, err := v.Resolve(w.t.Context(), path)
	if err != nil || n.Ino != want.Ino {
		w.t.Errorf("%s: resolve %q: %+v, %v, want inode %d", what, path, n, err, want.Ino)
		return
	}
	w.compareVersion(what+": resolve "+path, ver, want, exact)
	if _, _, err := v.Resolve(w.t.Context(), path+"/x"); !errors.Is(err, syscall.ENOTDIR) {
		w.t.Errorf("%s: resolve %q: %v, want ENOTDIR", what, path+"/x", err)
	}
}

func (w *world) compareVersion(what string, got, want *store.Version, exact bool) {
	w.t.Helper()
	g, x := *got, *want
	if x.IsDir() {
		g.Parent, x.Parent = 0, 0 // that of a version merged into this one is passed on
		if !exact {
			g.Seq, g.ID, g.Mtime, g.Ctime, g.Atime = x.Seq, x.ID, x.Mtime, x.Ctime, x.Atime
			g.Origin, g.Replaced = x.Origin, x.Replaced
		}
	}
	if len(g.Xattrs) == 0 && len(x.Xattrs) == 0 {
		g.Xattrs, x.Xattrs = nil, nil
	}
	if !reflect.DeepEqual(g, x) {
		w.t.Errorf("%s:\n got %+v\nwant %+v", what, g, x)
	}
}

// compareBytes reads contents back, from memory or disk as it may be.
func (w *world) compareBytes() {
	w.t.Helper()
	for ref, want := range w.bytes {
		if len(want) == 0 {
			continue
		}
		got := make([]byte, len(want))
		if _, err := w.st.Blobs().ReadAt(w.t.Context(), blob.Content{Ref: ref, Size: int64(len(want))}, got, 0); err != nil {
			if errors.Is(err, blob.ErrNotFound) && !w.used(ref) {
				continue
			}
			w.t.Errorf("content %s: %v", ref, err)
		} else if !bytes.Equal(got, want) {
			w.t.Errorf("content %s of %d bytes reads back wrong", ref, len(want))
		}
	}
}

// used reports whether any state shows the content; an amended version's first bytes are in none.
func (w *world) used(ref blob.Ref) bool {
	for p, s := range w.past {
		if w.gone[p] {
			continue
		}
		for _, n := range s {
			if n.v.Content == ref && n.v.Nlink > 0 { // of what has no name any more, collecting keeps what open files need
				return true
			}
		}
	}
	return false
}
