package store

import (
	"context"
	"fmt"

	"wsfs/blob"
)

// ConflictID names a conflict. Zero means "none".
type ConflictID int64

// Why there is a conflict. The words are part of the format.
const (
	// WhyStale: who wrote had seen an older content than the one it replaced, which another session had made.
	WhyStale = "stale"
	// WhyBlind: who wrote had never seen the content that it replaced, which another session had made.
	WhyBlind = "blind"
	// WhyRevert: what another session had changed was brought back to what it was, to the letter.
	WhyRevert = "revert"
	// WhyMerge: two lines of history that were brought together disagree.
	WhyMerge = "merge"
	// WhyRecovered: changes were found that do not go together with what is there.
	WhyRecovered = "recovered"
)

// Conflict is a foreign change that a write would have lost, or two changes of which only one can be. Both sides are kept: one
// of them is what stands in the workspace, the other one is in history or in Content.
//
// It comes with the op that made it (Op.Conflicts), whose attribution says who wrote, and ends with one that resolves it
// (Op.Resolves).
type Conflict struct {
	ID  ConflictID // of Store.NewConflictID
	Why string
	// Timeline is that of the op if it is 0.
	Timeline TimelineID
	Ino      Ino // of what stands in the workspace
	Parent   Ino // where it is, and its name
	Name     string
	Base     VersionID // what the writer had seen, or where two lines part; 0: unknown, or nothing
	Head     VersionID // the version that was met: the other session's
	// Content is what was written. The op brings the bytes if no version has them.
	Content blob.Ref
	// Resolved: it is resolved by the same op, and only there to be looked at.
	Resolved bool
}

// ConflictRow is a conflict as the database has it.
type ConflictRow struct {
	Conflict
	Session    SessionID // who wrote
	Command    CommandID
	At         int64 // ns
	ResolvedAt int64 // ns, 0: it is open. Equal to At: it was merged at once
}

// NewConflictID returns an id that was never used in this store.
func (s *Store) NewConflictID() ConflictID { return ConflictID(s.ids.take(idConflict)) }

// SeenRow is what a session last read or wrote of a file. Version 0: forget it.
type SeenRow struct {
	Session SessionID
	Ino     Ino
	Version VersionID
}

// conflicts writes down what op says of conflicts, and what sessions have seen. Whatever was applied before is left alone.
func (a *applier) conflicts(ctx context.Context, op *Op) error {
	session, command, _ := op.Who.ids()
	for n := range op.Conflicts {
		c := &op.Conflicts[n]
		// One of an op has the op's number. Numbers below zero are those of no op.
		id := a.lastOp
		if n > 0 || id == 0 {
			id = -int64(c.ID)
		}
		timeline := c.Timeline
		if timeline == 0 {
			timeline = op.Timeline
		}
		var content, resolved any
		if !c.Content.IsZero() {
			ref := c.Content
			if now, ok := a.versions.settled[ref]; ok {
				ref = now
			}
			content = ref[:]
		}
		if c.Resolved {
			resolved = op.At
		}
		if _, err := a.w.exec(ctx, `INSERT INTO conflict (id, op_id, timeline_id, ino, parent_ino, name, base_version_id, head_version_id,
			content_hash, session_id, command_id, why, at, resolved_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, int64(c.ID), id, int64(timeline), int64(c.Ino), int64(c.Parent), []byte(c.Name), int64(c.Base),
			int64(c.Head), content, session, command, c.Why, op.At, resolved); err != nil {
			return fmt.Errorf("a conflict: %w", err)
		}
	}
	for _, id := range op.Resolves {
		at := op.At
		if id < 0 { // merged at once
			id, at = -id, 0
		}
		if _, err := a.w.exec(ctx, `UPDATE conflict SET resolved_at = CASE ? WHEN 0 THEN at ELSE ? END WHERE id = ? AND resolved_at IS NULL`,
			at, at, int64(id)); err != nil {
			return fmt.Errorf("resolve a conflict: %w", err)
		}
	}
	for i := range op.Seen {
		r := &op.Seen[i]
		q, args := `INSERT INTO seen (session_id, ino, version_id) VALUES (?, ?, ?)
			ON CONFLICT (session_id, ino) DO UPDATE SET version_id = excluded.version_id`, []any{int64(r.Session), int64(r.Ino), int64(r.Version)}
		if r.Version == 0 {
			q, args = `DELETE FROM seen WHERE session_id = ? AND ino = ?`, args[:2]
		}
		if _, err := a.w.exec(ctx, q, args...); err != nil {
			return fmt.Errorf("what a session has seen: %w", err)
		}
	}
	return nil
}

func appendConflicts(b []byte, op *Op) []byte {
	b = putUint(b, uint64(len(op.Conflicts)))
	for i := range op.Conflicts {
		c := &op.Conflicts[i]
		b = putUint(b, uint64(c.ID))
		b = putString(b, c.Why)
		b = putUint(b, uint64(c.Timeline))
		b = putUint(b, uint64(c.Ino))
		b = putUint(b, uint64(c.Parent))
		b = putString(b, c.Name)
		b = putUint(b, uint64(c.Base))
		b = putUint(b, uint64(c.Head))
		b = append(b, c.Content[:]...)
		b = putBool(b, c.Resolved)
	}
	b = putUint(b, uint64(len(op.Resolves)))
	for _, id := range op.Resolves {
		b = putInt(b, int64(id))
	}
	b = putUint(b, uint64(len(op.Seen)))
	for i := range op.Seen {
		r := &op.Seen[i]
		b = putUint(b, uint64(r.Session))
		b = putUint(b, uint64(r.Ino))
		b = putUint(b, uint64(r.Version))
	}
	return b
}

func decodeConflicts(d *decoder, op *Op) {
	op.Conflicts = list(d, "conflicts", 9+len(blob.Ref{}), func(d *decoder, c *Conflict) {
		c.ID = ConflictID(d.uint("conflict"))
		c.Why = d.string("why there is a conflict")
		c.Timeline = TimelineID(d.uint("conflict's timeline"))
		c.Ino = Ino(d.uint("conflict's inode"))
		c.Parent = Ino(d.uint("conflict's directory"))
		c.Name = d.string("conflict's name")
		c.Base = VersionID(d.uint("conflict's base"))
		c.Head = VersionID(d.uint("conflict's head"))
		copy(c.Content[:], d.raw("conflict's content", len(c.Content)))
		c.Resolved = d.bool("conflict resolved")
	})
	op.Resolves = list(d, "resolved conflicts", 1, func(d *decoder, id *ConflictID) { *id = ConflictID(d.int("resolved conflict")) })
	op.Seen = list(d, "what was seen", 3, func(d *decoder, r *SeenRow) {
		r.Session = SessionID(d.uint("session that has seen"))
		r.Ino = Ino(d.uint("inode that was seen"))
		r.Version = VersionID(d.uint("version that was seen"))
	})
}

// conflicting reports whether the op says anything of conflicts or of what was seen.
func (op *Op) conflicting() bool { return len(op.Conflicts)+len(op.Resolves)+len(op.Seen) > 0 }
