package fs_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// kernel stands for what a kernel caches of a mount: names, absent ones too, and attributes, each until it is told.
type kernel struct {
	w     *world
	names map[string]fs.Attr // "dir id/name"; ID 0: nothing there
	attrs map[store.Ino]fs.Attr
	dead  map[store.Ino]bool // directories that it saw removed
}

type openFile struct {
	h    *fs.Handle
	text string
}

func newKernel(w *world) *kernel {
	k := &kernel{w: w, names: map[string]fs.Attr{}, attrs: map[store.Ino]fs.Attr{}, dead: map[store.Ino]bool{}}
	w.c.Origin = w.fs.Observe(k)
	return k
}

func (k *kernel) key(dir store.Ino, name string) string { return fmt.Sprintf("%d/%s", dir, name) }

func (k *kernel) EntryChanged(dir store.Ino, name string) { delete(k.names, k.key(dir, name)) }
func (k *kernel) InodeChanged(id store.Ino)               { delete(k.attrs, id) }

func (k *kernel) Foresee() func() { return func() {} }

func (k *kernel) Moved(ev *fs.Moved) {
	for _, e := range ev.Entries {
		delete(k.names, k.key(e.Parent, e.Name))
	}
	for _, id := range ev.Inodes {
		delete(k.attrs, id)
	}
}

// look finds a name as a kernel does: from what it has, else by asking.
func (k *kernel) look(dir store.Ino, name string) (fs.Attr, bool) {
	key := k.key(dir, name)
	if a, ok := k.names[key]; ok {
		if b, ok := k.attrs[a.ID]; ok || a.ID == 0 {
			return b, a.ID != 0
		}
		b, err := k.w.fs.GetAttr(k.w.c, a.ID, nil)
		if err != nil {
			k.w.t.Errorf("node %d, which the kernel has: %v", a.ID, err)
		}
		k.attrs[a.ID] = b
		return b, true
	}
	a, err := k.w.fs.Lookup(k.w.c, dir, name)
	if err != nil {
		k.names[key] = fs.Attr{}
		return fs.Attr{}, false
	}
	k.names[key], k.attrs[a.ID] = a, a
	return a, true
}

// tree is all that can be reached, with what a reader sees.
func (k *kernel) tree(dir store.Ino, at string, out map[string]string) map[string]string {
	d, err := k.w.fs.OpenDir(k.w.c, dir)
	k.w.must(err)
	var names []string
	k.w.must(d.Read(k.w.c, 2, func(e fs.DirEntry) bool {
		names = append(names, e.Name)
		return true
	}))
	d.Close()
	for _, name := range names {
		a, ok := k.look(dir, name)
		p := path.Join(at, name)
		if !ok {
			k.w.t.Errorf("%s is listed, and the kernel believes that it is not there", p)
			continue
		}
		if k.dead[a.ID] {
			k.w.t.Errorf("%s is node %d, which the kernel saw removed", p, a.ID)
		}
		switch a.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			out[p] = fmt.Sprintf("dir %o %d", a.Mode&0o777, a.Nlink)
			k.tree(a.ID, p, out)
		case syscall.S_IFLNK:
			target, err := k.w.fs.Readlink(k.w.c, a.ID)
			k.w.must(err)
			out[p] = "link " + target
		default:
			h, err := k.w.fs.Open(k.w.c, a.ID, syscall.O_RDONLY)
			k.w.must(err)
			out[p] = fmt.Sprintf("file %o %d %q", a.Mode&0o777, a.Nlink, k.text(h, a.Size))
			h.Release(k.w.c, 0)
		}
	}
	return out
}

func (k *kernel) text(h *fs.Handle, size int64) string {
	buf := make([]byte, size)
	n, err := h.ReadAt(k.w.c, buf, 0)
	k.w.must(err)
	return string(buf[:n])
}

// remember notes the directories of which the kernel will have seen the end.
func (k *kernel) remove(dir store.Ino, name string, a fs.Attr) {
	var err error
	if a.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		if err = k.w.fs.Rmdir(k.w.c, dir, name); err == nil {
			k.dead[a.ID] = true
		}
	} else {
		err = k.w.fs.Unlink(k.w.c, dir, name)
	}
	if err == nil {
		k.names[k.key(dir, name)] = fs.Attr{}
		delete(k.attrs, a.ID)
		delete(k.attrs, dir)
	}
}

