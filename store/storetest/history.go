package storetest

import (
	"fmt"
	"syscall"

	"wsfs/store"
)

// step does something at random to a tree.
func (w *world) step(t *tree) {
	w.t.Helper()
	ctx, rnd := w.t.Context(), w.rnd
	w.writable(t)
	dirs := t.dirs()
	dir := dirs[rnd.IntN(len(dirs))]
	name := w.name()
	taken := t.now[dir].kids[name] != 0
	file := func(v *store.Version) bool { return v.Type() == syscall.S_IFREG }
	switch n := rnd.IntN(100); {
	case n < 12 && !taken:
		t.create(dir, name, syscall.S_IFDIR|0o755, func(*store.Version) {})
	case n < 35 && !taken:
		c := w.content(ctx)
		t.create(dir, name, syscall.S_IFREG|0o644, func(v *store.Version) { c.into(v, t.op) })
	case n < 38 && !taken:
		t.create(dir, name, syscall.S_IFLNK|0o777, func(v *store.Version) { v.Target, v.Size = "../"+name, int64(3+len(name)) })
	case n < 39 && !taken:
		t.create(dir, name, syscall.S_IFIFO|0o600, func(*store.Version) {})
	case n < 50:
		if d, nm, ok := t.pick(rnd, file); ok {
			t.write(d, nm, w.content(ctx))
		}
	case n < 58 && !taken:
		if d, nm, ok := t.pick(rnd, file); ok {
			t.link(t.now[d].kids[nm], dir, name)
		}
	case n < 75:
		if d, nm, ok := t.pick(rnd, func(v *store.Version) bool { return !v.IsDir() || len(t.now[v.Ino].kids) == 0 }); ok {
			t.remove(d, nm)
		}
	case n < 88:
		w.renames(t, dir, name)
	case n < 91:
		w.exchanges(t)
	case n < 96:
		if d, nm, ok := t.pick(rnd, nil); ok {
			w.attributes(t, d, nm)
		}
	case n < 98:
		if d, nm, ok := t.pick(rnd, file); ok {
			if v := &t.now[t.now[d].kids[nm]].v; v.Origin == t.ws.Timeline && v.Seq > w.pinned[t.ws.Timeline] {
				t.amend(v.Ino, w.content(ctx))
			}
		}
	default:
		w.saveByRename(t, dir)
	}
}

// renames moves something to name in dir, over what is there if POSIX lets it.
func (w *world) renames(t *tree, dir store.Ino, name string) {
	from, old, ok := t.pick(w.rnd, nil)
	if !ok {
		return
	}
	ino, over := t.now[from].kids[old], t.now[dir].kids[name]
	v := &t.now[ino].v
	switch {
	case ino == over || v.IsDir() && t.below(dir, ino):
		return
	case over != 0 && (v.IsDir() != t.now[over].v.IsDir() || len(t.now[over].kids) > 0):
		return
	}
	t.rename(from, old, dir, name)
}

func (w *world) exchanges(t *tree) {
	a, an, ok := t.pick(w.rnd, nil)
	b, bn, ok2 := t.pick(w.rnd, nil)
	if !ok || !ok2 {
		return
	}
	x, y := t.now[a].kids[an], t.now[b].kids[bn]
	if x == y || t.now[x].v.IsDir() && t.below(b, x) || t.now[y].v.IsDir() && t.below(a, y) {
		return
	}
	t.exchange(a, an, b, bn)
}

func (w *world) attributes(t *tree, dir store.Ino, name string) {
	t.setattr(t.now[dir].kids[name], dir, name, func(v *store.Version) {
		switch w.rnd.IntN(3) {
		case 0:
			v.Mode = v.Mode&syscall.S_IFMT | uint32(w.rnd.IntN(0o10000))
		case 1:
			v.Mtime, v.Atime = 1_000_000_007, 2_000_000_011
		case 2:
			v.Xattrs = map[string][]byte{"user.a": {}, fmt.Sprint("user.", w.rnd.IntN(3)): []byte("v\x00\xff")}
		}
	})
}

// saveByRename is what an editor does: a temporary file renamed over the target.
func (w *world) saveByRename(t *tree, dir store.Ino) {
	tmp := fmt.Sprint(".tmp", w.names)
	w.names++
	if t.now[dir].kids[tmp] != 0 {
		return
	}
	c := w.content(w.t.Context())
	t.create(dir, tmp, syscall.S_IFREG|0o644, func(v *store.Version) { c.into(v, t.op) })
	over := t.now[dir].kids["a"]
	if over != 0 && t.now[over].v.IsDir() {
		t.remove(dir, tmp)
		return
	}
	t.rename(dir, tmp, dir, "a")
}

// live runs steps ops on all trees, forking and rolling back on the way, and compares the heads now and then.
func (w *world) live(steps int) {
	w.t.Helper()
	for range steps {
		t := w.trees[w.rnd.IntN(len(w.trees))]
		switch n := w.rnd.IntN(100); {
		case n < 2 && len(w.trees) < 8:
			w.fork(t, w.forkName(), t.place())
		case n < 3 && len(w.trees) < 8:
			w.fork(t, w.forkName(), w.somewhere(t))
		case n < 4:
			w.rollback(t, w.somewhere(t))
		default:
			w.step(t)
		}
		if w.rnd.IntN(steps/4+1) == 0 {
			w.settle()
			w.compareHeads()
		}
	}
	w.settle()
}
