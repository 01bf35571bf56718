package store

import (
	"context"

	"wsfs/blob"
)

// OpenConflicts is how many conflicts nobody has resolved.
func (s *Store) OpenConflicts(ctx context.Context) (n int64, err error) {
	_, err = scanAll(ctx, s.r, 1, `SELECT count(*) FROM conflict WHERE resolved_at IS NULL`, nil, func(c *cells) error {
		n = c.int(0)
		return nil
	})
	return n, s.dbError("count conflicts", err)
}

// ConflictQuery says which conflicts are wanted.
type ConflictQuery struct {
	Workspace WorkspaceID // those that it met; 0: of all
	ID        ConflictID  // this one alone
	Resolved  bool        // also those that are resolved
	After     ConflictID  // with larger numbers
	Oldest    bool        // the oldest first, as with After
	Limit     int         // the newest so many, with After the oldest; 0: all
	// ResolvedAfter, if not 0: those that somebody resolved after that moment (ns), in that order; not those that were merged at once.
	ResolvedAfter int64
}

// A conflict is of the workspace that the timeline is of, or that its session works in: a fork has no timeline at first.
const sqlConflictOf = ` AND (timeline_id IN (SELECT timeline_id FROM workspace_ref WHERE workspace_id = ?) OR EXISTS (SELECT 1 FROM session s
	LEFT JOIN session_origin o ON o.session_id = s.id WHERE s.id = conflict.session_id
	AND CASE COALESCE(o.home_workspace_id, 0) WHEN 0 THEN s.workspace_id ELSE o.home_workspace_id END = ?))`

// Conflicts lists conflicts, newest first; oldest first if the query says After.
func (s *Store) Conflicts(ctx context.Context, q ConflictQuery) ([]ConflictRow, error) {
	query := `SELECT id, timeline_id, ino, parent_ino, name, base_version_id, head_version_id, content_hash, session_id, command_id,
		why, at, resolved_at FROM conflict WHERE id > ?`
	args := []any{int64(q.After)}
	if q.ID != 0 {
		query, args = query+` AND id = ?`, append(args, int64(q.ID))
	}
	if q.ResolvedAfter != 0 {
		query, args = query+` AND resolved_at > ? AND resolved_at <> at`, append(args, q.ResolvedAfter)
	} else if !q.Resolved {
		query += ` AND resolved_at IS NULL`
	}
	if q.Workspace != 0 {
		query, args = query+sqlConflictOf, append(args, int64(q.Workspace), int64(q.Workspace))
	}
	if q.ResolvedAfter != 0 {
		query += ` ORDER BY resolved_at, id`
	} else if q.After > 0 || q.Oldest {
		query += ` ORDER BY id`
	} else {
		query += ` ORDER BY id DESC`
	}
	if q.Limit > 0 {
		query, args = query+` LIMIT ?`, append(args, int64(q.Limit))
	}
	var list []ConflictRow
	_, err := scanAll(ctx, s.r, 13, query, args, func(c *cells) error {
		list = append(list, ConflictRow{
			Conflict: Conflict{
				ID: ConflictID(c.int(0)), Timeline: TimelineID(c.int(1)), Ino: Ino(c.int(2)), Parent: Ino(c.int(3)), Name: c.string(4),
				Base: VersionID(c.int(5)), Head: VersionID(c.int(6)), Content: c.ref(7), Why: c.string(10), Resolved: !c.null(12),
			},
			Session: SessionID(c.int(8)), Command: CommandID(c.int(9)), At: c.int(11), ResolvedAt: c.int(12),
		})
		return c.bad
	})
	return list, s.dbError("list conflicts", err)
}

// LastResolved is when somebody last resolved a conflict of a workspace, 0: never. ns.
func (s *Store) LastResolved(ctx context.Context, ws WorkspaceID) (at int64, err error) {
	_, err = scanAll(ctx, s.r, 1, `SELECT COALESCE(max(resolved_at), 0) FROM conflict WHERE resolved_at <> at`+sqlConflictOf, []any{int64(ws), int64(ws)},
		func(c *cells) error {
			at = c.int(0)
			return c.bad
		})
	return at, s.dbError("find when a conflict was resolved", err)
}

