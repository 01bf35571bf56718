package store

import (
	"context"
	"fmt"
)

const workspaceCols = `id, name, timeline_id, base_timeline_id, base_seq, generation, readonly, parent_workspace_id,
	origin_path, created_at, dropped_at`

func (c *cells) workspace() *Workspace {
	return &Workspace{
		ID: WorkspaceID(c.int(0)), Name: c.string(1), Timeline: TimelineID(c.int(2)), Base: TimelineID(c.int(3)),
		BaseSeq: Seq(c.int(4)), Generation: c.int(5), ReadOnly: c.int(6) != 0, Parent: WorkspaceID(c.int(7)),
		OriginPath: c.string(8), CreatedAt: c.int(9), DroppedAt: c.int(10),
	}
}

func workspaceRows(ctx context.Context, q querier, where string, args ...any) ([]*Workspace, error) {
	var list []*Workspace
	_, err := scanAll(ctx, q, 11, `SELECT `+workspaceCols+` FROM workspace `+where, args, func(c *cells) error {
		list = append(list, c.workspace())
		return nil
	})
	return list, err
}

func (s *Store) workspace(ctx context.Context, what, where string, arg any) (*Workspace, error) {
	list, err := workspaceRows(ctx, s.r, where, arg)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("there is no such workspace; `wsfs list` shows them: %w", ErrNotFound)
	}
	if err != nil {
		return nil, s.dbError(what, err)
	}
	return list[0], nil
}

// Workspace finds a live workspace by name.
func (s *Store) Workspace(ctx context.Context, name string) (*Workspace, error) {
	return s.workspace(ctx, fmt.Sprintf("find workspace %q", name), `WHERE name = ? AND dropped_at IS NULL`, name)
}

// WorkspaceByID finds a workspace, live or dropped.
func (s *Store) WorkspaceByID(ctx context.Context, id WorkspaceID) (*Workspace, error) {
	return s.workspace(ctx, fmt.Sprintf("find workspace %d", id), `WHERE id = ?`, int64(id))
}

// Workspaces lists the live workspaces by name.
func (s *Store) Workspaces(ctx context.Context) ([]*Workspace, error) {
	list, err := workspaceRows(ctx, s.r, `WHERE dropped_at IS NULL ORDER BY name`)
	return list, s.dbError("list workspaces", err)
}

// Ref is one line of a workspace's reflog: where its pointer was moved, by whom, and why.
type Ref struct {
	Workspace  WorkspaceID
	N          int64 // 1, 2, ... within the workspace
	Generation int64
	Timeline   TimelineID // as in Workspace
	Base       TimelineID
	BaseSeq    Seq
	Why        string
	Session    SessionID
	Command    CommandID
	OpID       int64
	At         int64 // ns since the epoch
}

func (c *cells) reflog() Ref {
	return Ref{
		Workspace: WorkspaceID(c.int(0)), N: c.int(1), Generation: c.int(2), Timeline: TimelineID(c.int(3)),
		Base: TimelineID(c.int(4)), BaseSeq: Seq(c.int(5)), Why: c.string(6), Session: SessionID(c.int(7)),
		Command: CommandID(c.int(8)), OpID: c.int(9), At: c.int(10),
	}
}

// RefLog lists the reflog of a workspace, newest first.
func (s *Store) RefLog(ctx context.Context, ws WorkspaceID) ([]Ref, error) {
	var list []Ref
	_, err := scanAll(ctx, s.r, 11, `SELECT workspace_id, n, generation, timeline_id, base_timeline_id, base_seq, why, session_id,
		command_id, op_id, at FROM workspace_ref WHERE workspace_id = ? ORDER BY n DESC`, []any{int64(ws)},
		func(c *cells) error {
			list = append(list, c.reflog())
			return nil
		})
	return list, s.dbError(fmt.Sprintf("read the reflog of workspace %d", ws), err)
}

// Tag is a name for a point of a workspace.
type Tag struct {
	Workspace WorkspaceID
	Name      string
	Timeline  TimelineID
	Seq       Seq
}

func (s *Store) tags(ctx context.Context, where string, args ...any) ([]Tag, error) {
	var list []Tag
	_, err := scanAll(ctx, s.r, 4, `SELECT workspace_id, name, timeline_id, seq FROM tag `+where, args, func(c *cells) error {
		list = append(list, Tag{WorkspaceID(c.int(0)), c.string(1), TimelineID(c.int(2)), Seq(c.int(3))})
		return nil
	})
	return list, err
}

// Tag finds a tag of a workspace by name.
func (s *Store) Tag(ctx context.Context, ws WorkspaceID, name string) (Tag, error) {
	list, err := s.tags(ctx, `WHERE workspace_id = ? AND name = ?`, int64(ws), name)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Tag{}, s.dbError(fmt.Sprintf("find tag %q of workspace %d", name, ws), err)
	}
	return list[0], nil
}

// Tags lists the tags of a workspace by name.
func (s *Store) Tags(ctx context.Context, ws WorkspaceID) ([]Tag, error) {
	list, err := s.tags(ctx, `WHERE workspace_id = ? ORDER BY name`, int64(ws))
	return list, s.dbError(fmt.Sprintf("list the tags of workspace %d", ws), err)
}
