package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/report"
	"wsfs/internal/ui"
	"wsfs/versions"
)

func (a *app) showCmd() *cobra.Command {
	var stat, nameOnly bool
	var context int
	cmd := &cobra.Command{
		Use:   "show CHANGE | cN",
		Short: "Show what a command or a change did",
		Long: "Shows who ran the command cN, when and where, and as a patch what it changed; or the same of one change by its seq, or of\n" +
			"the change that led to any other revision. WS@1234 and WS@c12 name another workspace.",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if err := diffForms("show", context, stat, nameOnly); err != nil {
			return err
		}
		rev, err := versions.ParseHere(args[0], time.Local)
		if err != nil {
			return err
		}
		w, err := a.here()
		if err != nil {
			return err
		}
		st, err := a.openRead(ctx, w.store)
		if err != nil {
			return err
		}
		defer st.Close()
		if rev.Workspace == "" {
			ws, err := a.workspace(ctx, st.Store, w)
			if err != nil {
				return err
			}
			rev.Workspace = ws.Name
		}
		res, err := versions.Resolve(ctx, st.Store, rev, a.out.Now)
		if err != nil {
			return err
		}
		s, err := versions.Show(ctx, st.Store, res)
		if err != nil {
			return err
		}
		if a.json {
			err = a.out.JSON(showLineOf(s))
		} else {
			a.showHead(s)
		}
		if err != nil {
			return err
		}
		p := &diffPrinter{ctx: ctx, out: a.out, st: st.Store, context: contextLines(context), stat: stat, names: nameOnly, json: a.json}
		return p.print(s.Entries)
	}
	f := cmd.Flags()
	f.BoolVar(&stat, "stat", false, "how many lines of which files")
	f.BoolVar(&nameOnly, "name-only", false, "only the paths")
	f.IntVarP(&context, "unified", "U", 3, "lines of context")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

// showHead prints who did it, when, where and with what.
func (a *app) showHead(s *versions.Shown) {
	o, w := a.out, a.out.Writer()
	line := func(name, text string) { w.WriteString(name + strings.Repeat(" ", 9-len(name)) + text + "\n") }
	if c := s.Command; c != nil {
		line("command", o.Styled("c"+itoa(int64(c.ID)), ui.Yellow)+"  "+o.Styled("$ "+ui.Command(c.Argv), ui.Bold))
	} else {
		line("command", "(unknown)")
	}
	if s.Session != nil {
		line("session", o.Styled(ui.Name(s.Session.Name), ui.Blue))
		if s.Session.Parent != nil || s.Session.Meta != "" {
			line("by", report.ChainText(s.Session))
		}
	} else {
		line("session", "(unknown)")
	}
	if end := report.EndText(s.Command); end != "" {
		line("ended", o.Styled(end, ui.Red))
	}
	if s.Process != nil && s.Process.Unread {
		line("note", "the environment of the process could not be read: the session is that of the mount, if it has one")
	}
	if p := s.Process; p != nil && (s.Command == nil || p.Argv != s.Command.Argv) {
		line("process", "$ "+report.ProcessText(p))
	}
	if c := s.Command; c != nil && c.Cwd != "" {
		line("in", ui.Name(c.Cwd))
	}
	for _, t := range s.Took {
		line("does", o.Styled(t.String(), ui.Bold))
	}
	seqs := "@" + itoa(int64(s.From))
	if s.To != s.From {
		seqs += " to @" + itoa(int64(s.To))
	}
	if s.At != 0 {
		seqs += "  " + o.Time(time.Unix(0, s.At))
	}
	line("changes", seqs)
	w.WriteByte('\n')
}

// showLine is the first line of `wsfs show --json`; the others are those of diff.
type showLine struct {
	Command   string          `json:"command,omitempty"` // as in WS@cN
	Argv      []string        `json:"argv,omitempty"`
	Cwd       string          `json:"cwd,omitempty"`
	Session   string          `json:"session,omitempty"`
	SessionID int64           `json:"session_id,omitempty"`
	Process   *report.Process `json:"process,omitempty"`
	Started   string          `json:"started,omitempty"`
	Ended     string          `json:"ended,omitempty"`
	Exit      *int            `json:"exit,omitempty"`
	State     string          `json:"state,omitempty"`
	Chain     []report.Writer `json:"chain,omitempty"`
	Undoes    []string        `json:"undoes,omitempty"`
	Redoes    []string        `json:"redoes,omitempty"`
	Time      string          `json:"time,omitempty"`
	First     int64           `json:"first_seq"`
	Seq       int64           `json:"seq"`
	Paths     int             `json:"paths"` // how many lines follow
}

func showLineOf(s *versions.Shown) showLine {
	e := versions.Entry{Session: s.Session, Process: s.Process}
	l := showLine{First: int64(s.From), Seq: int64(s.To), Time: ui.Stamp(s.At), Paths: len(s.Entries)}
	if s.Command != nil {
		c := report.CommandLineOf(s.Command, "")
		e.Command, l.Started, l.Ended, l.Exit, l.State = &s.Command.Command, c.Started, c.Ended, c.Exit, c.State
	}
	j := report.LogLineOf(&e)
	l.Chain = j.Chain
	for _, t := range s.Took {
		undoes, redoes := report.TookBack(t)
		l.Undoes, l.Redoes = append(l.Undoes, undoes...), append(l.Redoes, redoes...)
	}
	l.Command, l.Argv, l.Cwd, l.Session, l.SessionID, l.Process = j.Command, j.Argv, j.Cwd, j.Session, j.SessionID, j.Process
	return l
}