// step does one random change the way a kernel with caches sends it.
func (k *kernel) step(rng *rand.Rand, dirs []store.Ino) {
	w := k.w
	dir := dirs[rng.IntN(len(dirs))]
	name := string(rune('a' + rng.IntN(5)))
	a, have := k.look(dir, name)
	defer func() { delete(k.attrs, dir) }()
	switch n := rng.IntN(12); {
	case n < 4 && (!have || a.Mode&syscall.S_IFMT == syscall.S_IFREG):
		b, h, err := w.fs.Create(w.c, dir, name, 0o644, syscall.O_RDWR|syscall.O_TRUNC)
		w.must(err)
		_, err = h.WriteAt(w.c, []byte(fmt.Sprint("text ", rng.IntN(1000))), 0, false)
		w.must(err)
		w.must(h.Flush(w.c, 1))
		h.Release(w.c, 1)
		k.names[k.key(dir, name)] = b
		delete(k.attrs, b.ID)
	case n < 6 && !have:
		b, err := w.fs.Mkdir(w.c, dir, name, 0o755)
		w.must(err)
		k.names[k.key(dir, name)], k.attrs[b.ID] = b, b
	case n == 6 && !have:
		b, err := w.fs.Symlink(w.c, dir, name, "to-"+name)
		w.must(err)
		k.names[k.key(dir, name)], k.attrs[b.ID] = b, b
	case n < 9 && have:
		k.remove(dir, name, a)
	case n == 9 && have && rng.IntN(2) == 0:
		mode := uint32(0o600 + rng.IntN(8))
		_, err := w.fs.SetAttr(w.c, a.ID, nil, fs.SetAttr{Mode: &mode})
		w.must(err)
		delete(k.attrs, a.ID)
	case n == 10 && have && a.Mode&syscall.S_IFMT == syscall.S_IFREG:
		to, other := dirs[rng.IntN(len(dirs))], string(rune('a'+rng.IntN(5)))
		if _, had := k.look(to, other); !had {
			b, err := w.fs.Link(w.c, a.ID, to, other)
			w.must(err)
			k.names[k.key(to, other)], k.attrs[b.ID] = b, b
			delete(k.attrs, to)
		}
	case n >= 9 && have:
		to, other := dirs[rng.IntN(len(dirs))], string(rune('a'+rng.IntN(5)))
		was, had := k.look(to, other)
		if w.fs.Rename(w.c, dir, name, to, other, 0) == nil && !(had && was.ID == a.ID) {
			k.names[k.key(to, other)] = a
			k.names[k.key(dir, name)] = fs.Attr{}
			if had && was.Mode&syscall.S_IFMT == syscall.S_IFDIR {
				k.dead[was.ID] = true
			}
			delete(k.attrs, a.ID)
			delete(k.attrs, was.ID)
			delete(k.attrs, to)
		}
	}
}

func (k *kernel) dirs(dir store.Ino, list []store.Ino) []store.Ino {
	list = append(list, dir)
	for _, name := range strings.Split("abcde", "") {
		if a, ok := k.look(dir, name); ok && a.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			list = k.dirs(a.ID, list)
		}
	}
	return list
}

// point is a place of history with the tree that it had.
type point struct {
	timeline store.TimelineID
	seq      store.Seq
	tree     map[string]string
}

func compare(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if got[p] != want[p] {
			t.Errorf("%s: %s is %q, was %q", what, p, got[p], want[p])
		}
	}
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[p]; !ok {
			t.Errorf("%s: %s is %q, was not there", what, p, got[p])
		}
	}
}

const seeds = 8

// TestMoveUnderAKernel moves a workspace to and fro between points of a random history, by the pointer and by edits,
// while a kernel has cached what it has seen and programs hold files open.
func TestMoveUnderAKernel(t *testing.T) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { moveUnderAKernel(t, seed) })
		if t.Failed() {
			return
		}
	}
}

