package store

import (
	"context"

	"wsfs/blob"
)

// VersionByID finds a version by its id, whichever timeline it is on.
func (s *Store) VersionByID(ctx context.Context, id VersionID) (*Version, error) {
	return nil, errTODO
}

// Workspace finds a live workspace by name.
func (s *Store) Workspace(ctx context.Context, name string) (*Workspace, error) {
	return nil, errTODO
}

// WorkspaceByID finds a workspace, live or dropped.
func (s *Store) WorkspaceByID(ctx context.Context, id WorkspaceID) (*Workspace, error) {
	return nil, errTODO
}

// Workspaces lists the live workspaces by name.
func (s *Store) Workspaces(ctx context.Context) ([]*Workspace, error) {
	return nil, errTODO
}

// Timeline finds a timeline.
func (s *Store) Timeline(ctx context.Context, id TimelineID) (*Timeline, error) {
	return nil, errTODO
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

// RefLog lists the reflog of a workspace, newest first.
func (s *Store) RefLog(ctx context.Context, ws WorkspaceID) ([]Ref, error) {
	return nil, errTODO
}

// Tag is a name for a point of a workspace.
type Tag struct {
	Workspace WorkspaceID
	Name      string
	Timeline  TimelineID
	Seq       Seq
}

// Tag finds a tag of a workspace by name.
func (s *Store) Tag(ctx context.Context, ws WorkspaceID, name string) (Tag, error) {
	return Tag{}, errTODO
}

// Tags lists the tags of a workspace by name.
func (s *Store) Tags(ctx context.Context, ws WorkspaceID) ([]Tag, error) {
	return nil, errTODO
}

// SessionByID finds a session.
func (s *Store) SessionByID(ctx context.Context, id SessionID) (*Session, error) {
	return nil, errTODO
}

// CommandRow is a command with where it began and ended on its timeline.
type CommandRow struct {
	Command
	Timeline  TimelineID // 0 if it changed nothing
	SeqBefore Seq        // the state just before its first change
	SeqAfter  Seq        // the state just after its last change
	EndedAt   int64      // ns, 0 if unknown
	Exit      int        // -1 if unknown
}

// CommandByID finds a command.
func (s *Store) CommandByID(ctx context.Context, id CommandID) (*CommandRow, error) {
	return nil, errTODO
}

// ProcessByID finds a process with its parents.
func (s *Store) ProcessByID(ctx context.Context, id ProcessID) (*Process, error) {
	return nil, errTODO
}

// Locate says where a blob's bytes are; it implements blob.Index.
func (s *Store) Locate(ctx context.Context, ref blob.Ref) (blob.Location, error) {
	return blob.Location{}, errTODO
}