// ConflictParties finds the session and the command of a conflict, nil for what is not known.
func (s *Store) ConflictParties(ctx context.Context, r *ConflictRow) (*Session, *CommandRow, error) {
	w := newWho(s.r)
	session, err := w.session(ctx, r.Session)
	if err != nil {
		return nil, nil, s.dbError("find who made a conflict", err)
	}
	command, err := w.command(ctx, r.Command)
	return session, command, s.dbError("find who made a conflict", err)
}

// Seen lists what the sessions of a workspace have seen, at most limit rows, the newest versions first.
func (s *Store) Seen(ctx context.Context, ws WorkspaceID, limit int) ([]SeenRow, error) {
	var list []SeenRow
	_, err := scanAll(ctx, s.r, 3, `SELECT n.session_id, n.ino, n.version_id FROM session s JOIN seen n ON n.session_id = s.id
		WHERE s.workspace_id = ? ORDER BY n.version_id DESC LIMIT ?`, []any{int64(ws), int64(limit)}, func(c *cells) error {
		list = append(list, SeenRow{SessionID(c.int(0)), Ino(c.int(1)), VersionID(c.int(2))})
		return c.bad
	})
	return list, s.dbError("read what sessions have seen", err)
}

// Past is one content on the way back from a version.
type Past struct {
	Version VersionID
	Ino     Ino
	Content blob.Content
	Merged  bool // it brings two together
	Session SessionID
	Kind    OpKind
	At      int64
	Moved   VersionID // what the inode was before it took the name of the next one in the list; 0: it had been nothing, or took none
}

// sqlPast goes back as VersionsBefore does, and says who made each.
const sqlPast = `WITH RECURSIVE l(id, n) AS (SELECT ?, 0
	UNION ALL SELECT CASE v.replaced_version_id WHEN 0 THEN v.parent_version_id ELSE v.replaced_version_id END, l.n + 1
		FROM l CROSS JOIN file_version v WHERE v.version_id = l.id AND v.origin_timeline_id = 0 AND l.n + 1 < ?)
	SELECT v.version_id, v.ino, v.content_hash, v.size, v.merge_version_id, COALESCE(c.session_id, 0), COALESCE(c.kind, 0), COALESCE(c.at, 0),
		CASE v.replaced_version_id WHEN 0 THEN 0 ELSE v.parent_version_id END, l.n
	FROM l CROSS JOIN file_version v LEFT JOIN change c ON c.timeline_id = v.timeline_id AND c.seq = v.seq
	WHERE v.version_id = l.id AND v.origin_timeline_id = 0 ORDER BY l.n`

// PastOf finds a version and those before it, at most limit, newest first, each with who made it. It is empty if there is no
// such version.
func (s *Store) PastOf(ctx context.Context, id VersionID, limit int) ([]Past, error) {
	var list []Past
	_, err := scanAll(ctx, s.r, 10, sqlPast, []any{int64(id), int64(limit)}, func(c *cells) error {
		list = append(list, Past{
			Version: VersionID(c.int(0)), Ino: Ino(c.int(1)), Content: blob.Content{Ref: c.ref(2), Size: c.int(3)}, Merged: c.int(4) != 0,
			Session: SessionID(c.int(5)), Kind: OpKind(c.int(6)), At: c.int(7), Moved: VersionID(c.int(8)),
		})
		return c.bad
	})
	return list, s.dbError("find who made a content", err)
}

// HasContent reports whether an inode ever had a content on a timeline.
func (s *Store) HasContent(ctx context.Context, t TimelineID, ino Ino, ref blob.Ref) (bool, error) {
	query, args := `SELECT version_id FROM file_version WHERE timeline_id = ? AND past IN (0, 1) AND ino = ? AND content_hash `, []any{int64(t), int64(ino)}
	if ref.IsZero() {
		query += `IS NULL LIMIT 1`
	} else {
		query, args = query+`= ? LIMIT 1`, append(args, ref[:])
	}
	found, err := scanAll(ctx, s.r, 1, query, args, func(*cells) error { return nil })
	return found, s.dbError("look for a content", err)
}