func moveUnderAKernel(t *testing.T, seed uint64) {
	w := newWorld(t)
	if seed%2 == 1 {
		w.crowd()
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	k := newKernel(w)
	ctx := context.Background()
	var points []point
	var open []openFile
	for range 40 {
		for range rng.IntN(20) {
			k.step(rng, k.dirs(store.RootIno, nil))
		}
		for range rng.IntN(3) {
			dirs := k.dirs(store.RootIno, nil)
			if a, ok := k.look(dirs[rng.IntN(len(dirs))], "a"); ok && a.Mode&syscall.S_IFMT == syscall.S_IFREG {
				h, err := w.fs.Open(w.c, a.ID, syscall.O_RDONLY)
				w.must(err)
				open = append(open, openFile{h, k.text(h, a.Size)})
			}
		}
		h, err := w.fs.Hold(ctx)
		w.must(err)
		var p point
		p.timeline, p.seq = h.At()
		p.tree = k.tree(store.RootIno, "", map[string]string{})
		points = append(points, p)
		to := points[rng.IntN(len(points))]
		for i := range open { // what programs read up to here; a write in place changes it
			a, err := w.fs.GetAttr(w.c, open[i].h.ID(), open[i].h)
			w.must(err)
			open[i].text = k.text(open[i].h, a.Size)
		}
		what := "move"
		if rng.IntN(2) == 0 {
			w.must(h.Move(ctx, fs.Move{Timeline: to.timeline, Seq: to.seq, Why: "rollback"}))
		} else {
			what = "edit"
			_, err = h.Edit(ctx, w.editTo(p, to))
			w.must(err)
		}
		h.Release()
		compare(t, fmt.Sprintf("%s to %d", what, to.seq), k.tree(store.RootIno, "", map[string]string{}), to.tree)
		for _, o := range open {
			a, err := w.fs.GetAttr(w.c, o.h.ID(), o.h)
			w.must(err)
			if got := k.text(o.h, a.Size); got != o.text {
				t.Errorf("after a %s, a handle opened before reads %q instead of %q", what, got, o.text)
			}
		}
		for _, dir := range k.dirs(store.RootIno, nil) { // a create works everywhere
			a, h, err := w.fs.Create(w.c, dir, "probe", 0o600, syscall.O_WRONLY|syscall.O_EXCL)
			if err != nil {
				t.Fatalf("create in directory %d after a %s: %v", dir, what, err)
			}
			h.Release(w.c, 0)
			k.remove(dir, "probe", a)
		}
		if t.Failed() {
			return
		}
	}
	for _, o := range open {
		o.h.Release(w.c, 0)
	}
	want := k.tree(store.RootIno, "", map[string]string{})
	w.reopen()
	compare(t, "reopened", newKernel(w).tree(store.RootIno, "", map[string]string{}), want)
}

// editTo is the edit that leads from one point to another: every name and inode that a change between them touched.
func (w *world) editTo(from, to point) *fs.Edit {
	w.t.Helper()
	ctx := context.Background()
	a, err := w.st.ViewAt(ctx, from.timeline, from.seq)
	w.must(err)
	b, err := w.st.ViewAt(ctx, to.timeline, to.seq)
	w.must(err)
	spans, err := w.st.Apart(ctx, a, b)
	w.must(err)
	e := &fs.Edit{Kind: store.OpUndo}
	names, inos := map[store.DirName]bool{}, map[store.Ino]bool{}
	for _, sp := range spans {
		w.must(w.st.Touched(ctx, sp, func(it *store.Item) error {
			inos[it.Ino] = true
			if it.Name != "" {
				names[store.DirName{Parent: it.Parent, Name: it.Name}] = true
			}
			if it.FromName != "" {
				names[store.DirName{Parent: it.FromParent, Name: it.FromName}] = true
			}
			return nil
		}))
	}
	var gone, come []store.Name
	for key := range names {
		is, err := b.Lookups(ctx, []store.DirName{key})
		w.must(err)
		// A name in a directory that is not there at the wanted point goes with it.
		if is[0].Ino == 0 {
			gone = append(gone, store.Name{Parent: key.Parent, Name: key.Name})
		} else {
			come = append(come, is[0])
			inos[is[0].Ino] = true
		}
	}
	for _, nm := range gone {
		was, err := a.Lookups(ctx, []store.DirName{{Parent: nm.Parent, Name: nm.Name}})
		w.must(err)
		if was[0].Ino != 0 {
			e.Names = append(e.Names, nm)
		}
	}
	e.Names = append(e.Names, come...)
	for ino := range inos {
		v, err := b.Version(ctx, ino)
		if err == nil && v.Nlink > 0 {
			e.Versions = append(e.Versions, *v)
		}
	}
	return e
}
