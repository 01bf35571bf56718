package store

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// A mark names a point of a timeline and keeps the history up to it from being collected. Marks change by ops, as
// everything does: Op.Tags and Op.Pins.

// TagChange sets a tag, wherever one of that name was before, or removes it.
type TagChange struct {
	Tag
	Remove bool // only Workspace and Name count
}

// The kinds of Pin.
const (
	// PinMount is a past state that is mounted. Ref is the mountpoint. Pins of a daemon that died are removed by the next.
	PinMount = "mount"
	// PinTemporary is the base of a workspace that lives as long as its mount. Ref is the workspace's id.
	PinTemporary = "temporary"
	// PinApplied is a state that was equal to a host directory: it was read from there, or written there. Ref says where,
	// when and by whom, as JSON.
	PinApplied = "applied"
	// PinSession is the base of a fork that a session works in. Ref is the workspace's id, a blank, and the session's name.
	PinSession = "session"
	// PinMerge is a state that a workspace took in: what is changed there or here later is compared with it. Ref is the workspace's id,
	// a blank, and the id of the one that was taken in.
	PinMerge = "merge"
	// PinRetained is a state that the store's policy keeps of a stretch of history that is thinned out. Collecting sets and
	// removes it; it keeps no timeline that nothing else needs.
	PinRetained = "retained"
)

// Pin keeps a point for as long as something uses it. All but Expires are its identity.
type Pin struct {
	Timeline TimelineID
	Seq      Seq
	Kind     string
	Ref      string // what uses it; valid UTF-8
	Expires  int64  // ns since the epoch, 0: never by itself
}

// PinChange sets or removes a pin.
type PinChange struct {
	Pin
	Remove bool
}

// Pins lists the pins of a kind.
func (s *Store) Pins(ctx context.Context, kind string) ([]Pin, error) {
	list, err := pinsOf(ctx, s.r, kind)
	return list, s.dbError("list pins of kind "+kind, err)
}

func pinsOf(ctx context.Context, q querier, kind string) (list []Pin, err error) {
	_, err = scanAll(ctx, q, 5, `SELECT timeline_id, seq, kind, ref, expires FROM pin WHERE kind = ? ORDER BY timeline_id, seq, ref`,
		[]any{kind}, func(c *cells) error {
			list = append(list, Pin{TimelineID(c.int(0)), Seq(c.int(1)), c.string(2), c.string(3), c.int(4)})
			return nil
		})
	return list, err
}

// ChangedAt is when the newest change that v shows was made, in ns since the epoch, 0 if there is none. It looks at times
// in the order of seqs, not at their values.
func (v *View) ChangedAt(ctx context.Context) (int64, error) {
	var at int64
	path, err := v.lineage(ctx)
	if err != nil {
		return 0, v.s.dbError("find the newest change", err)
	}
	for _, seg := range path {
		found, err := scanAll(ctx, v.q, 1, `SELECT at FROM change WHERE timeline_id = ? AND seq <= ? ORDER BY seq DESC LIMIT 1`,
			[]any{int64(seg.Timeline), int64(seg.Cut)}, func(c *cells) error {
				at = c.int(0)
				return nil
			})
		if found || err != nil {
			return at, v.s.dbError("find the newest change", err)
		}
	}
	return 0, nil
}

// marks applies an op's tags and pins. Rows before it must be in the tables: what is marked is kept exactly, times of
// directories included.
func (a *applier) marks(ctx context.Context, op *Op) error {
	for i := range op.Tags {
		if err := a.tag(ctx, &op.Tags[i]); err != nil {
			return fmt.Errorf("tag %q of workspace %d: %w", op.Tags[i].Name, op.Tags[i].Workspace, err)
		}
	}
	for i := range op.Pins {
		if err := a.pin(ctx, &op.Pins[i]); err != nil {
			return fmt.Errorf("pin %q of kind %s: %w", op.Pins[i].Ref, op.Pins[i].Kind, err)
		}
	}
	return nil
}

func (a *applier) tag(ctx context.Context, t *TagChange) error {
	if t.Remove {
		_, err := a.w.exec(ctx, `DELETE FROM tag WHERE workspace_id = ? AND name = ?`, int64(t.Workspace), t.Name)
		return err
	}
	if ok, err := a.marked(ctx, t.Timeline, t.Seq); err != nil || !ok {
		return err
	}
	_, err := a.w.exec(ctx, `INSERT INTO tag (workspace_id, name, timeline_id, seq) VALUES (?, ?, ?, ?)
		ON CONFLICT (workspace_id, name) DO UPDATE SET timeline_id = excluded.timeline_id, seq = excluded.seq`,
		int64(t.Workspace), t.Name, int64(t.Timeline), int64(t.Seq))
	return err
}

func (a *applier) pin(ctx context.Context, p *PinChange) error {
	if p.Remove {
		_, err := a.w.exec(ctx, `DELETE FROM pin WHERE timeline_id = ? AND seq = ? AND kind = ? AND ref = ?`,
			int64(p.Timeline), int64(p.Seq), p.Kind, p.Ref)
		return err
	}
	if ok, err := a.marked(ctx, p.Timeline, p.Seq); err != nil || !ok {
		return err
	}
	_, err := a.w.exec(ctx, `INSERT INTO pin (timeline_id, seq, kind, ref, expires) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (timeline_id, seq, kind, ref) DO UPDATE SET expires = excluded.expires`,
		int64(p.Timeline), int64(p.Seq), p.Kind, p.Ref, p.Expires)
	return err
}

// marked refuses a point that a timeline has not reached: it could still become anything. One that was collected gets no mark, ok
// is false: it would look as if it were there. Who marks one asks first and keeps it until then (UseHistory), so that is a bug.
func (a *applier) marked(ctx context.Context, id TimelineID, seq Seq) (ok bool, err error) {
	t, err := a.timeline(ctx, id)
	if err == nil && seq > t.head {
		err = fmt.Errorf("seq %d is above the head of timeline %d, %d: %w", seq, id, t.head, syscall.EINVAL)
	}
	if err != nil || seq >= t.gc {
		return err == nil, err
	}
	if err = stillKept(ctx, a.w, id, seq, t.gc); errors.Is(err, ErrCollected) {
		a.s.o.Log.ErrorContext(ctx, "a state was marked that was collected; the mark is left out", "timeline", id, "seq", seq)
		return false, nil
	}
	return err == nil, err
}
