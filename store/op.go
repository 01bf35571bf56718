package store

import "wsfs/blob"

// OpKind says what one Op, or one Item of it, did. The values are part of the format: never renumber.
type OpKind uint8

const (
	OpNone OpKind = iota
	OpCreate
	OpWrite
	OpMkdir
	OpSymlink
	OpMknod
	OpLink
	OpUnlink
	OpRmdir
	OpRename
	OpExchange
	OpSetattr
	OpSetxattr
	OpRemovexattr
	OpImport
	OpRestore
	OpWorkspace // makes, moves or drops a workspace pointer; see Op.Workspace
	OpUndo      // inverts changes; see Op.Undoes
	OpRedo      // inverts an undo, as Undoes says too
	OpMerge     // takes in what another workspace changed; see Op.Merged
)

// Op is one atomic change of one timeline, complete: the rows it leads to are in it, so applying never needs to know
// what kind it is. It is validated in memory by its maker (package fs), appended to the journal, and applied to the
// database in groups. After Append nobody may change it.
type Op struct {
	Kind      OpKind
	Timeline  TimelineID
	Workspace WorkspaceID
	Seq       Seq   // assigned by the workspace's one writer; rises along a timeline
	At        int64 // ns since the epoch
	Who       Attribution
	// Amend: the versions replace rows of the same (timeline, ino, seq) and no change row is made. Used while a file
	// stays open: what fsync or a foreign close made safe becomes one version with the opener's close.
	Amend bool
	// Elide is set if the op ends a temporary, of which nothing shall stay. Append may take it away.
	Elide    *Elided
	Names    []Name
	Versions []Version
	Items    []Item // what log, diff and undo show; in order
	Contents []blob.Staged
	Pointer  *Pointer // OpWorkspace, and the first change of a fork
	Tags     []TagChange
	Pins     []PinChange
	Undoes   []Undone // what it takes back
	Ended    []CommandEnd
	// Conflicts that it makes, and those that it ends; with the sign turned, one that was merged as soon as it was met.
	Conflicts []Conflict
	Resolves  []ConflictID
	Seen      []SeenRow // what sessions have seen by now; it is saved with whatever comes next
	Merged    *Merged   // of an OpMerge that took in all of it
	Reviews   []Review
	// fresh holds the attribution rows that this op is the first of its journal to name: the ones to insert with it
	// (OR IGNORE: an earlier journal may have had them). Append and the journal's decoder set it.
	fresh *attributionRows
}

// attributionRows are rows to insert with an op. Processes come parents first.
type attributionRows struct {
	sessions  []*Session
	processes []*Process
	commands  []*Command
}

// Item is one thing a change did to one path.
type Item struct {
	Op     OpKind
	Ino    Ino
	Parent Ino
	Name   string
	// From* are set for the target side of a rename: the name it had before.
	FromParent Ino
	FromName   string
}

// Pointer is the new state of a workspace row. Timeline 0 means "no timeline of its own yet": the state is Base@BaseSeq.
type Pointer struct {
	Workspace   Workspace
	NewTimeline *Timeline // a timeline row to be made with it, or nil
	Why         string    // init, fork, rollback, ...: kept in the reflog
}

// Attribution says who did an Op. Each part may be nil: unknown stays unknown.
type Attribution struct {
	Session *Session
	Command *Command
	Process *Process
}

// AgentLogin is the Agent of a session that nobody named: one for each login session.
const AgentLogin = "login"

// Session is one writer: an agent run, a shell, a CI job, a person. Immutable once made, as are Process and Command:
// Append writes the row with the first Op that names it.
type Session struct {
	ID        SessionID
	Name      string
	Workspace WorkspaceID
	Agent     string      // what kind of writer, "" if unknown
	StartedAt int64       // ns
	Parent    *Session    // who started it, nil if nobody or unknown
	Meta      string      // what it was started with: a JSON object of strings, "" none
	Home      WorkspaceID // the workspace it works on, if that is another one than Workspace; else 0
}

// Process is one image (one exec) of one process that changed something, or an ancestor of one.
type Process struct {
	ID         ProcessID
	Session    SessionID
	Parent     *Process // nil at the session's root
	PID        int
	StartTicks uint64 // field 22 of /proc/PID/stat: with PID it names a process for good
	Comm       string
	Argv       string // arguments joined by NUL as in /proc/PID/cmdline, at most 4 KiB; "" unknown
	Cwd        string
	UID        uint32
	Unread     bool // its environment could not be read: the session is that of the mount, or none
}

// CommandEnd says that a command has ended. It goes to the command's row, if it has one.
type CommandEnd struct {
	Command CommandID
	State   CommandState
	Exit    int   // -1 if unknown; 128+n for signal n
	At      int64 // ns
}

// CommandState says how a command stands. The values are part of the format.
type CommandState uint8

const (
	CommandUnknown CommandState = iota // it runs, or nobody saw its end
	CommandExited
	CommandKilled // by a signal
	CommandLost   // it ended, and who watched it did before
)

// Command is one shell-level command of a session.
type Command struct {
	ID        CommandID
	Session   SessionID
	N         int    // 1, 2, ... within the session
	Argv      string // as in Process
	Cwd       string
	StartedAt int64 // ns
}
