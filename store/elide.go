package store

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"syscall"

	"wsfs/blob"
)

// Elided says of an op that it ends a temporary: an inode that one command made a moment ago under a name of its own and
// that nobody else had to do with. Package fs answers for that; Append takes the mark away if somebody may have read the
// database since the birth.
//
// An unlink that has it leaves nothing: no version, no name, no change, of itself or of what it ends. A rename that has it
// becomes the birth of the inode under its new name. What an earlier group brought is taken out of the tables, so that
// history is the same whatever groups the ops came in. The seqs stay as gaps. docs/decisions/0012-elision.md says why.
type Elided struct {
	Ino    Ino
	Kind   OpKind // what made it
	Parent Ino    // of the one name that it had
	Name   string
	Over   VersionID // what it replaced when it was made
	Seqs   []Seq     // the changes that made it what it is, oldest first; no other changes name it
	Slot   Slot      // of its birth; not in the journal
}

func appendElided(b []byte, op *Op) []byte {
	e := op.Elide
	b = append(b, byte(e.Kind))
	b = putUint(b, uint64(e.Ino))
	b = putUint(b, uint64(e.Parent))
	b = putString(b, e.Name)
	b = putUint(b, uint64(e.Over))
	b = putUint(b, uint64(len(e.Seqs)))
	for _, seq := range e.Seqs {
		b = putInt(b, int64(op.Seq-seq))
	}
	return b
}

func decodeElided(d *decoder, op *Op) *Elided {
	e := &Elided{Kind: OpKind(d.byte("temporary's kind"))}
	e.Ino = Ino(d.uint("temporary's inode"))
	e.Parent = Ino(d.uint("temporary's parent"))
	e.Name = d.string("temporary's name")
	e.Over = VersionID(d.uint("temporary's replaced version"))
	e.Seqs = list(d, "temporary's changes", 1, func(d *decoder, seq *Seq) { *seq = op.Seq - Seq(d.int("temporary's change")) })
	return e
}

// worthSettling are the contents of ops that come into the database. Those of a temporary that goes with its own group are
// needed by nobody, as long as their bytes are in the ops themselves: what is in packs already may be shared.
func worthSettling(ops []*Op) []blob.Staged {
	var staged []blob.Staged
	var gone map[versionKey]bool // versions of which nothing stays; a rename that makes a birth goes with what it made
	for _, op := range slices.Backward(ops) {
		e := op.Elide
		if e == nil || op.Kind != OpUnlink && !gone[versionKey{op.Timeline, e.Ino, op.Seq}] {
			continue
		}
		if gone == nil {
			gone = make(map[versionKey]bool)
		}
		for _, seq := range e.Seqs {
			gone[versionKey{op.Timeline, e.Ino, seq}] = true
		}
	}
	for _, op := range ops {
		if len(gone) > 0 && len(op.Contents) > 0 && gone[versionKey{op.Timeline, op.lone(), op.Seq}] &&
			!slices.ContainsFunc(op.Contents, func(st blob.Staged) bool { return len(st.Packed) > 0 || st.Patch }) {
			continue
		}
		staged = append(staged, op.Contents...)
	}
	return staged
}

// lone is the one inode other than directories that op makes a version of, 0 if there are none or several.
func (op *Op) lone() (ino Ino) {
	for i := range op.Versions {
		v := &op.Versions[i]
		if v.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			continue
		}
		if ino != 0 {
			return 0
		}
		ino = v.Ino
	}
	return ino
}

// pendingChange is a change of the batch. A void one leaves a row only if a directory's version needs it.
type pendingChange struct {
	op   *Op
	id   int64
	void bool
}

// storedChange is a change of an earlier batch that has to go: one of a temporary in the directory parent.
type storedChange struct {
	timeline TimelineID
	seq      Seq
	ino      Ino
	parent   Ino
}

