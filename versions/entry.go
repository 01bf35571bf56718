package versions

import (
	"syscall"

	"wsfs/store"
)

// What an Entry says happened. The words are part of the JSON output: never change one.
const (
	Created   = "created"
	Written   = "written"
	Renamed   = "renamed"
	Exchanged = "exchanged"
	Deleted   = "deleted"
	Linked    = "linked"    // one more name
	Mode      = "mode"      // permission bits
	Owner     = "owner"     // uid or gid
	Times     = "times"     // nothing but times
	Xattr     = "xattr"     // extended attributes
	Temporary = "temporary" // created and deleted by one command
	Made      = "made"      // the workspace itself
	Moved     = "moved"     // the workspace to another state
)

// Entry is one line of a log: what one step of a command did to one path. Changes that only make sense together are
// folded: a creation with the first write and the attributes that the same step gave the file, a temporary file with
// its rename to the final name.
type Entry struct {
	Timeline store.TimelineID
	Seq      store.Seq // the newest change in it: Path@Seq is the state it led to
	First    store.Seq // the oldest change in it
	At       int64     // ns since the epoch, of Seq
	Kind     store.OpKind
	What     string
	Ino      store.Ino
	Type     uint32 // S_IFMT, 0 if unknown
	Path     string // from the root of the workspace, any bytes
	From     string // the path before a rename; of a folded temporary file its temporary path
	Size     int64  // after it
	Plus     int64  // bytes that the file became longer
	Minus    int64  // bytes that it became shorter
	OldMode  uint32 // permission bits before and after
	NewMode  uint32
	UID, GID uint32
	Target   string // of a symbolic link
	Why      string // of a Moved entry: rollback, undo, redo
	Session  *store.Session
	Command  *store.Command
	Ran      *store.CommandRow // Command with how it ended
	Process  *store.Process
	// Old and New are the versions around it: what the path's file was before and what it became. Either may be nil:
	// nothing, or not told by the change.
	Old, New *store.Version
	// Took says what the change took back, nil if it is no undo or redo.
	Took *TakenBack
	// Merged says what the change took in, nil if it is no merge.
	Merged *MergedFrom

	written  bool           // its content was set
	saved    bool           // it was born at a name that another inode had till then
	replaces bool           // a rename onto a name that another inode had
	over     *store.Version // that inode's last version
	oldSize  int64
	link     *Entry // of a creation: a second name that the same command gave it
}

// BroughtTogether reports whether the version has what two sessions wrote, one without having seen the other's.
func (e *Entry) BroughtTogether() bool {
	return (e.Kind == store.OpWrite || e.Kind == store.OpCreate || e.Kind == store.OpRename) && e.New != nil && e.New.Merge != 0
}

// describe turns one item of a change into an entry without paths.
func describe(row *store.ChangeRow, it *store.ChangeItem) *Entry {
	e := &Entry{
		Timeline: row.Timeline, Seq: row.Seq, First: row.Seq, At: row.At, Kind: row.Kind, Ino: it.Ino,
		Session: row.Session, Command: row.Command, Ran: row.Ran, Process: row.Process, Old: it.Before, New: it.Version,
	}
	if v := it.Version; v != nil {
		e.Type, e.Size, e.NewMode, e.UID, e.GID, e.Target = v.Type(), v.Size, v.Mode&0o7777, v.UID, v.GID, v.Target
	}
	if b := it.Before; b != nil {
		e.oldSize, e.OldMode = b.Size, b.Mode&0o7777
		if e.Type == 0 {
			e.Type = b.Type()
		}
	}
	e.What = e.what(row, it)
	if e.What == Created && saves(row, it) {
		e.What, e.saved = Written, true
		if b := it.Before; b != nil {
			e.Old, e.oldSize, e.OldMode = b, b.Size, 0
		}
	}
	switch {
	case e.What == Deleted:
		e.Minus = 0
	case e.Type == syscall.S_IFREG && (e.What == Created || e.What == Written):
		e.written = e.What == Written && !e.saved || e.Size > 0
		e.count()
	}
	return e
}

// saves reports whether a birth took the name of what was there: how a temporary file with its rename to a name that another
// file had is kept.
func saves(row *store.ChangeRow, it *store.ChangeItem) bool {
	switch row.Kind {
	case store.OpCreate, store.OpSymlink, store.OpMknod:
	default:
		return false
	}
	for i := range row.Items {
		if o := &row.Items[i]; o.Op == store.OpUnlink && o.Ino != it.Ino && o.Parent == it.Parent && o.Name == it.Name {
			return true
		}
	}
	return false
}

func (e *Entry) count() {
	e.Plus, e.Minus = max(0, e.Size-e.oldSize), max(0, e.oldSize-e.Size)
}

func (e *Entry) what(row *store.ChangeRow, it *store.ChangeItem) string {
	switch it.Op {
	case store.OpCreate, store.OpMkdir, store.OpSymlink, store.OpMknod:
		if e.Type == 0 {
			e.Type = typeOf(it.Op)
		}
		if it.Before == nil || it.Before.Ino != it.Ino {
			e.oldSize = 0 // a new file at a name that another one had
			e.Old = nil
		}
		return Created
	case store.OpWrite:
		return Written
	case store.OpLink:
		return Linked
	case store.OpUnlink, store.OpRmdir:
		if e.Type == 0 {
			e.Type = typeOf(it.Op)
		}
		return Deleted
	case store.OpRename:
		return Renamed
	case store.OpExchange:
		return Exchanged
	case store.OpSetxattr, store.OpRemovexattr:
		return Xattr
	case store.OpSetattr:
		return attrs(it)
	case store.OpWorkspace:
		return Made
	}
	// An import or a restore that does not say more: the versions around it do.
	switch v, b := it.Version, it.Before; {
	case v == nil && b == nil:
		return Linked
	case v == nil || v.Nlink == 0:
		return Deleted
	case b == nil:
		return Created
	case v.Content != b.Content || v.Target != b.Target:
		return Written
	}
	return attrs(it)
}

func typeOf(op store.OpKind) uint32 {
	switch op {
	case store.OpMkdir, store.OpRmdir:
		return syscall.S_IFDIR
	case store.OpSymlink:
		return syscall.S_IFLNK
	}
	return syscall.S_IFREG
}

// attrs says which attribute changed, the weightiest first.
func attrs(it *store.ChangeItem) string {
	v, b := it.Version, it.Before
	switch {
	case v == nil || b == nil:
		return Times
	case v.Size != b.Size || v.Content != b.Content:
		return Written // truncate(2)
	case v.UID != b.UID || v.GID != b.GID:
		return Owner
	case v.Mode != b.Mode:
		return Mode
	case len(v.Xattrs) != len(b.Xattrs):
		return Xattr
	}
	return Times
}
