package store

import (
	"context"
	"fmt"
)

// CommandRow is a command with where it began and ended on its timeline.
type CommandRow struct {
	Command
	Timeline  TimelineID // the first one it changed; 0 if it changed nothing
	SeqBefore Seq        // the state just before its first change
	SeqAfter  Seq        // the state just after its last change so far
	EndedAt   int64      // ns, 0 if unknown
	Exit      int        // -1 if unknown
}

// who finds sessions, commands and processes, each once. It is for one caller.
type who struct {
	q         querier
	sessions  map[SessionID]*Session
	commands  map[CommandID]*CommandRow
	processes map[ProcessID]*Process
}

func newWho(q querier) *who {
	return &who{
		q: q, sessions: make(map[SessionID]*Session), commands: make(map[CommandID]*CommandRow),
		processes: make(map[ProcessID]*Process),
	}
}

// session returns nil for 0 and for a row that is missing; so do command and process.
func (w *who) session(ctx context.Context, id SessionID) (*Session, error) {
	if r, ok := w.sessions[id]; ok || id == 0 {
		return r, nil
	}
	var r *Session
	_, err := scanAll(ctx, w.q, 5, `SELECT id, name, workspace_id, agent, started_at FROM session WHERE id = ?`, []any{int64(id)},
		func(c *cells) error {
			r = &Session{
				ID: SessionID(c.int(0)), Name: c.string(1), Workspace: WorkspaceID(c.int(2)), Agent: c.string(3),
				StartedAt: c.int(4),
			}
			return nil
		})
	w.sessions[id] = r
	return r, err
}

func (w *who) command(ctx context.Context, id CommandID) (*CommandRow, error) {
	if r, ok := w.commands[id]; ok || id == 0 {
		return r, nil
	}
	var r *CommandRow
	_, err := scanAll(ctx, w.q, 11, `SELECT id, session_id, n, argv, cwd, started_at, timeline_id, seq_before, seq_after, ended_at,
		exit FROM command WHERE id = ?`, []any{int64(id)}, func(c *cells) error {
		r = &CommandRow{
			Command: Command{
				ID: CommandID(c.int(0)), Session: SessionID(c.int(1)), N: int(c.int(2)), Argv: c.string(3), Cwd: c.string(4),
				StartedAt: c.int(5),
			},
			Timeline: TimelineID(c.int(6)), SeqBefore: Seq(c.int(7)), SeqAfter: Seq(c.int(8)), EndedAt: c.int(9), Exit: -1,
		}
		if !c.null(10) {
			r.Exit = int(c.int(10))
		}
		return nil
	})
	w.commands[id] = r
	return r, err
}

// maxAncestors bounds a process chain that damage has made a circle.
const maxAncestors = 1000

func (w *who) process(ctx context.Context, id ProcessID) (*Process, error) {
	return w.processAt(ctx, id, 0)
}

func (w *who) processAt(ctx context.Context, id ProcessID, depth int) (*Process, error) {
	if r, ok := w.processes[id]; ok || id == 0 {
		return r, nil
	}
	if depth > maxAncestors {
		return nil, fmt.Errorf("process %d has more than %d ancestors: %w", id, maxAncestors, ErrCorrupt)
	}
	var r *Process
	var parent ProcessID
	_, err := scanAll(ctx, w.q, 9, `SELECT id, session_id, parent_id, pid, start_ticks, comm, argv, cwd, uid FROM process
		WHERE id = ?`, []any{int64(id)}, func(c *cells) error {
		parent = ProcessID(c.int(2))
		r = &Process{
			ID: ProcessID(c.int(0)), Session: SessionID(c.int(1)), PID: int(c.int(3)), StartTicks: uint64(c.int(4)),
			Comm: c.string(5), Argv: c.string(6), Cwd: c.string(7), UID: uint32(c.int(8)),
		}
		return nil
	})
	if err == nil && r != nil {
		r.Parent, err = w.processAt(ctx, parent, depth+1)
	}
	w.processes[id] = r
	return r, err
}
