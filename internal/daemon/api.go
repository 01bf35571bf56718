package daemon

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"unicode/utf8"

	"wsfs/store"
)

// Exit codes of the commands, carried by the API so that a refusal means the same with and without a daemon.
const (
	ExitDone     = 0
	ExitFailed   = 1 // and nothing changed
	ExitUsage    = 2
	ExitNothing  = 3 // nothing to do
	ExitDecision = 4 // somebody has to decide
)

// Error is a refusal with the exit code it leads to.
type Error struct {
	Exit int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Fail wraps an error with an exit code.
func Fail(exit int, format string, args ...any) error {
	return &Error{exit, fmt.Errorf(format, args...)}
}

// Path is a string of any bytes. In JSON it is a string if it is UTF-8, else {"base64": "..."}.
type Path string

// MarshalJSON implements json.Marshaler.
func (p Path) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(p))})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Path) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*p = Path(s)
		return nil
	}
	var odd struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(b, &odd); err != nil {
		return err
	}
	*p = Path(odd.Base64)
	return nil
}

// ErrorBody is the body of every answer that is not 2xx, and the last line of a stream that failed.
type ErrorBody struct {
	Error string        `json:"error"`
	Exit  int           `json:"exit"`
	Errno syscall.Errno `json:"errno,omitempty"` // of Linux, if the error stands for one
	// Confirm: the same request with Yes is not refused for this reason.
	Confirm   bool           `json:"confirm,omitempty"`
	Conflicts []UndoConflict `json:"conflicts,omitempty"` // of an undo that would not keep what others did
}

// err is the error as it was before it became a body, as far as errors.Is and ExitCode can tell.
func (b ErrorBody) err() error { return &Error{b.Exit, &remoteError{b}} }

// remoteError is an error of another process.
type remoteError struct{ body ErrorBody }

func (e *remoteError) Error() string { return e.body.Error }

func (e *remoteError) Unwrap() error {
	if e.body.Errno == 0 {
		return nil
	}
	return e.body.Errno
}

// MountRequest asks for a mount. Mountpoint is absolute and free of symbolic links.
type MountRequest struct {
	Workspace  string `json:"workspace"`
	Revision   string `json:"revision,omitempty"`  // WS@POINT: this state of it, read-only; times in UTC
	Temporary  bool   `json:"temporary,omitempty"` // a fork of it that is dropped when it is unmounted
	All        bool   `json:"all,omitempty"`       // every workspace of the store, as directories; Workspace is ""
	Mountpoint Path   `json:"mountpoint"`
	ReadOnly   bool   `json:"read_only,omitempty"`
	Session    string `json:"session,omitempty"` // session of callers that name none themselves
	AllowOther bool   `json:"allow_other,omitempty"`
	Suid       bool   `json:"suid,omitempty"`
	Dev        bool   `json:"dev,omitempty"`
	NoExec     bool   `json:"noexec,omitempty"`
	NonEmpty   bool   `json:"nonempty,omitempty"`
	NoEcho     bool   `json:"noecho,omitempty"` // inotify does not hear of undo, rollback and restore
	Transport  string `json:"transport,omitempty"`
	Durability string `json:"durability,omitempty"` // "" is DurableFsync
	// Conflicts are rules as fs.ParseRules reads them: what becomes of writes over what the writer has not seen.
	Conflicts []string `json:"conflicts,omitempty"`

	run   bool     // for `wsfs run`
	reads bool     // what is read by it is remembered
	held  *os.File // of such a mount: says that its directory is in use
}

// What survives a power loss once a call has returned: what was synced, or everything.
const (
	DurableFsync = "fsync"
	DurableClose = "close"
)

