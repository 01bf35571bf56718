package fs

import (
	"cmp"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// A temporary is what one command makes and, a moment later, removes again or moves to the name that it is meant for,
// while nobody else has to do with it: no other command changes or opens it, it gets no second name, nobody asks for it to
// be safe on the disk, no point of history since its birth is named, and nobody reads history. Of its short life nothing is
// left (store.Elided): a removed one has never been, a moved one was born under its last name. The rule looks only at what
// programs did and when, not at when the applier took it, so history reads the same for groups of any size.

// tempFor is how long the life of a temporary may be: as long as what a handle wrote may be amended.
const tempFor = amendFor

// maxTempSeqs bounds what is noted of one.
const maxTempSeqs = 16

// birth is what is known of an inode that may turn out to be a temporary. FS.mu guards it.
type birth struct {
	session  store.SessionID
	command  store.CommandID
	kind     store.OpKind
	at       int64 // ns
	timeline store.TimelineID
	slot     store.Slot
	parent   store.Ino
	name     string
	over     store.VersionID // what its first version says it replaced
	ghost    store.VersionID // what its name held last before it
	seqs     []store.Seq     // of its changes
	first    [1]store.Seq    // room for them
	held     blob.Ref        // of one that has gone: its content, if that is kept readable for it
}

// lives notes what op, at slot, does to n, which is about to get version v. FS.mu is held.
func (n *node) lives(op *store.Op, v *store.Version, slot store.Slot) {
	switch op.Kind {
	case store.OpCreate, store.OpSymlink, store.OpMknod:
		if v.Parent == 0 && !op.Amend && !n.shared && len(op.Names) == 1 {
			n.birth = newBirth(op, slot, birth{
				kind: op.Kind, at: op.At, parent: op.Names[0].Parent, name: op.Names[0].Name, over: v.Replaced, ghost: v.Replaced,
			})
			return
		}
	case store.OpWrite, store.OpSetattr, store.OpSetxattr, store.OpRemovexattr:
		if b := n.birth; b.of(op.Who) && op.At-b.at <= int64(tempFor) {
			if op.Amend {
				return
			}
			if len(b.seqs) < maxTempSeqs {
				b.seqs = append(b.seqs, op.Seq)
				return
			}
		}
	}
	n.birth = nil
}

// newBirth fills in what op, at slot, says; nil if nobody is known to have done it, or if a timeline begins with it.
func newBirth(op *store.Op, slot store.Slot, b birth) *birth {
	if op.Who.Command == nil || op.Who.Session == nil || op.Pointer != nil {
		return nil
	}
	b.session, b.command, b.timeline, b.slot = op.Who.Session.ID, op.Who.Command.ID, op.Timeline, slot
	n := &b
	n.first[0] = op.Seq
	n.seqs = n.first[:1:1]
	return n
}

// of reports whether b is of something that who made, as far as is known.
func (b *birth) of(who store.Attribution) bool {
	return b != nil && b.held.IsZero() && who.Command != nil && who.Session != nil && b.command == who.Command.ID &&
		b.session == who.Session.ID
}

// met notes that who opens n. FS.mu is held.
func (n *node) met(who store.Attribution) {
	if b := n.birth; b != nil && b.held.IsZero() && !b.of(who) {
		n.birth, n.shared = nil, true
	}
	if n.fresh && (n.file == nil || !sameCommand(n.file.who.Command, who.Command) || n.file.who.Session != who.Session) {
		n.shared = true
	}
}

// young reports whether n may be a temporary, so that it counts who opens it. FS.mu is held.
func (n *node) young(now time.Time) bool {
	if n.birth == nil || !n.birth.held.IsZero() {
		return n.fresh && !n.shared
	}
	if now.UnixNano()-n.birth.at > int64(tempFor) {
		n.birth = nil
		return false
	}
	return true
}

// temp is what an op of who says that ends n's name in p, nil if n is no temporary. FS.mu is held.
func (f *FS) temp(n, p *node, name string, who store.Attribution, now int64) *store.Elided {
	b := n.birth
	if !b.of(who) || n.stale || n.v.Nlink != 1 || b.timeline != f.ws.Timeline || b.parent != p.ino || b.name != name ||
		now-b.at > int64(tempFor) || b.seqs[0] <= f.pinned {
		return nil
	}
	return &store.Elided{Ino: n.ino, Kind: b.kind, Parent: b.parent, Name: b.name, Over: b.over, Seqs: b.seqs, Slot: b.slot}
}

// removeTemp is temp for a removal. A kernel may come back for what it has a reference to, so the content of one whose birth
// the database may never get is kept until nobody has; done is called with whether it turned out to be a temporary.
func (f *FS) removeTemp(n, p *node, name string, who store.Attribution, now int64) (e *store.Elided, done func(bool)) {
	b := n.birth
	if n.opens > 0 || n.dirtySince != 0 {
		return nil, func(bool) {}
	}
	if e = f.temp(n, p, name, who, now); e == nil {
		return nil, func(bool) {}
	}
	ref := n.v.Content
	held := !ref.IsZero() && f.blobs.Hold(ref)
	return e, func(gone bool) {
		if gone {
			p.dir.forgetTemp(name, b.ghost)
		}
		switch {
		case gone && held:
			n.birth = &birth{held: ref}
		case held:
			f.blobs.Release(ref)
		}
	}
}

// renamedTemp makes of a temporary, which op has just given another name, what was born under that; ghost is what the name held
// before. In another directory it is none any more. FS.mu is held.
func (n *node) renamedTemp(b *birth, op *store.Op, from, to *node, newName string, ghost store.VersionID, replaced bool, slot store.Slot) {
	from.dir.forgetTemp(b.name, b.ghost)
	n.v.Parent, n.v.Replaced = 0, cmp.Or(n.v.Replaced, b.over)
	if from != to || replaced {
		return
	}
	n.birth = newBirth(op, slot, birth{kind: b.kind, at: b.at, parent: to.ino, name: newName, over: n.v.Replaced, ghost: ghost})
}

// letGo releases what was kept for a temporary that is gone. FS.mu is held.
func (f *FS) letGo(n *node) {
	if b := n.birth; b != nil && !b.held.IsZero() {
		f.blobs.Release(b.held)
	}
	n.birth = nil
}

// forgetTemp lets the name of a temporary that went be as if it had never been. FS.mu is held.
func (d *dir) forgetTemp(name string, ghost store.VersionID) {
	if ghost != 0 {
		d.remember(name, ghost)
		return
	}
	delete(d.ghosts, name)
}
