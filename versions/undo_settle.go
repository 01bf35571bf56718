package versions

import (
	"bytes"
	"maps"
	"slices"

	"wsfs/store"
)

// settle forgets what others did to a name or an inode of ours and came to nothing: a command that was undone since, an
// undo that was redone. Where the state before and after is the same, nothing of theirs can be lost.
func (p *planner) settle() {
	for _, k := range p.h.order {
		p.h.names[k] = settled(p.h.names[k], func(e *nameEvent) bool { return e.mine }, func(from, to *nameEvent) bool {
			if to == nil {
				list := p.h.names[k]
				return from.after == list[len(list)-1].after
			}
			return from.after == to.before
		})
	}
	for ino, list := range p.h.inos {
		if !mineIn(list) {
			continue
		}
		p.h.inos[ino] = settled(list, func(e *inoEvent) bool { return e.mine }, func(from, to *inoEvent) bool {
			if to == nil {
				return sameVersion(from.after, p.now[ino])
			}
			return sameVersion(from.after, to.before)
		})
	}
}

// settled leaves out stretches of foreign events behind one of ours that came to nothing before the next of ours, or the
// end (nil).
func settled[E any](list []E, mine func(*E) bool, nothing func(from, to *E) bool) []E {
	var drop []bool
	last := -1
	for i := 0; i <= len(list); i++ {
		if i < len(list) && !mine(&list[i]) {
			continue
		}
		if last >= 0 && i-last > 1 {
			var to *E
			if i < len(list) {
				to = &list[i]
			}
			if nothing(&list[last], to) {
				if drop == nil {
					drop = make([]bool, len(list))
				}
				for j := last + 1; j < i; j++ {
					drop[j] = true
				}
			}
		}
		last = i
	}
	if drop == nil {
		return list
	}
	out := list[:0:0]
	for i := range list {
		if !drop[i] {
			out = append(out, list[i])
		}
	}
	return slices.Clip(out)
}

// sameVersion reports whether two versions of an inode are the same but for times and links.
func sameVersion(a, b *store.Version) bool {
	return a != nil && b != nil && a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.Content == b.Content &&
		a.Target == b.Target && a.Rdev == b.Rdev && maps.EqualFunc(a.Xattrs, b.Xattrs, bytes.Equal)
}
