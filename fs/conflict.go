package fs

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"wsfs/blob"
	"wsfs/store"
)

// A write that meets what another session made becomes a version like any other, together with an open conflict: whatever
// happens next, both are there and somebody is told. If the policy is to merge, that follows as a change of its own once nobody has the
// file open for writing any more, because whoever has goes on at the places that it knows. The merged version has the written one and the one
// that was met for parents, and resolves the conflict.

// unmerged is a conflict that is to be merged.
type unmerged struct {
	id   store.ConflictID
	base blob.Content // what the writer had seen
	head blob.Content // what was met
	met  store.VersionID
	path string
	who  store.Attribution
}

// meetsCut is meets for a cut that brings content. knows: the writer has seen all of what there will be. file.mu is held.
func (f *FS) meetsCut(c *Call, n *node, fl *file, by *Handle, content blob.Content) (m *met, knows bool, err error) {
	s := fl.who.Session
	if s == nil || !f.tracks.on.Load() {
		return nil, false, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w := write{who: fl.who, content: content, text: f.textOf(fl), file: n, track: f.tracks.files[n.ino], head: fl.committed,
		version: n.v.ID, slot: n.slot}
	if by != nil {
		w.rules = by.rules
	}
	if n.fresh {
		g, ok := f.tracks.ghosts[n.replaced]
		if !ok || g.by != s.ID { // who took it away has lost it
			return nil, true, nil
		}
		w.track, w.head, w.version, w.slot = f.tracks.files[g.ino], g.content, n.replaced, f.st.Last()
		m, _, err = f.meets(c, &w)
		return m, true, err
	}
	if !fl.whole() {
		e := w.track.of(s.ID)
		return nil, e != nil && e.content == w.head, nil
	}
	m, _, err = f.meets(c, &w)
	return m, true, err
}

// clash is the conflict of n, in the op that leads to it. FS.mu is held.
func (f *FS) clash(m *met, n *node, content blob.Content) store.Conflict {
	return store.Conflict{
		ID: f.st.NewConflictID(), Why: m.why, Ino: n.ino, Parent: n.parent, Name: n.name, Base: m.base.version, Head: m.head.Version,
		Content: content.Ref,
	}
}

// clashes puts a conflict into the op that makes it, if there is one, and sees to the rest. FS.mu is held.
func (f *FS) clashes(ch *change, m *met, n *node, who store.Attribution, content blob.Content) {
	if m == nil {
		return
	}
	k := f.clash(m, n, content)
	ch.op.Conflicts = append(ch.op.Conflicts, k)
	f.mergeLater(m, n, k.ID, who)
	n.birth = nil // it is no temporary: its bytes stay
	n.shared = true
}

// mayTruncate refuses to empty a file that another session has changed, where the policy says so. file.mu is held.
func (f *FS) mayTruncate(c *Call, h *Handle, fl *file) error {
	if h.rules == nil || h.who.Session == nil || !f.tracks.on.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := h.n
	if name, _ := f.pathOf(n); n.fresh || n.stale || h.rules.For(name) != PolicyReject {
		return nil
	}
	m, _, err := f.meets(c, &write{who: h.who, text: func(*Call) ([]byte, error) { return nil, nil }, rules: h.rules, file: n,
		track: f.tracks.files[n.ino], head: fl.committed, version: n.v.ID, slot: n.slot})
	if err == nil && m != nil && m.why != store.WhyRevert {
		err = errMet("truncate", m)
	}
	return err
}

// metState is what a rename looked at.
type metState struct {
	target, n *node
	over, by  store.VersionID
}

// meets finds out whom a rename over a file meets. again: the lock was released, and everything has to be looked up once
// more. FS.mu is held.
func (r *rename) meets(who store.Attribution, flags uint32) (again bool, err error) {
	f, t := r.f, r.target
	if flags&RenameExchange != 0 || t == nil || t.fresh || !t.isReg() || !r.n.isReg() || who.Session == nil || !f.tracks.on.Load() {
		r.met = nil
		return false, nil
	}
	state := metState{t, r.n, t.v.ID, r.n.v.ID}
	if r.asked == state {
		return false, nil
	}
	r.asked = state
	content := r.n.head()
	w := &write{who: who, content: content, text: func(c *Call) ([]byte, error) { return f.text(c, content) }, file: t,
		track: f.tracks.files[t.ino], head: t.head(), version: t.v.ID, slot: t.slot}
	if r.c != nil {
		w.rules = r.c.Rules
	}
	if r.met, _, err = f.meets(r.c, w); err != nil {
		return false, err
	}
	if r.met == nil || r.met.policy != PolicyReject {
		return true, nil
	}
	r.n.birth, r.n.shared = nil, true // its bytes stay
	slot, err := f.keepRefused(who, f.clash(r.met, t, content), nil)
	if err == nil {
		f.mu.Unlock()
		err = f.finish(r.c, slot, nil)
		f.mu.Lock()
	}
	return false, errors.Join(errMet("rename", r.met), err)
}

// mergeLater remembers what is to be merged. FS.mu is held.
func (f *FS) mergeLater(m *met, n *node, id store.ConflictID, who store.Attribution) {
	if m.policy != PolicyMerge || m.why != store.WhyStale || m.base.version == 0 {
		return
	}
	if f.tracks.unmerged == nil {
		f.tracks.unmerged = map[*node][]unmerged{}
	}
	f.tracks.unmerged[n] = append(f.tracks.unmerged[n],
		unmerged{id: id, base: m.base.content, head: m.head.Content, met: m.head.Version, path: m.path, who: who})
}

// refuse gives a file back the content that it had, and keeps what was written in a conflict. file.mu is held. It returns EBUSY.
func (f *FS) refuse(c *Call, n *node, fl *file, m *met, content blob.Content, parts []blob.Staged) error {
	f.mu.Lock()
	slot, err := f.keepRefused(fl.who, f.clash(m, n, content), parts)
	if err != nil {
		f.mu.Unlock()
		f.blobs.Applied(parts)
		return err
	}
	n.v.Content, n.v.Size, n.v.Holes, n.dirtySince = fl.committed.Ref, fl.committed.Size, fl.committedHoles, 0
	delete(f.dirty, n)
	fl.changed, fl.written = false, false
	if fl.by != nil {
		fl.by.refused = true
	}
	f.announceInode(nil, n) // the mount that it came by has other pages, too
	f.mu.Unlock()
	fl.drop()
	fl.base, fl.limit, fl.size, fl.valid, fl.validBytes = fl.committed, fl.committed.Size, fl.committed.Size, nil, 0
	err = f.finish(c, slot, nil)
	f.noteClean(n, fl, err)
	return errors.Join(errMet("write", m), err)
}

// keepRefused appends a conflict that changes nothing. FS.mu is held.
func (f *FS) keepRefused(who store.Attribution, k store.Conflict, parts []blob.Staged) (store.Slot, error) {
	if k.Timeline = f.ws.Timeline; k.Timeline == 0 {
		k.Timeline = f.ws.Base
	}
	return f.st.Append(&store.Op{Who: who, At: f.now().UnixNano(), Contents: parts, Conflicts: []store.Conflict{k}})
}

// merges reports whether something of n waits to be merged, and nobody but that many handles may write it. FS.mu is held.
func (f *FS) merges(n *node, writers int) bool {
	return len(f.tracks.unmerged[n]) > 0 && (n.file == nil || n.file.writers <= writers)
}

// mergeNow merges what waits for it, unless somebody writes the file again. The gate was passed; no lock is held.
func (f *FS) mergeNow(c *Call, n *node, writers int) {
	f.mu.Lock()
	if !f.merges(n, writers) {
		f.mu.Unlock()
		return
	}
	fl := n.content()
	f.mu.Unlock()
	fl.lock(c)
	defer fl.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.file != fl || !f.merges(n, writers) || n.dirtySince != 0 {
		return
	}
	list := f.tracks.unmerged[n]
	delete(f.tracks.unmerged, n)
	for i := range list {
		if n.gone || n.stale {
			break
		}
		if err := f.mergeOne(c, n, fl, &list[i]); err != nil {
			f.log.Error("merge what two sessions wrote; the conflict stays open", "path", list[i].path, "conflict", list[i].id, "error", err)
		}
	}
	f.leaveFile(n, fl)
}

// mergeOne makes the version that has both. Both locks are held; FS.mu is released meanwhile.
func (f *FS) mergeOne(c *Call, n *node, fl *file, u *unmerged) error {
	f.mu.Unlock()
	merged, now, err := f.mergeTexts(c, fl, u)
	var parts []blob.Staged
	if err == nil && merged != nil && !bytes.Equal(merged, now) {
		parts, err = f.stageText(merged)
	}
	f.mu.Lock()
	if err != nil || merged == nil {
		return err
	}
	if n.gone || n.stale || n.dirtySince != 0 {
		f.blobs.Applied(parts)
		return nil
	}
	if bytes.Equal(merged, now) { // it has all that was met already
		_, err := f.st.Append(&store.Op{Who: u.who, At: f.now().UnixNano(), Resolves: []store.ConflictID{-u.id}})
		return err
	}
	content := contentOf(parts)
	ch := f.begin(nil, store.OpWrite, u.who) // nil: the mount that it came by has other pages, too
	v := ch.version(n)
	v.Content, v.Size, v.Holes, v.Mtime, v.Ctime, v.Merge = content.Ref, content.Size, 0, ch.now, ch.now, u.met
	ch.item(store.OpWrite, n, nil, "")
	ch.op.Contents, ch.op.Resolves = parts, []store.ConflictID{-u.id}
	slot, err := ch.commit()
	if err != nil {
		f.blobs.Applied(parts)
		return err
	}
	n.draft = draft{}
	fl.committed, fl.committedHoles, fl.changed, fl.written = content, 0, false, false
	fl.drop()
	fl.base, fl.limit, fl.size, fl.valid, fl.validBytes = content, content.Size, content.Size, nil, 0
	f.mu.Unlock()
	err = f.st.Wait(slot)
	f.mu.Lock()
	return err
}

// mergeTexts brings what the file has and what was met together, nil if they do not go.
func (f *FS) mergeTexts(c *Call, fl *file, u *unmerged) (merged, now []byte, err error) {
	if fl.size > mergeMax || u.base.Size > mergeMax || u.head.Size > mergeMax {
		return nil, nil, nil
	}
	if now, err = f.textOf(fl)(c); err != nil {
		return nil, nil, err
	}
	base, err := f.text(c, u.base)
	if err != nil {
		return nil, nil, err
	}
	head, err := f.text(c, u.head)
	if err != nil {
		return nil, nil, err
	}
	merged, ok := MergeText(u.path, base, now, head)
	if !ok {
		return nil, now, nil
	}
	return merged, now, nil
}

// stageText stores a text; none is needed if it is empty.
func (f *FS) stageText(text []byte) ([]blob.Staged, error) {
	switch {
	case len(text) == 0:
		return nil, nil
	case len(text) <= blob.MaxBlob:
		return []blob.Staged{f.blobs.StageSmall(slices.Clone(text))}, nil
	}
	st, _, err := f.blobs.Edit(context.Background(), blob.Content{}, int64(len(text)), extents{{Off: 0, Len: int64(len(text))}}, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return []blob.Staged{st}, nil
}
