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
	State     CommandState
	Exit      int // -1 if unknown; 128+n for signal n
}

// who finds sessions, commands and processes, each once. It is for one caller.
type who struct {
	q         querier
	sessions  map[SessionID]*Session
	commands  map[CommandID]*CommandRow
	processes map[ProcessID]*Process
	loaded    map[ProcessID]loadedProcess // by preloadProcesses
}

// loadedProcess is a process whose Parent is not set yet.
type loadedProcess struct {
	p      *Process
	parent ProcessID
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
	var parent SessionID
	_, err := scanAll(ctx, w.q, sessionColCount, `SELECT `+sessionCols+` FROM session s `+sessionJoin+` WHERE s.id = ?`, []any{int64(id)},
		func(c *cells) error {
			r, parent = c.session()
			return nil
		})
	w.sessions[id] = r // before its parent: damage may have made a circle
	if err == nil && r != nil && parent != 0 {
		r.Parent, err = w.session(ctx, parent)
	}
	return r, err
}

// sessionCols are the columns of a session, read with sessionJoin.
const (
	sessionCols = `s.id, s.name, s.workspace_id, s.agent, s.started_at, COALESCE(o.parent_id, 0), COALESCE(o.meta, ''),
		COALESCE(o.home_workspace_id, 0)`
	sessionColCount = 8
	sessionJoin     = `LEFT JOIN session_origin o ON o.session_id = s.id`
)

func (c *cells) session() (s *Session, parent SessionID) {
	return &Session{
		ID: SessionID(c.int(0)), Name: c.string(1), Workspace: WorkspaceID(c.int(2)), Agent: c.string(3), StartedAt: c.int(4),
		Meta: c.string(6), Home: WorkspaceID(c.int(7)),
	}, SessionID(c.int(5))
}

func (w *who) command(ctx context.Context, id CommandID) (*CommandRow, error) {
	if r, ok := w.commands[id]; ok || id == 0 {
		return r, nil
	}
	var r *CommandRow
	_, err := scanAll(ctx, w.q, commandColCount, `SELECT `+commandCols+` FROM command c WHERE c.id = ?`, []any{int64(id)}, func(c *cells) error {
		r = c.command()
		return nil
	})
	w.commands[id] = r
	return r, err
}

const sqlCommandsByID = `WITH k(n, id) AS (VALUES %s) SELECT ` + commandCols + ` FROM k CROSS JOIN command c WHERE c.id = k.id`

// preload finds many commands at once, for command.
func (w *who) preload(ctx context.Context, ids []CommandID) error {
	asked := make(map[CommandID]bool)
	var keys []any
	for _, id := range ids {
		if id != 0 && !asked[id] {
			asked[id] = true
			keys = append(keys, int64(0), int64(id))
		}
	}
	c := newCells(commandColCount)
	return keyed(ctx, w.q, sqlCommandsByID, 2, keys, func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		r := c.command()
		w.commands[r.ID] = r
		return c.bad
	})
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
	var err error
	if l, ok := w.loaded[id]; ok {
		r, parent = l.p, l.parent
	} else {
		_, err = scanAll(ctx, w.q, processColCount, sqlProcess, []any{int64(id)}, func(c *cells) error {
			r, parent = c.process()
			return nil
		})
	}
	if err == nil && r != nil {
		r.Parent, err = w.processAt(ctx, parent, depth+1)
	}
	w.processes[id] = r
	return r, err
}

// processCols are the columns of a process, read with processJoin.
const (
	processCols = `p.id, p.session_id, p.parent_id, p.pid, p.start_ticks, p.comm, p.argv, p.cwd, p.uid,
		COALESCE(u.process_id, 0)`
	processColCount = 10
	processJoin     = `LEFT JOIN process_unread u ON u.process_id = p.id`
	sqlProcess      = `SELECT ` + processCols + ` FROM process p ` + processJoin + ` WHERE p.id = ?`
	sqlProcesses    = `WITH k(n, id) AS (VALUES %s) SELECT ` + processCols + ` FROM k CROSS JOIN process p ` + processJoin + ` WHERE p.id = k.id`
)

func (c *cells) process() (p *Process, parent ProcessID) {
	return &Process{
		ID: ProcessID(c.int(0)), Session: SessionID(c.int(1)), PID: int(c.int(3)), StartTicks: uint64(c.int(4)),
		Comm: c.string(5), Argv: c.string(6), Cwd: c.string(7), UID: uint32(c.int(8)),
		Unread: c.int(9) != 0,
	}, ProcessID(c.int(2))
}

// preloadProcesses finds many processes at once, for process, and after them their parents, all of a generation at once.
func (w *who) preloadProcesses(ctx context.Context, ids []ProcessID) error {
	if w.loaded == nil {
		w.loaded = make(map[ProcessID]loadedProcess)
	}
	asked := make(map[ProcessID]bool)
	c := newCells(processColCount)
	for len(ids) > 0 {
		var keys []any
		for _, id := range ids {
			if id != 0 && !asked[id] {
				asked[id] = true
				keys = append(keys, int64(0), int64(id))
			}
		}
		ids = nil
		err := keyed(ctx, w.q, sqlProcesses, 2, keys, func(rows result) error {
			if err := c.scan(rows); err != nil {
				return err
			}
			p, parent := c.process()
			w.loaded[p.ID] = loadedProcess{p, parent}
			ids = append(ids, parent)
			return c.bad
		})
		if err != nil {
			return err
		}
	}
	return nil
}
