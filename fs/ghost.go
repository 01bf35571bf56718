package fs

import (
	"slices"

	"wsfs/blob"
	"wsfs/store"
)

// ghost is a file that lost its name, as it was when it did: by another name it may go on.
type ghost struct {
	ino     store.Ino
	by      store.SessionID // who took it
	content blob.Content
	past    []store.Past // if it is known; that of the inode goes on
	seen    []sight      // and what was seen by that name, if another one is as if it had never had it
}

// lostName notes that who took the name of n. FS.mu is held.
func (f *FS) lostName(n *node, who store.Attribution) {
	if !n.isReg() || n.fresh {
		return
	}
	g := ghost{ino: n.ino, content: n.head()}
	if tr := f.tracks.files[n.ino]; tr != nil && tr.left != nil {
		g.past, g.seen, tr.left = tr.left.past, tr.left.seen, nil
	}
	f.haunts(n.v.ID, g, who)
}

// leftName notes that n has become something else with the op that gave it another name; its old name had what n was before, of
// which had is the past. FS.mu is held.
func (f *FS) leftName(n *node, dir *dir, name string, was store.VersionID, content blob.Content, had []store.Past, who store.Attribution) {
	delete(f.tracks.ghosts, n.v.ID)
	dir.remember(name, was)
	f.haunts(was, ghost{ino: n.ino, content: content, past: had}, who)
}

func (f *FS) haunts(id store.VersionID, g ghost, who store.Attribution) {
	t := &f.tracks
	if len(t.ghosts) >= maxGhosts {
		clear(t.ghosts)
	}
	if who.Session != nil {
		g.by = who.Session.ID
	}
	t.ghosts[id] = g
}

// ghostTrack is what is known of a ghost. Who has seen what became of it under another name knows what it was; what became of it is not
// its past. FS.mu is held.
func (f *FS) ghostTrack(id store.VersionID, g ghost) *track {
	of := f.tracks.files[g.ino]
	if of == nil {
		return &track{seen: slices.Clone(g.seen), past: g.past}
	}
	if of.own != nil { // by its name now it goes on from something else
		of = &track{seen: of.seen, lent: of.own.lent, past: of.own.past}
	}
	tr := &track{seen: of.sights(), past: g.past}
	if g.seen != nil {
		tr.seen = slices.DeleteFunc(tr.seen, func(s sight) bool { return s.version < id })
		for _, s := range g.seen {
			if tr.of(s.session) == nil {
				tr.seen = append(tr.seen, s)
			}
		}
	}
	for i := range tr.seen {
		if s := &tr.seen[i]; s.version >= id { // what is merged is seen as of what was there before (joined)
			s.version, s.content = id, g.content
		}
	}
	i := slices.IndexFunc(of.past, func(p store.Past) bool { return p.Version <= id })
	if i >= 0 && g.past == nil && of.past[i].Content == g.content { // losing a name brought nothing
		tr.past = of.past[i:]
	}
	return tr
}
