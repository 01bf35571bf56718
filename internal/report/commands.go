package report

import (
	"time"

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
	Exit      *int     `json:"exit,omitempty"`  // if known
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
	return l
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
	if t.out.Width > 0 {
		argv = ui.Cut(argv, max(20, t.out.Width-60))
	}
	t.t.Row("c"+Itoa(int64(c.ID)), seqs, ui.Name(session), began, argv)
	t.t.Style(0, ui.Yellow)
	t.t.Style(2, ui.Blue)
}

// Print writes the list.
func (t *Commands) Print() { t.t.Print() }
