package store

import "context"

// SessionRow is a session with how many commands it has had.
type SessionRow struct {
	Session
	Commands int
}

// Sessions lists the newest sessions of a workspace, newest first, at most limit.
func (s *Store) Sessions(ctx context.Context, ws WorkspaceID, limit int) ([]SessionRow, error) {
	var out []SessionRow
	_, err := scanAll(ctx, s.r, 6, `SELECT s.id, s.name, s.workspace_id, s.agent, s.started_at,
		(SELECT COALESCE(max(c.n), 0) FROM command c WHERE c.session_id = s.id)
		FROM session s WHERE s.workspace_id = ? ORDER BY s.id DESC LIMIT ?`, []any{int64(ws), int64(limit)}, func(c *cells) error {
		out = append(out, SessionRow{
			Session: Session{
				ID: SessionID(c.int(0)), Name: c.string(1), Workspace: WorkspaceID(c.int(2)), Agent: c.string(3), StartedAt: c.int(4),
			},
			Commands: int(c.int(5)),
		})
		return c.bad
	})
	return out, s.dbError("list sessions", err)
}
