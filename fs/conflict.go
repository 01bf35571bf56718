package fs

import (
	"errors"

	"wsfs/blob"
	"wsfs/store"
)

// A write that meets what another session made becomes a version like any other, together with a conflict: whatever happens next,
// both are there and somebody is told. If the policy is to merge and the texts go together, the version has both (join.go) and the conflict
// is resolved by the same op. While others have the file open for writing, that has to wait: whoever has it open goes on at the
// places that it knows. Then the merge follows as a change of its own with the last of them.

// unmerged is a conflict that is to be merged.
type unmerged struct {
	id   store.ConflictID
	base sight        // what the writer had seen
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
		w.rules = by.rulesOf(c)
	}
	if n.fresh {
		g, ok := f.tracks.ghosts[n.replaced]
		if !ok || g.by != s.ID { // who took it away has lost it
			return nil, true, nil
		}
		w.track, w.head, w.version, w.slot = f.ghostTrack(n.replaced, g), g.content, n.replaced, f.st.Last()
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

// clashes puts a conflict into the op that makes it, if there is one, and sees to the rest; content is what was written, j what that
// is merged to, nil if it is not. FS.mu is held.
func (f *FS) clashes(ch *change, m *met, n *node, who store.Attribution, content blob.Content, j *joint) {
	if m == nil {
		return
	}
	k := f.clash(m, n, content)
	k.Resolved = j != nil && j.met
	ch.op.Conflicts = append(ch.op.Conflicts, k)
	if !k.Resolved && m.mergeable() {
		f.mergeLater(n, m.unmerged(k.ID, who))
	}
	n.birth = nil // it is no temporary: its bytes stay
	n.shared = true
}

// mayTruncate refuses to empty a file that another session has changed, where the policy says so. file.mu is held.
func (f *FS) mayTruncate(c *Call, h *Handle, fl *file) error {
	rules := h.rulesOf(c)
	if rules == nil || h.who.Session == nil || !f.tracks.on.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := h.n
	if name, _ := f.pathOf(n); n.fresh || n.stale || rules.For(name) != PolicyReject {
		return nil
	}
	m, _, err := f.meets(c, &write{who: h.who, text: func(*Call) ([]byte, error) { return nil, nil }, rules: rules, file: n,
		track: f.tracks.files[n.ino], head: fl.committed, version: n.v.ID, slot: n.slot})
	if err == nil && m != nil && m.why != store.WhyRevert {
		err = errMet("truncate", m)
	}
	return err
}

// rulesOf are those for what h does. One that was open before this process began has none of its own: those of the mount count that asks.
func (h *Handle) rulesOf(c *Call) *Rules {
	if h.rules == nil && c != nil {
		return h.f.rulesFor(h.who, c.Rules)
	}
	return h.rules
}

// metState is what a rename looked at.
type metState struct {
	target, n *node
	over, by  store.VersionID
	had, has  blob.Content
}

// meets finds out whom a rename meets: by a name that another file has, or that its session has taken from one. again: the lock was
// released, and everything has to be looked up once more. FS.mu is held.
func (r *rename) meets(who store.Attribution, flags uint32) (again bool, err error) {
	f, t := r.f, r.target
	if flags&RenameExchange != 0 { // it is not compared: docs/limits.md
		r.met, r.asked = nil, metState{}
		r.disjoin()
		return false, nil
	}
	w := r.f.nameWrite(r.c, who, r.n, t, r.to, r.newName)
	if w == nil {
		r.met, r.asked = nil, metState{}
		r.disjoin()
		return false, nil
	}
	state := metState{t, r.n, w.version, r.n.v.ID, w.head, w.content}
	if r.asked == state {
		return false, nil
	}
	r.asked = state
	r.disjoin()
	if r.knows != r.n.v.ID { // somebody else may have made it
		r.knows = r.n.v.ID
		if asked, err := f.knowPast(r.c, r.n); asked || err != nil {
			r.asked = metState{}
			return true, err
		}
	}
	if r.met, _, err = f.meets(r.c, w); err != nil {
		return false, err
	}
	if r.met == nil || r.met.policy != PolicyReject {
		r.join(who, w.content)
		return true, nil
	}
	r.n.birth, r.n.shared = nil, true // its bytes stay
	k := f.clash(r.met, w.file, w.content)
	k.Parent, k.Name = r.to.ino, r.newName
	return false, f.keepNameless(r.c, who, "rename", r.met, k)
}

// keepNameless keeps what was refused a name in a conflict, and returns EBUSY. FS.mu is held, and released meanwhile.
func (f *FS) keepNameless(c *Call, who store.Attribution, op string, m *met, k store.Conflict) error {
	slot, err := f.keepRefused(who, k, nil)
	if err == nil {
		f.mu.Unlock()
		err = f.finish(c, slot, nil)
		f.mu.Lock()
	}
	return errors.Join(errMet(op, m), err)
}

// nameWrite is what n is about to replace with a name: what target has, or what the session has taken the name from if nothing has
// it. nil: nothing that is compared. FS.mu is held.
func (f *FS) nameWrite(c *Call, who store.Attribution, n, target, parent *node, name string) *write {
	if who.Session == nil || !f.tracks.on.Load() || !n.isReg() || n.fresh {
		return nil
	}
	content := n.head()
	w := &write{who: who, content: content, text: func(c *Call) ([]byte, error) { return f.text(c, content) }, file: n, parent: parent, name: name}
	switch id := parent.dir.ghosts[name]; {
	case target != nil && (target.fresh || !target.isReg()):
		return nil
	case target != nil:
		w.file, w.track, w.head, w.version, w.slot = target, f.tracks.files[target.ino], target.head(), target.v.ID, target.slot
	default:
		g, ok := f.tracks.ghosts[id]
		if !ok || g.by != who.Session.ID || g.ino == n.ino { // who took it away has lost it; or it is back where it was
			return nil
		}
		w.track, w.head, w.version, w.slot = f.ghostTrack(id, g), g.content, id, f.st.Last()
	}
	if c != nil {
		w.rules = f.rulesFor(who, c.Rules)
	}
	return w
}

// join merges what a rename brings with what it meets, which has to be looked at again then. FS.mu is held, and released meanwhile.
func (r *rename) join(who store.Attribution, content blob.Content) {
	f := r.f
	if !r.met.mergeable() || r.joins >= maxJoins || r.n.file != nil && r.n.file.writers > 1 || r.n.v.Nlink > 1 { // its other names have the content, too
		return
	}
	r.joins++
	f.mu.Unlock()
	r.joint = f.join(r.c, content, func(c *Call) ([]byte, error) { return f.text(c, content) }, []unmerged{r.met.unmerged(0, who)})
	f.mu.Lock()
}

// disjoin gives up what was merged with something that is there no more.
func (r *rename) disjoin() {
	if r.joint != nil {
		r.f.blobs.Applied(r.joint.parts)
		r.joint = nil
	}
}

// holds takes the content lock of a file that gets another content with its name, and keeps it until letGo. It reports whether FS.mu,
// which is held, was released for that.
func (r *rename) holds() (again bool) {
	fl := r.n.file
	switch {
	case r.held != nil && fl != r.held:
		r.f.mu.Unlock()
		r.letGo() // of another file
	case r.held != nil || fl == nil || r.joint == nil || !r.joint.mixed:
		return false
	default:
		r.f.mu.Unlock()
		fl.lock(r.c)
		r.held = fl
	}
	r.f.mu.Lock()
	return true
}

// still reports whether what is held is what is to be held. FS.mu is not held.
func (r *rename) still() bool {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return r.n.file == r.held && r.n.dirtySince == 0
}

// letGo ends holds.
func (r *rename) letGo() {
	if r.held != nil {
		r.held.mu.Unlock()
		r.held = nil
	}
}

// mergeLater remembers what is to be merged. FS.mu is held.
func (f *FS) mergeLater(n *node, list ...unmerged) {
	if len(list) == 0 {
		return
	}
	if f.tracks.unmerged == nil {
		f.tracks.unmerged = map[*node][]unmerged{}
	}
	f.tracks.unmerged[n] = append(f.tracks.unmerged[n], list...)
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

// mergeNow merges what waits for it, unless somebody writes the file. The gate was passed; no lock is held.
func (f *FS) mergeNow(c *Call, n *node) {
	f.mu.Lock()
	if !f.merges(n, 1) {
		f.mu.Unlock()
		return
	}
	fl := n.content()
	f.mu.Unlock()
	fl.lock(c)
	defer fl.mu.Unlock()
	if err := f.cutLate(c, n, fl); err != nil {
		f.log.Error("merge what two sessions wrote; the conflict stays open", "file", f.label(n), "error", err)
	}
	f.mu.Lock()
	f.leaveFile(n, fl)
	f.mu.Unlock()
}
