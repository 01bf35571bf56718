package report

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// Log prints entries as they come: a headline for each run of entries by one command, a line for each entry. Call End
// after the last one.
type Log struct {
	Out   *ui.Out
	JSON  bool
	Lines int  // of one step before the rest is counted; 0: all
	Chain bool // tell below each headline who started the session
	// Patch prints what an entry changed below its line; nil: nothing.
	Patch func(*versions.Entry) error

	last   *versions.Entry
	indent string
	n      int // entries of this step so far
	rest   map[string]int
	order  []string
	plus   int64
}

// Entry prints one entry.
func (p *Log) Entry(e *versions.Entry) error {
	if p.JSON {
		return p.Out.JSON(LogLineOf(e))
	}
	w := p.Out.Writer()
	fresh := p.last == nil || !sameCommand(p.last, e)
	if fresh {
		p.summary()
		if p.last != nil {
			w.WriteByte('\n')
		}
		p.n, p.indent = 0, "  "
		w.WriteString(p.Headline(e) + "\n")
		if p.Chain && e.Session != nil {
			w.WriteString("  by " + ChainText(e.Session) + "\n")
		}
	}
	if step := e.Step(); fresh && step != nil || !fresh && !sameProcess(step, p.last.Step()) {
		p.summary()
		p.n, p.indent = 0, "  "
		if step != nil {
			p.indent = "    "
			w.WriteString("  " + p.Out.Styled(ui.Cut("$ "+ProcessText(step), max(0, p.Out.Width-2)), ui.Bold) + "\n")
		}
	}
	if e.Took != nil && (fresh || p.last.Took == nil || p.last.Seq != e.Seq) {
		w.WriteString(p.indent + p.Out.Styled(e.Took.String(), ui.Bold) + "\n")
	}
	if e.Merged != nil && (fresh || p.last.Merged == nil || p.last.Seq != e.Seq) {
		w.WriteString(p.indent + p.Out.Styled(e.Merged.String(), ui.Bold) + "\n")
	}
	p.last = e
	if p.n++; p.Lines > 0 && p.n > p.Lines {
		if p.rest == nil {
			p.rest = map[string]int{}
		}
		if p.rest[e.What] == 0 {
			p.order = append(p.order, e.What)
		}
		p.rest[e.What]++
		p.plus += e.Plus - e.Minus
		return nil
	}
	if _, err := w.WriteString(p.indent + p.line(e) + "\n"); err != nil || p.Patch == nil {
		return err
	}
	return p.Patch(e)
}

// summary says what of the step that ends here was not shown.
func (p *Log) summary() {
	if len(p.order) == 0 {
		return
	}
	var parts []string
	n := 0
	for _, what := range p.order {
		parts = append(parts, ui.Count(int64(p.rest[what]))+" "+what)
		n += p.rest[what]
	}
	line := p.indent + "... and " + ui.Count(int64(n)) + " more: " + strings.Join(parts, ", ")
	if p.plus != 0 {
		line += ", " + delta(max(p.plus, 0), max(-p.plus, 0))
	}
	hint := "--all"
	if p.last.Command != nil {
		hint = "--command c" + Itoa(int64(p.last.Command.ID))
	}
	p.Out.Writer().WriteString(p.Out.Styled(line+" ("+hint+" shows them)", ui.Dim) + "\n")
	p.rest, p.order, p.plus = nil, nil, 0
}

// End prints what is left to say, and reports whether there was any entry (of text; JSON is not counted).
func (p *Log) End() bool {
	p.summary()
	return p.last != nil
}

