package report

import (
	"fmt"
	"strconv"
	"syscall"

	"wsfs/internal/ui"
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
	Session    string   `json:"session,omitempty"`
	SessionID  int64    `json:"session_id,omitempty"`
	Command    string   `json:"command,omitempty"` // as in WS@cN
	Argv       []string `json:"argv,omitempty"`
	Cwd        string   `json:"cwd,omitempty"`
	Process    *Process `json:"process,omitempty"`
}

// Process is an image of a process, with its ancestors.
type Process struct {
	PID    int      `json:"pid"`
	Comm   string   `json:"comm"`
	Argv   []string `json:"argv,omitempty"`
	Cwd    string   `json:"cwd,omitempty"`
	UID    uint32   `json:"uid"`
	Parent *Process `json:"parent,omitempty"`
}

// LogLineOf is an entry as a line of JSON.
func LogLineOf(e *versions.Entry) LogLine {
	l := LogLine{
		Seq: int64(e.Seq), First: int64(e.First), Time: ui.Stamp(e.At), What: e.What, Type: TypeName(e.Type), Ino: uint64(e.Ino),
		Size: e.Size, Plus: e.Plus, Minus: e.Minus,
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
	if e.Session != nil {
		l.Session, l.SessionID = e.Session.Name, int64(e.Session.ID)
	}
	if c := e.Command; c != nil {
		l.Command, l.Argv = "c"+Itoa(int64(c.ID)), ui.Args(c.Argv)
		l.Cwd, _ = ui.Text(c.Cwd)
	}
	var into **Process
	into = &l.Process
	for p := e.Process; p != nil; p = p.Parent {
		q := &Process{PID: p.PID, Comm: p.Comm, Argv: ui.Args(p.Argv), UID: p.UID}
		q.Cwd, _ = ui.Text(p.Cwd)
		*into, into = q, &q.Parent
	}
	return l
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
