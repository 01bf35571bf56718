package store

import "context"

// ids are the column values, 0 for what is unknown.
func (w *Attribution) ids() (session, command, process int64) {
	if w.Session != nil {
		session = int64(w.Session.ID)
	}
	if w.Command != nil {
		command = int64(w.Command.ID)
	}
	if w.Process != nil {
		process = int64(w.Process.ID)
	}
	return session, command, process
}

// attribution inserts the sessions, processes and commands that op is the first of its journal to name. An earlier
// journal may have had them.
func (a *applier) attribution(ctx context.Context, op *Op) error {
	if op.fresh == nil {
		return nil
	}
	for _, r := range op.fresh.sessions {
		if _, err := a.w.exec(ctx, `INSERT INTO session (id, name, workspace_id, agent, started_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, int64(r.ID), r.Name, int64(r.Workspace), r.Agent, r.StartedAt); err != nil {
			return err
		}
		if r.Parent == nil && r.Meta == "" && r.Home == 0 {
			continue
		}
		parent := int64(0)
		if r.Parent != nil {
			parent = int64(r.Parent.ID)
		}
		if _, err := a.w.exec(ctx, `INSERT INTO session_origin (session_id, parent_id, meta, home_workspace_id) VALUES (?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, int64(r.ID), parent, r.Meta, int64(r.Home)); err != nil {
			return err
		}
	}
	for _, r := range op.fresh.processes {
		parent := int64(0)
		if r.Parent != nil {
			parent = int64(r.Parent.ID)
		}
		if _, err := a.w.exec(ctx, `INSERT INTO process (id, session_id, parent_id, pid, start_ticks, comm, argv, cwd, uid)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, int64(r.ID), int64(r.Session), parent, int64(r.PID),
			int64(r.StartTicks), []byte(r.Comm), []byte(r.Argv), []byte(r.Cwd), int64(r.UID)); err != nil {
			return err
		}
		if !r.Unread {
			continue
		}
		if _, err := a.w.exec(ctx, `INSERT INTO process_unread (process_id) VALUES (?) ON CONFLICT DO NOTHING`, int64(r.ID)); err != nil {
			return err
		}
	}
	for _, r := range op.fresh.commands {
		if _, err := a.w.exec(ctx, `INSERT INTO command (id, session_id, n, argv, cwd, timeline_id, seq_before, seq_after, state,
			started_at) VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, ?) ON CONFLICT DO NOTHING`, int64(r.ID), int64(r.Session), int64(r.N),
			[]byte(r.Argv), []byte(r.Cwd), r.StartedAt); err != nil {
			return err
		}
	}
	return nil
}

// ended brings the rows of commands that have ended up to date; those that changed nothing have none.
func (a *applier) ended(ctx context.Context, op *Op) error {
	for i := range op.Ended {
		e := &op.Ended[i]
		var exit any
		if e.Exit >= 0 {
			exit = int64(e.Exit)
		}
		if _, err := a.w.exec(ctx, `UPDATE command SET state = ?, exit = ?, ended_at = ? WHERE id = ?`,
			int64(e.State), exit, e.At, int64(e.Command)); err != nil {
			return err
		}
	}
	return nil
}

// span notes that op's command changed its timeline, whose head was before.
func (a *applier) span(op *Op, before Seq) {
	if op.Who.Command == nil {
		return
	}
	key := commandTimeline{op.Who.Command.ID, op.Timeline}
	c := a.commands[key]
	if c == nil {
		c = &commandSpan{before: before}
		a.commands[key] = c
		a.commandOrder = append(a.commandOrder, key)
	}
	c.end = op.Seq
}

// writeCommands brings the rows of commands up to date. A row has one span: that on the first timeline it changed.
func (a *applier) writeCommands(ctx context.Context) error {
	for _, key := range a.commandOrder {
		c := a.commands[key]
		if _, err := a.w.exec(ctx, `UPDATE command SET timeline_id = ?, seq_before = ? WHERE id = ? AND timeline_id = 0`,
			int64(key.timeline), int64(c.before), int64(key.command)); err != nil {
			return err
		}
		if _, err := a.w.exec(ctx, `UPDATE command SET seq_after = ? WHERE id = ? AND timeline_id = ?`,
			int64(c.end), int64(key.command), int64(key.timeline)); err != nil {
			return err
		}
	}
	return nil
}
