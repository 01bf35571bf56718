package report

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wsfs/internal/ui"
	"wsfs/store"
)

// CommandLine is one line of `wsfs commands --json`.
type CommandLine struct {
	Command   string   `json:"command"` // as in WS@cN
	Session   string   `json:"session,omitempty"`
	SessionID int64    `json:"session_id,omitempty"`
	N         int      `json:"n"` // 1, 2, ... in the session
	Argv      []string `json:"argv,omitempty"`
	Cwd       string   `json:"cwd,omitempty"`
	Started   string   `json:"started,omitempty"`
	Ended     string   `json:"ended,omitempty"` // if known
	Exit      *int     `json:"exit,omitempty"`  // if known; 128+n for signal n
	State     string   `json:"state,omitempty"` // exited, killed or lost; nothing if that is not known
	First     int64    `json:"first_seq"`       // first change
	Seq       int64    `json:"seq"`             // last change
}

// CommandLineOf is a command as a line of JSON; session is the name of its session.
func CommandLineOf(c *store.CommandRow, session string) CommandLine {
	l := CommandLine{
		Command: "c" + Itoa(int64(c.ID)), Session: session, SessionID: int64(c.Session), N: c.N, Argv: ui.Args(c.Argv),
		Started: ui.Stamp(c.StartedAt), Ended: ui.Stamp(c.EndedAt), First: int64(c.SeqBefore) + 1, Seq: int64(c.SeqAfter),
	}
	l.Cwd, _ = ui.Text(c.Cwd)
	if c.Exit >= 0 {
		l.Exit = &c.Exit
	}
	l.State = StateName(c.State)
	return l
}

// StateName is the word for how a command stands, "" if that is not known.
func StateName(s store.CommandState) string {
	switch s {
	case store.CommandExited:
		return "exited"
	case store.CommandKilled:
		return "killed"
	case store.CommandLost:
		return "lost"
	}
	return ""
}

// EndText says how a command ended, "" if it ended well or that is not known.
func EndText(c *store.CommandRow) string {
	switch {
	case c == nil || c.State == store.CommandUnknown || c.State == store.CommandExited && c.Exit <= 0:
		return ""
	case c.State == store.CommandKilled && c.Exit > 128:
		return "killed by " + unix.SignalName(syscall.Signal(c.Exit-128))
	case c.State == store.CommandLost:
		return "ended unseen"
	case c.Exit == 124:
		return "exit 124 (as timeout(1) ends)"
	}
	return "exit " + Itoa(int64(c.Exit))
}

// Commands is the text of `wsfs commands`.
type Commands struct {
	out *ui.Out
	t   *ui.Table
}

// NewCommands starts a list.
func NewCommands(o *ui.Out) *Commands { return &Commands{o, o.NewTable("", "", "", "", "")} }

// Row adds a command; session is the name of its session.
func (t *Commands) Row(c *store.CommandRow, session string) {
	seqs := "@" + Itoa(int64(c.SeqBefore)+1)
	if c.SeqAfter > c.SeqBefore+1 {
		seqs += ".." + Itoa(int64(c.SeqAfter))
	}
	began := "-"
	if c.StartedAt != 0 {
		began = t.out.Time(time.Unix(0, c.StartedAt))
	}
	argv := "(unknown)"
	if c.Argv != "" {
		argv = "$ " + ui.Command(c.Argv)
	}
	if end := EndText(c); end != "" {
		argv = "[" + end + "] " + argv
	}
	if t.out.Width > 0 {
		argv = ui.Cut(argv, max(20, t.out.Width-60))
	}
	t.t.Row("c"+Itoa(int64(c.ID)), seqs, ui.Name(session), began, argv)
	t.t.Style(0, ui.Yellow)
	t.t.Style(2, ui.Blue)
}

// Print writes the list.
func (t *Commands) Print() { t.t.Print() }
