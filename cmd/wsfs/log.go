package main

import (
	"context"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// logLines is how many lines of one step of a command are shown before the rest is only counted.
const logLines = 10

func (a *app) logCmd() *cobra.Command {
	var limit int
	var all, patch, deleted bool
	var session, command, since string
	cmd := &cobra.Command{
		Use:   "log [PATH]",
		Short: "Tell what happened, newest first",
		Long: "Tells what happened in the workspace, or to PATH: a file is followed through renames and saves by replacement, of a\n" +
			"directory everything below it is shown. WS:PATH and WS@REV:PATH name another workspace or look back from REV.",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if limit < 0 {
			return daemon.Fail(daemon.ExitUsage, "log: -n %d: give a number of lines, 0 for all", limit)
		}
		arg := ""
		if len(args) == 1 {
			arg = args[0]
		}
		st, rev, path, err := a.logTarget(ctx, arg)
		if err != nil {
			return err
		}
		defer st.Close()
		q := versions.LogQuery{View: rev.View, Path: path, Session: session, Deleted: deleted, Limit: limit}
		if q.After, err = a.since(ctx, st.Store, rev, since); err != nil {
			return err
		}
		if command != "" {
			p, err := versions.ParseHere(command, nil)
			if err != nil || p.Point.Kind != versions.BeforeCommand {
				return daemon.Fail(daemon.ExitUsage, "log: --command %q: write a command as c12", command)
			}
			q.Command = p.Point.Command
		}
		lines := 0
		if !all && limit == 0 && command == "" && !patch {
			lines = logLines
		}
		p := &logPrinter{out: a.out, json: a.json, lines: lines}
		if patch {
			p.patch = &diffPrinter{ctx: ctx, out: a.out, st: st.Store}
		}
		if err := versions.Log(ctx, st.Store, q, p.entry); err != nil {
			return err
		}
		return p.end()
	}
	f := cmd.Flags()
	f.IntVarP(&limit, "number", "n", 0, "at most so many lines, 0: all")
	f.BoolVar(&all, "all", false, "every file of every command, however many")
	f.BoolVarP(&patch, "patch", "p", false, "with what was changed, as patches")
	f.BoolVar(&deleted, "deleted", false, "only what was deleted")
	f.StringVar(&since, "since", "", "only what is younger than this point: 10m, a time, 1234, c12+, @TAG")
	f.StringVar(&session, "session", "", "only what sessions of this name did")
	f.StringVar(&command, "command", "", "only what this command did, as c12")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

// logTarget opens the store and finds the workspace, the point to look back from, and the path in it.
func (a *app) logTarget(ctx context.Context, arg string) (*reading, *versions.Resolved, string, error) {
	rooted := versions.Spec{}
	if arg != "" {
		if spec, err := versions.ParseSpec(arg, time.Local); spec.Rooted {
			if err != nil {
				return nil, nil, "", err
			}
			rooted = spec
		}
	}
	w, err := a.here()
	if arg != "" && !rooted.Rooted && a.workspaceFlag == "" {
		w, err = a.placeOfName(arg)
	}
	if err != nil {
		return nil, nil, "", err
	}
	if arg != "" && !rooted.Rooted {
		switch {
		case a.workspaceFlag != "":
			w.path = arg // from the root of that workspace
		case w.mount == nil:
			return nil, nil, "", daemon.Fail(daemon.ExitUsage, "log of %s: it is on no mount of a workspace; write WS:PATH, or give --workspace", ui.Quote(arg))
		}
	}
	if arg == "" {
		w.path = ""
	}
	st, err := a.openRead(ctx, w.store)
	if err != nil {
		return nil, nil, "", err
	}
	rev := rooted.Revision
	if rooted.Rooted {
		w.path = rooted.Path
	} else {
		ws, err := a.workspace(ctx, st.Store, w)
		if err != nil {
			st.Close()
			return nil, nil, "", err
		}
		if rev.Workspace = ws.Name; a.workspaceFlag == "" && w.workspace != "" {
			rev = w.now()
		}
	}
	res, err := versions.Resolve(ctx, st.Store, rev, a.out.Now)
	if err != nil {
		st.Close()
		return nil, nil, "", err
	}
	return st, res, w.path, nil
}

// logPrinter prints entries as they come: a headline for each run of entries by one command, a line for each entry.
type logPrinter struct {
	out   *ui.Out
	json  bool
	lines int // of one step before the rest is counted; 0: all
	patch *diffPrinter

	last   *versions.Entry
	indent string
	n      int // entries of this step so far
	rest   map[string]int
	order  []string
	plus   int64
}

func (p *logPrinter) entry(e *versions.Entry) error {
	if p.json {
		return p.out.JSON(logLineOf(e))
	}
	w := p.out.Writer()
	fresh := p.last == nil || !sameCommand(p.last, e)
	if fresh {
		p.summary()
		if p.last != nil {
			w.WriteByte('\n')
		}
		p.n, p.indent = 0, "  "
		w.WriteString(p.headline(e) + "\n")
	}
	if step := e.Step(); fresh && step != nil || !fresh && !sameProcess(step, p.last.Step()) {
		p.summary()
		p.n, p.indent = 0, "  "
		if step != nil {
			p.indent = "    "
			w.WriteString("  " + p.out.Styled(ui.Cut("$ "+processText(step), max(0, p.out.Width-2)), ui.Bold) + "\n")
		}
	}
	p.last = e
	if p.n++; p.lines > 0 && p.n > p.lines {
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
	if _, err := w.WriteString(p.indent + p.line(e) + "\n"); err != nil || p.patch == nil {
		return err
	}
	return p.patch.print(e.Diff())
}

// summary says what of the step that ends here was not shown.
func (p *logPrinter) summary() {
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
		hint = "--command c" + itoa(int64(p.last.Command.ID))
	}
	p.out.Writer().WriteString(p.out.Styled(line+" ("+hint+" shows them)", ui.Dim) + "\n")
	p.rest, p.order, p.plus = nil, nil, 0
}

func (p *logPrinter) end() error {
	p.summary()
	if p.last == nil && !p.json {
		return daemon.Fail(daemon.ExitNothing, "log: nothing happened there")
	}
	return nil
}

// headline is who and when: `c12  agent-1  5 minutes ago  $ npm install`.
func (p *logPrinter) headline(e *versions.Entry) string {
	o := p.out
	var parts []string
	if e.Command != nil {
		parts = append(parts, o.Styled("c"+itoa(int64(e.Command.ID)), ui.Yellow))
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
		who = "$ " + processText(e.Process)
	}
	width := 0
	if o.Width > 0 {
		width = max(20, o.Width-ui.Width(strings.Join(parts, "  "))-2)
	}
	return strings.Join(parts, "  ") + "  " + o.Styled(ui.Cut(who, width), ui.Bold)
}

// processText is a process by its command line, or by what is known of it.
func processText(p *store.Process) string {
	if p.Argv != "" {
		return ui.Command(p.Argv)
	}
	return ui.Name(p.Comm) + " (pid " + itoa(int64(p.PID)) + ")"
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
func (p *logPrinter) line(e *versions.Entry) string {
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
	case versions.Renamed:
		style = ui.Cyan
		name = ui.Name(e.From) + " -> " + name
	case versions.Exchanged:
		style = ui.Cyan
		name = ui.Name(e.From) + " <-> " + name
	case versions.Deleted, versions.Temporary:
		style = ui.Red
		if e.Type == syscall.S_IFDIR {
			name += "/"
		}
	case versions.Mode:
		more = octal(e.OldMode) + " -> " + octal(e.NewMode)
	case versions.Owner:
		more = "to " + itoa(int64(e.UID)) + ":" + itoa(int64(e.GID))
	case versions.Made:
		name = "the workspace"
	}
	line := p.out.Styled("@"+itoa(int64(e.Seq)), ui.Dim) + " " + p.out.Styled(what, style) + " " + name
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