// Headline is who and when: `c12  agent-1  5 minutes ago  $ npm install`.
func (p *Log) Headline(e *versions.Entry) string {
	o := p.Out
	var parts []string
	if e.Command != nil {
		parts = append(parts, o.Styled("c"+Itoa(int64(e.Command.ID)), ui.Yellow))
	}
	if e.Session != nil && e.Session.Name != "" {
		parts = append(parts, o.Styled(ui.Name(e.Session.Name), ui.Blue))
	}
	parts = append(parts, o.Time(time.Unix(0, e.At)))
	who := "(unknown)"
	switch {
	case e.Command != nil && e.Command.Argv != "":
		who = "$ " + ui.Command(e.Command.Argv)
	case e.Process != nil:
		who = "$ " + ProcessText(e.Process)
	}
	if e.Session != nil && e.Session.Home != 0 {
		parts = append(parts, o.Styled("from another workspace", ui.Red))
	}
	if end := EndText(e.Ran); end != "" {
		parts = append(parts, o.Styled(end, ui.Red))
	}
	width := 0
	if o.Width > 0 {
		width = max(20, o.Width-ui.Width(strings.Join(parts, "  "))-2)
	}
	return strings.Join(parts, "  ") + "  " + o.Styled(ui.Cut(who, width), ui.Bold)
}

// ChainText is a session, what it was started with, and those above it.
func ChainText(s *store.Session) string {
	var parts []string
	for _, w := range ChainOf(s) {
		text := ui.Name(w.Session)
		var meta map[string]string
		if json.Unmarshal(w.Meta, &meta) == nil {
			for _, k := range slices.Sorted(maps.Keys(meta)) {
				text += " " + ui.Name(k) + "=" + ui.Name(meta[k])
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " < ")
}

// ProcessText is a process by its command line, or by what is known of it.
func ProcessText(p *store.Process) string {
	if p.Argv != "" {
		return ui.Command(p.Argv)
	}
	return ui.Name(p.Comm) + " (pid " + Itoa(int64(p.PID)) + ")"
}

func sameProcess(a, b *store.Process) bool {
	return a == b || a != nil && b != nil && a.ID == b.ID
}

func sameCommand(a, b *versions.Entry) bool {
	switch {
	case (a.Session == nil) != (b.Session == nil) || (a.Command == nil) != (b.Command == nil) || (a.Process == nil) != (b.Process == nil):
		return false
	case a.Session != nil && a.Session.ID != b.Session.ID:
		return false
	case a.Command != nil:
		return a.Command.ID == b.Command.ID
	case a.Process != nil:
		return a.Process.ID == b.Process.ID
	}
	return a.At/int64(time.Second) == b.At/int64(time.Second)
}

// line is what happened: `@1234 written a/b +12 B`.
func (p *Log) line(e *versions.Entry) string {
	name := ui.Name(e.Path)
	if e.Path == "" {
		name = "/"
	}
	what, style := e.What, ui.Style("")
	more := ""
	switch e.What {
	case versions.Created:
		style = ui.Green
		switch e.Type {
		case syscall.S_IFDIR:
			name += "/"
		case syscall.S_IFLNK:
			more = "-> " + ui.Name(e.Target)
		default:
			more = delta(e.Plus, e.Minus)
		}
	case versions.Written:
		if more = delta(e.Plus, e.Minus); more == "" {
			more = "same size"
		}
		if e.BroughtTogether() {
			more += ", merged with what another session wrote"
		}
	case versions.Renamed:
		style = ui.Cyan
		name = ui.Name(e.From) + " -> " + name
		if e.BroughtTogether() {
			more = "merged with what another session wrote"
		}
	case versions.Exchanged:
		style = ui.Cyan
		name = ui.Name(e.From) + " <-> " + name
	case versions.Deleted, versions.Temporary:
		style = ui.Red
		if e.Type == syscall.S_IFDIR {
			name += "/"
		}
	case versions.Mode:
		more = Octal(e.OldMode) + " -> " + Octal(e.NewMode)
	case versions.Owner:
		more = "to " + Itoa(int64(e.UID)) + ":" + Itoa(int64(e.GID))
	case versions.Made:
		name = "the workspace"
	case versions.Moved:
		name, more = "the workspace here", "("+e.Why+")"
	}
	line := p.Out.Styled("@"+Itoa(int64(e.Seq)), ui.Dim) + " " + p.Out.Styled(what, style) + " " + name
	if more != "" {
		line += " " + more
	}
	return line
}

func delta(plus, minus int64) string {
	var parts []string
	if plus > 0 {
		parts = append(parts, "+"+ui.Bytes(plus))
	}
	if minus > 0 {
		parts = append(parts, "-"+ui.Bytes(minus))
	}
	return strings.Join(parts, " ")
}
