package store

import (
	"context"
	"fmt"
	"syscall"
)

// movePointer writes the new state of a workspace row, a line of its reflog, and the timeline that begins with it.
func (a *applier) movePointer(ctx context.Context, op *Op) error {
	p, ws := op.Pointer, &op.Pointer.Workspace
	if p.NewTimeline != nil {
		if err := a.newTimeline(ctx, p.NewTimeline); err != nil {
			return err
		}
	}
	if ws.Timeline != 0 {
		if _, err := a.timeline(ctx, ws.Timeline); err != nil {
			return fmt.Errorf("workspace %q: %w", ws.Name, err)
		}
	} else {
		if ws.BaseSeq == MaxSeq {
			return fmt.Errorf("workspace %q is based on the moving head of timeline %d: %w", ws.Name, ws.Base, syscall.EINVAL)
		}
		if _, err := a.timeline(ctx, ws.Base); err != nil {
			return fmt.Errorf("base of workspace %q: %w", ws.Name, err)
		}
	}
	base := ws.Base
	if base != 0 {
		// The timeline that owns the seq, so that equal places look equal.
		if path, err := readPath(ctx, a.w, base, ws.BaseSeq); err == nil {
			base = path[0].Timeline
		} else if ws.Timeline == 0 {
			return fmt.Errorf("base of workspace %q: %w", ws.Name, err)
		}
	}
	var timeline, dropped any
	if ws.Timeline != 0 {
		timeline = int64(ws.Timeline)
	}
	if ws.DroppedAt != 0 {
		dropped = ws.DroppedAt
	}
	if _, err := a.w.exec(ctx, `INSERT INTO workspace (id, name, timeline_id, base_timeline_id, base_seq, generation, readonly,
		parent_workspace_id, origin_path, created_at, dropped_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, timeline_id = excluded.timeline_id,
		base_timeline_id = excluded.base_timeline_id, base_seq = excluded.base_seq, generation = excluded.generation,
		readonly = excluded.readonly, parent_workspace_id = excluded.parent_workspace_id, origin_path = excluded.origin_path,
		created_at = excluded.created_at, dropped_at = excluded.dropped_at`,
		int64(ws.ID), ws.Name, timeline, int64(base), int64(ws.BaseSeq), ws.Generation, asInt(ws.ReadOnly),
		int64(ws.Parent), []byte(ws.OriginPath), ws.CreatedAt, dropped); err != nil {
		return fmt.Errorf("workspace %q: %w", ws.Name, err)
	}
	session, command, _ := op.Who.ids()
	_, err := a.w.exec(ctx, `INSERT INTO workspace_ref (workspace_id, n, generation, timeline_id, base_timeline_id, base_seq,
		why, session_id, command_id, op_id, at)
		SELECT ?, COALESCE(max(n), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM workspace_ref WHERE workspace_id = ?`,
		int64(ws.ID), ws.Generation, timeline, int64(base), int64(ws.BaseSeq), p.Why, session, command, a.lastOp, op.At,
		int64(ws.ID))
	return err
}

// newTimeline makes a timeline. Its parent is normalised to the timeline that owns the seq, so that the chain is as
// short as it can be; the chain is worked out here, whatever the op says. Merging makes it shorter afterwards.
func (a *applier) newTimeline(ctx context.Context, t *Timeline) error {
	var chain []Segment
	parent, parentSeq := t.Parent, t.ParentSeq
	if parent != 0 {
		if parentSeq == MaxSeq {
			return fmt.Errorf("timeline %d starts at the moving head of timeline %d: %w", t.ID, t.Parent, syscall.EINVAL)
		}
		var err error
		if chain, err = readPath(ctx, a.w, parent, parentSeq); err != nil {
			return err
		}
		parent = chain[0].Timeline
	}
	if t.Head < parentSeq {
		return fmt.Errorf("timeline %d starts at seq %d, before seq %d of its parent: %w", t.ID, t.Head, parentSeq, syscall.EINVAL)
	}
	_, err := a.w.exec(ctx, `INSERT INTO timeline (id, parent_id, parent_seq, head_seq, gc_seq, epoch, change_count, chain,
		hidden) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)`, int64(t.ID), int64(parent), int64(parentSeq), int64(t.Head),
		int64(t.GCSeq), t.Epoch, encodeChain(chain), asInt(t.Hidden))
	if err != nil {
		return fmt.Errorf("make timeline %d: %w", t.ID, err)
	}
	if a.s.merge.deepEnough(chain) {
		a.deep = append(a.deep, t.ID)
	}
	return nil
}

func asInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
