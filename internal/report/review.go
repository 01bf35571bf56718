package report

import (
	"fmt"
	"strings"
	"time"

	"wsfs/internal/ui"
	"wsfs/versions"
)

// ChangeLine is a change of a review as --json prints it.
type ChangeLine struct {
	ID      string        `json:"id"`
	What    string        `json:"what"` // added, removed, renamed, modified, attributes
	Path    string        `json:"path"`
	PathB64 string        `json:"path_base64,omitempty"`
	From    string        `json:"from,omitempty"`
	Dir     bool          `json:"dir,omitempty"`
	OldLine int           `json:"old_line,omitempty"`
	Line    int           `json:"line,omitempty"`
	Old     []string      `json:"old,omitempty"`
	New     []string      `json:"new,omitempty"`
	By      []ChangeBy    `json:"by"`
	Verdict string        `json:"verdict,omitempty"` // accepted, rejected
	Said    *ChangeSaidBy `json:"said,omitempty"`
}

// ChangeBy is who made a change.
type ChangeBy struct {
	Seq     int64    `json:"seq"`
	Time    string   `json:"time"`
	Session string   `json:"session,omitempty"`
	Command string   `json:"command,omitempty"`
	Argv    []string `json:"argv,omitempty"`
	Step    []string `json:"step,omitempty"` // what of the command did it
}

// ChangeSaidBy is who accepted or rejected one; Seq is the change that took it in.
type ChangeSaidBy struct {
	Seq     int64    `json:"seq,omitempty"`
	Time    string   `json:"time"`
	Session string   `json:"session,omitempty"`
	Command string   `json:"command,omitempty"`
	Argv    []string `json:"argv,omitempty"`
}

// ChangeLineOf is the line of a change.
func ChangeLineOf(c *versions.Change) *ChangeLine {
	l := &ChangeLine{ID: c.ID, What: c.What, Dir: c.Dir, By: []ChangeBy{}}
	l.Path, l.PathB64 = ui.Text(c.Path)
	l.From, _ = ui.Text(c.From)
	if c.Hunk {
		l.OldLine, l.Line = c.OldLine, c.Line
	}
	for _, t := range c.Old {
		s, _ := ui.Text(string(t))
		l.Old = append(l.Old, s)
	}
	for _, t := range c.New {
		s, _ := ui.Text(string(t))
		l.New = append(l.New, s)
	}
	for _, b := range c.By {
		x := ChangeBy{Seq: int64(b.Seq), Time: ui.Stamp(b.At)}
		if b.Session != nil {
			x.Session = b.Session.Name
		}
		if b.Command != nil {
			x.Command, x.Argv = "c"+Itoa(int64(b.Command.ID)), ui.Args(b.Command.Argv)
		}
		if b.Step != nil {
			x.Step = ui.Args(b.Step.Argv)
		}
		l.By = append(l.By, x)
	}
	if s := c.Said; s != nil {
		l.Verdict, l.Said = s.Verdict, &ChangeSaidBy{Seq: int64(s.IntoSeq), Time: ui.Stamp(s.At)}
		if s.By != nil {
			l.Said.Session = s.By.Name
		}
		if s.In != nil {
			l.Said.Command, l.Said.Argv = "c"+Itoa(int64(s.In.ID)), ui.Args(s.In.Argv)
		}
	}
	return l
}

// Change prints a change; full also who did it, and the text.
func Change(o *ui.Out, c *versions.Change, full bool) {
	w := o.Writer()
	head := o.Styled(c.ID, ui.Yellow) + " " + c.What + " " + ui.Name(c.Path)
	if c.Dir {
		head += "/"
	}
	if c.Hunk {
		head += fmt.Sprintf(":%d", c.Line)
	}
	if c.From != "" && c.From != c.Path {
		head += " from " + ui.Name(c.From)
	}
	if s := c.Said; s != nil {
		head += ", " + o.Styled(s.Verdict, ui.Bold)
		if s.By != nil && s.By.Name != "" {
			head += " by " + ui.Name(s.By.Name)
		}
		head += " " + o.Time(time.Unix(0, s.At))
		if s.IntoSeq != 0 {
			head += fmt.Sprintf(" @%d", s.IntoSeq)
		}
	}
	fmt.Fprintln(w, head)
	if !full {
		return
	}
	for _, b := range c.By {
		line := "  "
		if b.Command != nil {
			line += o.Styled("c"+Itoa(int64(b.Command.ID)), ui.Yellow) + " "
		}
		if b.Session != nil && b.Session.Name != "" {
			line += o.Styled(ui.Name(b.Session.Name), ui.Blue) + " "
		}
		line += o.Time(time.Unix(0, b.At))
		if b.Command != nil && b.Command.Argv != "" {
			line += " $ " + ui.Command(b.Command.Argv)
		}
		if b.Step != nil {
			fmt.Fprintln(w, ui.Cut(line, max(0, o.Width)))
			line = "    $ " + ProcessText(b.Step)
		}
		fmt.Fprintln(w, ui.Cut(line, max(0, o.Width)))
	}
	for _, t := range c.Old {
		fmt.Fprintln(w, o.Styled("  -"+ui.Visible(strings.TrimSuffix(string(t), "\n")), ui.Red))
	}
	for _, t := range c.New {
		fmt.Fprintln(w, o.Styled("  +"+ui.Visible(strings.TrimSuffix(string(t), "\n")), ui.Green))
	}
}
