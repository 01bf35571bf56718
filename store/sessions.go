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
	var parents []SessionID
	_, err := scanAll(ctx, s.r, sessionColCount+1, `SELECT `+sessionCols+`,
		(SELECT COALESCE(max(c.n), 0) FROM command c WHERE c.session_id = s.id)
		FROM session s `+sessionJoin+` WHERE s.workspace_id = ? ORDER BY s.id DESC LIMIT ?`, []any{int64(ws), int64(limit)}, func(c *cells) error {
		row, parent := c.session()
		out = append(out, SessionRow{Session: *row, Commands: int(c.int(sessionColCount))})
		parents = append(parents, parent)
		return c.bad
	})
	if err != nil {
		return nil, s.dbError("list sessions", err)
	}
	byID := make(map[SessionID]*Session, len(out))
	for i := range out {
		byID[out[i].ID] = &out[i].Session
	}
	w := newWho(s.r)
	for i, id := range parents {
		if p := byID[id]; p != nil {
			out[i].Parent = p
		} else if out[i].Parent, err = w.session(ctx, id); err != nil {
			return nil, s.dbError("list sessions", err)
		}
	}
	return out, nil
}