// Mount describes a mount that is served.
type Mount struct {
	Workspace  string `json:"workspace"`
	Mountpoint Path   `json:"mountpoint"`
	ReadOnly   bool   `json:"read_only"`
	Session    string `json:"session,omitempty"`
	Since      string `json:"since"`
	Seq        int64  `json:"seq,omitempty"`       // the state that is shown, if not the present
	Temporary  bool   `json:"temporary,omitempty"` // the workspace is dropped when it is unmounted
	All        bool   `json:"all,omitempty"`       // every workspace of the store, as directories
	Run        bool   `json:"run,omitempty"`       // it serves `wsfs run` and goes away by itself
}

// Label is what is shown, for people: WS, or WS@SEQ, or all.
func (m *Mount) Label() string {
	if m.All {
		return allShown
	}
	return m.source()
}

// allShown is what a mount of all workspaces shows.
const allShown = "all workspaces"

// source is the part of the mount's source that says what is shown.
func (m *Mount) source() string {
	if m.All {
		return allLabel
	}
	return mountLabel(m.Workspace, store.Seq(m.Seq))
}

// UnmountResult says which mounts were ended.
type UnmountResult struct {
	Unmounted []Path `json:"unmounted"`
}

// Status is the answer of GET /v1/status.
type Status struct {
	PID          int     `json:"pid"`
	Store        Path    `json:"store"`
	Socket       Path    `json:"socket,omitempty"`
	Started      string  `json:"started"`
	Version      string  `json:"version"`
	Mounts       []Mount `json:"mounts"`
	Ops          int64   `json:"ops"`              // changes since the start
	Applied      int64   `json:"applied"`          // of these in the database
	Durable      int64   `json:"durable"`          // of these safe from a power loss
	PendingBytes int64   `json:"pending_bytes"`    // of ops that the database does not have yet
	Ending       bool    `json:"ending,omitempty"` // it lost its last mount and is about to end
	Stalled      string  `json:"stalled,omitempty"`
	Stopped      string  `json:"stopped,omitempty"`   // why nothing is acknowledged until another daemon opens the store
	Conflicts    int64   `json:"conflicts,omitempty"` // that nobody has resolved, in all workspaces
	LastError    string  `json:"last_error,omitempty"`
	Budget       *Budget `json:"budget,omitempty"` // if `wsfs retain` limits the size
	Bytes        *Bytes  `json:"bytes,omitempty"`  // what they were at the end of a collection
}

// Budget is how large the store is, and how large it may be.
type Budget struct {
	store.Budget
	Tight bool `json:"tight,omitempty"` // four fifths are used
}

// SyncRequest asks to apply everything that was acknowledged before.
type SyncRequest struct {
	Durable   bool   `json:"durable,omitempty"`
	Workspace string `json:"workspace,omitempty"` // only this one's open files are written out; "" all
}

// SyncResult says how far the database is.
type SyncResult struct {
	Ops int64 `json:"ops"`
}

// WorkspaceRequest asks for a new workspace with an empty root.
type WorkspaceRequest struct {
	Name string `json:"name"`
}

// ImportRequest asks to make a workspace, new or not, equal to a directory. Dir is absolute and free of symbolic links.
type ImportRequest struct {
	Workspace string `json:"workspace"`
	Dir       Path   `json:"dir"`
}

// ImportLine is one line of the answer to an import: progress, and at last the result or an error.
type ImportLine struct {
	Done   bool         `json:"done"`
	Phase  string       `json:"phase,omitempty"` // "scan", "read" or "store"
	Files  int64        `json:"files"`
	Total  int64        `json:"total,omitempty"` // files, 0 while it is not known
	Bytes  int64        `json:"bytes"`
	Failed *ErrorBody   `json:"failed,omitempty"`
	Result *ImportReply `json:"result,omitempty"`
}

// RestoreRequest asks to bring Path of a workspace back to what it was at Revision.
type RestoreRequest struct {
	Workspace string `json:"workspace"`
	Path      Path   `json:"path"`
	Revision  string `json:"revision"` // as versions.ParseHere reads it; times in UTC
}