// elide takes what op ends out of the batch, notes what is in the tables already, and returns what is left of op.
func (a *applier) elide(op *Op, t *timelineState) *Op {
	e := op.Elide
	for _, seq := range e.Seqs {
		i := sort.Search(len(t.pend), func(i int) bool { return a.pend[t.pend[i]].op.Seq >= seq })
		if i < len(t.pend) && a.pend[t.pend[i]].op.Seq == seq {
			a.pend[t.pend[i]].void = true
		} else {
			a.stored = append(a.stored, storedChange{op.Timeline, seq, e.Ino, e.Parent})
		}
		a.versions.drop(versionKey{op.Timeline, e.Ino, seq})
	}
	a.names.elide(op.Timeline, e)
	left := *op
	left.Names = slices.DeleteFunc(slices.Clone(op.Names), func(n Name) bool { return n.Ino == 0 && n.Parent == e.Parent && n.Name == e.Name })
	if op.Kind == OpUnlink {
		left.Versions = slices.DeleteFunc(slices.Clone(op.Versions), func(v Version) bool { return v.Ino == e.Ino })
		left.Items = nil
		return &left
	}
	left.Kind, left.Versions, left.Items = e.Kind, slices.Clone(op.Versions), slices.Clone(op.Items)
	for i := range left.Versions {
		if v := &left.Versions[i]; v.Ino == e.Ino {
			v.Parent, v.Replaced = 0, cmp.Or(v.Replaced, e.Over)
		}
	}
	for i := range left.Items {
		if it := &left.Items[i]; it.Ino == e.Ino {
			*it = Item{Op: e.Kind, Ino: it.Ino, Parent: it.Parent, Name: it.Name}
		}
	}
	return &left
}

// drop takes a version out of the batch, if it is there.
func (b *versionBatch) drop(key versionKey) {
	if j, ok := b.at[key]; ok {
		b.rows[j].dropped = true
	}
}

// flushChanges turns the changes of the batch into rows. A void one whose directory's version is the last of the batch
// stays, bare and by nobody, as one does that only brings a directory's times.
func (a *applier) flushChanges() {
	var needed map[versionKey]bool
	for i := range a.pend {
		p := &a.pend[i]
		t := a.timelines[p.op.Timeline]
		if !p.void {
			a.addChange(p.op, p.id)
			t.changes++
			continue
		}
		if needed == nil {
			needed = make(map[versionKey]bool)
			for j := range a.versions.rows {
				if r := &a.versions.rows[j]; !r.dropped {
					needed[versionKey{timeline: r.timeline, seq: r.v.Seq}] = true
				}
			}
		}
		if needed[versionKey{timeline: p.op.Timeline, seq: p.op.Seq}] {
			a.addChange(&Op{Kind: OpSetattr, Timeline: p.op.Timeline, Seq: p.op.Seq, At: p.op.At}, p.id)
			t.changes++
		}
	}
	clear(a.pend)
	a.pend = a.pend[:0]
	for _, t := range a.timelines {
		t.pend = t.pend[:0]
	}
}

const (
	sqlElideVersion = `DELETE FROM file_version WHERE timeline_id = ? AND past IN (0, 1) AND ino = ? AND seq = ?`
	sqlElideItems   = `DELETE FROM change_item WHERE timeline_id = ? AND seq = ?`
	sqlElideChange  = `DELETE FROM change WHERE timeline_id = ? AND seq = ? AND NOT EXISTS (
		SELECT 1 FROM file_version v WHERE v.timeline_id = ? AND v.past IN (0, 1) AND v.ino = ? AND v.seq = ?)`
	sqlElideBare = `UPDATE change SET kind = ?, session_id = 0, command_id = 0, process_id = 0 WHERE timeline_id = ? AND seq = ?`
)

// flushStored takes what earlier batches brought of temporaries out of the tables. Its cost is that of what they brought.
func (a *applier) flushStored(ctx context.Context) error {
	for _, s := range a.stored {
		t, seq := int64(s.timeline), int64(s.seq)
		if _, err := a.w.exec(ctx, sqlElideVersion, t, int64(s.ino), seq); err != nil {
			return err
		}
		if _, err := a.w.exec(ctx, sqlElideItems, t, seq); err != nil {
			return err
		}
		res, err := a.w.exec(ctx, sqlElideChange, t, seq, t, int64(s.parent), seq)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		if n > 0 {
			a.timelines[s.timeline].changes -= n
			continue
		}
		if _, err := a.w.exec(ctx, sqlElideBare, int64(OpSetattr), t, seq); err != nil {
			return err
		}
	}
	a.stored = a.stored[:0]
	return nil
}
