package store

import (
	"context"
	"fmt"
)

// CommandQuery selects commands. The zero value of every field but Workspace means "any".
type CommandQuery struct {
	Workspace WorkspaceID
	Session   SessionID
	Limit     int // at most so many; 0: all
}

const commandCols = `c.id, c.session_id, c.n, c.argv, c.cwd, c.started_at, c.timeline_id, c.seq_before, c.seq_after, c.ended_at, c.exit, c.state`

const commandColCount = 12

func (c *cells) command() *CommandRow {
	r := &CommandRow{
		Command: Command{
			ID: CommandID(c.int(0)), Session: SessionID(c.int(1)), N: int(c.int(2)), Argv: c.string(3), Cwd: c.string(4),
			StartedAt: c.int(5),
		},
		Timeline: TimelineID(c.int(6)), SeqBefore: Seq(c.int(7)), SeqAfter: Seq(c.int(8)), EndedAt: c.int(9), Exit: -1,
		State: CommandState(c.int(11)),
	}
	if !c.null(10) {
		r.Exit = int(c.int(10))
	}
	return r
}

// Commands calls fn with the commands of a workspace's sessions that changed something, newest first, and stops at the
// first error, which it returns.
func (s *Store) Commands(ctx context.Context, q CommandQuery, fn func(*CommandRow) error) error {
	query, args := `SELECT `+commandCols+` FROM session s CROSS JOIN command c WHERE s.workspace_id = ? AND c.session_id = s.id`,
		[]any{int64(q.Workspace)}
	if q.Session != 0 {
		query, args = query+` AND s.id = ?`, append(args, int64(q.Session))
	}
	query += ` ORDER BY c.id DESC`
	if q.Limit > 0 {
		query, args = query+` LIMIT ?`, append(args, int64(q.Limit))
	}
	var rows []*CommandRow
	_, err := scanAll(ctx, s.r, commandColCount, query, args, func(c *cells) error {
		rows = append(rows, c.command())
		return c.bad
	})
	if err != nil {
		return s.dbError(fmt.Sprintf("list the commands of workspace %d", q.Workspace), err)
	}
	for _, r := range rows { // outside of the query: fn may read too
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}
