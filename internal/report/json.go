package report

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// LogLine is one line of `wsfs log --json`.
type LogLine struct {
	Seq        int64    `json:"seq"`
	First      int64    `json:"first_seq"`
	Time       string   `json:"time"`
	What       string   `json:"what"`
	Path       string   `json:"path"`
	PathBase64 string   `json:"path_base64,omitempty"` // only if the path is not UTF-8
	From       string   `json:"from,omitempty"`
	FromBase64 string   `json:"from_base64,omitempty"`
	Type       string   `json:"type"`
	Ino        uint64   `json:"ino"`
	Size       int64    `json:"size"`
	Plus       int64    `json:"plus"`
	Minus      int64    `json:"minus"`
	Mode       string   `json:"mode,omitempty"`
	OldMode    string   `json:"old_mode,omitempty"`
	Target     string   `json:"target,omitempty"`
	Why        string   `json:"why,omitempty"` // of a move of the workspace: rollback, undo, redo
	Session    string   `json:"session,omitempty"`
	SessionID  int64    `json:"session_id,omitempty"`
	Command    string   `json:"command,omitempty"` // as in WS@cN
	Argv       []string `json:"argv,omitempty"`
	Cwd        string   `json:"cwd,omitempty"`
	Exit       *int     `json:"exit,omitempty"`    // of the command, if it has ended
	Chain      []Writer `json:"chain,omitempty"`   // the session and those above it, if there is more to say than its name
	Outside    bool     `json:"outside,omitempty"` // the session works on another workspace
	Process    *Process `json:"process,omitempty"`
	Undoes     []string `json:"undoes,omitempty"` // commands that the change took back
	Redoes     []string `json:"redoes,omitempty"` // commands that it brought back
	Merged     string   `json:"merged,omitempty"` // of a merge: the state that it took in, WS@SEQ
	Part       []string `json:"part,omitempty"`   // of a merge of a part: paths, with the ids of what was taken
}

// Writer is a session in a chain of sessions that started each other.
type Writer struct {
	Session string          `json:"session"`
	Meta    json.RawMessage `json:"meta,omitempty"` // what it was started with, an object of strings
}

// ChainOf is a session with those above it.
func ChainOf(s *store.Session) []Writer {
	var list []Writer
	for n := 0; s != nil && n < maxChain; n, s = n+1, s.Parent {
		w := Writer{Session: s.Name}
		if json.Valid([]byte(s.Meta)) {
			w.Meta = json.RawMessage(s.Meta)
		}
		list = append(list, w)
	}
	return list
}

// maxChain bounds what damage has made a circle.
const maxChain = 100

// Process is an image of a process, with its ancestors.
type Process struct {
	PID    int      `json:"pid"`
	Comm   string   `json:"comm"`
	Argv   []string `json:"argv,omitempty"`
	Cwd    string   `json:"cwd,omitempty"`
	UID    uint32   `json:"uid"`
	Unread bool     `json:"environment_unread,omitempty"` // its session is that of the mount, or unknown
	Parent *Process `json:"parent,omitempty"`
}

// LogLineOf is an entry as a line of JSON.
func LogLineOf(e *versions.Entry) LogLine {
	l := LogLine{
		Seq: int64(e.Seq), First: int64(e.First), Time: ui.Stamp(e.At), What: e.What, Type: TypeName(e.Type), Ino: uint64(e.Ino),
		Size: e.Size, Plus: e.Plus, Minus: e.Minus, Why: e.Why,
	}
	l.Path, l.PathBase64 = ui.Text(e.Path)
	l.From, l.FromBase64 = ui.Text(e.From)
	l.Target, _ = ui.Text(e.Target)
	if e.NewMode != 0 {
		l.Mode = Octal(e.NewMode)
	}
	if e.What == versions.Mode {
		l.OldMode = Octal(e.OldMode)
	}
	if s := e.Session; s != nil {
		l.Session, l.SessionID, l.Outside = s.Name, int64(s.ID), s.Home != 0
		if s.Parent != nil || s.Meta != "" {
			l.Chain = ChainOf(s)
		}
	}
	if e.Ran != nil && e.Ran.Exit >= 0 {
		l.Exit = &e.Ran.Exit
	}
	if c := e.Command; c != nil {
		l.Command, l.Argv = "c"+Itoa(int64(c.ID)), ui.Args(c.Argv)
		l.Cwd, _ = ui.Text(c.Cwd)
	}
	l.Undoes, l.Redoes = TookBack(e.Took)
	if m := e.Merged; m != nil {
		l.Merged = m.Workspace + "@" + Itoa(int64(m.Seq))
		for _, t := range m.Part {
			l.Part = append(l.Part, strings.Join(append([]string{t.Path}, t.IDs...), " "))
		}
	}
	var into **Process
	into = &l.Process
	for p := e.Process; p != nil; p = p.Parent {
		q := &Process{PID: p.PID, Comm: p.Comm, Argv: ui.Args(p.Argv), UID: p.UID, Unread: p.Unread}
		q.Cwd, _ = ui.Text(p.Cwd)
		*into, into = q, &q.Parent
	}
	return l
}

// TookBack is what an undo took back, or a redo brought back, as fields of JSON.
func TookBack(t *versions.TakenBack) (undoes, redoes []string) {
	if t == nil {
		return nil, nil
	}
	var list []string
	for _, c := range t.Commands {
		list = append(list, "c"+Itoa(int64(c)))
	}
	if t.Redo {
		return nil, list
	}
	return list, nil
}

// Itoa is n in decimal.
func Itoa(n int64) string { return strconv.FormatInt(n, 10) }

// Octal is permission bits as chmod takes them.
func Octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// TypeName is the word for a file type of the mode bits.
func TypeName(t uint32) string {
	switch t {
	case syscall.S_IFREG:
		return "file"
	case syscall.S_IFDIR:
		return "dir"
	case syscall.S_IFLNK:
		return "symlink"
	case syscall.S_IFIFO:
		return "fifo"
	case syscall.S_IFSOCK:
		return "socket"
	case syscall.S_IFCHR:
		return "char"
	case syscall.S_IFBLK:
		return "block"
	case 0:
		return ""
	}
	return "other"
}
