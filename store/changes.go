package store

import "context"

// ChangeQuery selects changes. The zero value of every filter but View means "any".
type ChangeQuery struct {
	View    *View     // the read path: changes of the view's timeline and of its ancestors up to their cuts
	Ino     Ino       // changes that touched this inode
	Parent  Ino       // changes that touched a name in this directory,
	Name    string    // and only this name, if not empty
	Session SessionID // changes by this session
	Command CommandID // changes by this command
	After   Seq       // only seqs greater than this
	UpTo    Seq       // only seqs up to and including this; 0: no bound
	Limit   int       // at most so many; 0: all
}

// ChangeRow is one change with everything that log shows of it.
type ChangeRow struct {
	Timeline TimelineID
	Seq      Seq
	OpID     int64
	Kind     OpKind
	At       int64 // ns since the epoch
	Undoes   int64 // op id of the change that this one undoes, 0 if none
	Items    []ChangeItem
	Session  *Session // nil: unknown, as Command and Process
	Command  *Command
	Process  *Process // with its parents
}

// ChangeItem is an Item with the versions around it.
type ChangeItem struct {
	Item
	// Version is what the inode became at this seq; nil if only a name changed or a directory's version was merged
	// with a later one of the same group.
	Version *Version
	// Before is the version that Version came from: its parent, else what it replaced; nil for something new.
	Before *Version
}

// Changes calls fn with the changes that q selects, newest first along the read path, and stops at the first error.
// No transaction is held while fn runs.
func (s *Store) Changes(ctx context.Context, q ChangeQuery, fn func(*ChangeRow) error) error {
	return errTODO
}
