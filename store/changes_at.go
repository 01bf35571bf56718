package store

import (
	"context"
	"fmt"
)

const sqlChangesAt = `WITH k(n, t, q) AS (VALUES %s)
	SELECT k.n, ` + changeCols + ` FROM k CROSS JOIN change c WHERE c.timeline_id = k.t AND c.seq = k.q`

// ChangesAt finds changes by their timelines and seqs (Segment.Cut), without their items. The result has nil for those
// that do not exist.
func (s *Store) ChangesAt(ctx context.Context, at []Segment) ([]*ChangeRow, error) {
	out := make([]*ChangeRow, len(at))
	ids := make([][3]int64, len(at))
	keys := make([]any, 0, 3*len(at))
	for i, seg := range at {
		keys = append(keys, int64(i), int64(seg.Timeline), int64(seg.Cut))
	}
	c := newCells(9)
	err := keyed(ctx, s.r, sqlChangesAt, 3, keys, func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		i := c.int(0)
		out[i] = &ChangeRow{
			Timeline: TimelineID(c.int(1)), Seq: Seq(c.int(2)), OpID: c.int(3), Kind: OpKind(c.int(4)), At: c.int(5),
		}
		ids[i] = [3]int64{c.int(6), c.int(7), c.int(8)}
		return c.bad
	})
	w := newWho(s.r)
	if err == nil {
		commands := make([]CommandID, len(ids))
		for i := range ids {
			commands[i] = CommandID(ids[i][1])
		}
		err = w.preload(ctx, commands)
	}
	if err == nil {
		processes := make([]ProcessID, len(ids))
		for i := range ids {
			processes[i] = ProcessID(ids[i][2])
		}
		err = w.preloadProcesses(ctx, processes)
	}
	for i := 0; i < len(out) && err == nil; i++ {
		if out[i] != nil {
			err = w.fill(ctx, out[i], ids[i])
		}
	}
	return out, s.dbError(fmt.Sprintf("find %d changes", len(at)), err)
}

const sqlCommandAt = `SELECT c.command_id FROM change c WHERE c.timeline_id = ? AND c.seq = ?`

// CommandAt is the command that made a change, 0 if it is unknown or there is no such change.
func (s *Store) CommandAt(ctx context.Context, t TimelineID, seq Seq) (CommandID, error) {
	var id CommandID
	_, err := scanAll(ctx, s.r, 1, sqlCommandAt, []any{int64(t), int64(seq)}, func(c *cells) error {
		id = CommandID(c.int(0))
		return nil
	})
	return id, s.dbError(fmt.Sprintf("find who made change %d", seq), err)
}

// fill sets who made a change, by the ids of session, command and process, and what it takes back.
func (w *who) fill(ctx context.Context, row *ChangeRow, ids [3]int64) error {
	var err error
	if row.Kind == OpUndo || row.Kind == OpRedo {
		if row.Undoes, err = undoneBy(ctx, w.q, row.Timeline, row.Seq); err != nil {
			return err
		}
	}
	if row.Kind == OpMerge {
		if row.Merged, err = mergedBy(ctx, w.q, row.Timeline, row.Seq); err != nil {
			return err
		}
		if row.Merged == nil {
			if row.Accepted, err = scanReviews(ctx, w.q, `WHERE into_timeline_id = ? AND into_seq = ? ORDER BY path, id`, int64(row.Timeline), int64(row.Seq)); err != nil {
				return err
			}
		}
	}
	if row.Session, err = w.session(ctx, SessionID(ids[0])); err != nil {
		return err
	}
	cmd, err := w.command(ctx, CommandID(ids[1]))
	if err != nil {
		return err
	}
	if cmd != nil {
		row.Command, row.Ran = &cmd.Command, cmd
	}
	row.Process, err = w.process(ctx, ProcessID(ids[2]))
	return err
}
