package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/report"
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
	var chain, outside, names, zero bool
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
		if zero && !names || names && (patch || outside || a.json || limit > 0) {
			return daemon.Fail(daemon.ExitUsage, "log: -z goes with --names, which goes with neither -n, -p, --json nor --outside")
		}
		if outside {
			if arg != "" || command != "" || since != "" {
				return daemon.Fail(daemon.ExitUsage, "log: --outside is about whole workspaces; leave PATH, --command and --since out")
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
			q := versions.LogQuery{Session: session, Deleted: deleted, Limit: limit, Outside: true}
			return a.logOutside(ctx, st.Store, q, &report.Log{Out: a.out, JSON: a.json, Lines: logLines, Chain: chain})
		}
		st, rev, path, err := a.logTarget(ctx, arg)
		if err != nil {
			return err
		}
		defer st.Close()
		q := versions.LogQuery{View: rev.View, Path: path, Session: session, Deleted: deleted, Limit: limit}
		if rev.Revision.Point.Kind == versions.AtHead {
			q.Workspace = rev.Workspace.ID
		}
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
		if names {
			here := ""
			if w, err := a.here(); err == nil && w.mount != nil && w.workspace == rev.Workspace.Name && a.workspaceFlag == "" {
				here = w.path
			}
			var c changedNames
			if err := versions.Log(ctx, st.Store, q, c.entry); err != nil {
				return err
			}
			return c.print(ctx, a.out, rev.View, here, zero)
		}
		lines := 0
		if !all && limit == 0 && command == "" && !patch {
			lines = logLines
		}
		p := &report.Log{Out: a.out, JSON: a.json, Lines: lines, Chain: chain}
		if patch {
			diffs := &diffPrinter{ctx: ctx, out: a.out, st: st.Store}
			p.Patch = func(e *versions.Entry) error { return diffs.print(e.Diff()) }
		}
		if err := versions.Log(ctx, st.Store, q, p.Entry); err != nil {
			return err
		}
		any := p.End()
		if !a.json && limit == 0 {
			if err := a.tellForgotten(ctx, st.Store, q); err != nil {
				return err
			}
		}
		if !any && !a.json {
			return daemon.Fail(daemon.ExitNothing, "log: nothing happened there")
		}
		return nil
	}
	f := cmd.Flags()
	f.IntVarP(&limit, "number", "n", 0, "at most so many lines, 0: all")
	f.BoolVar(&all, "all", false, "every file of every command, however many")
	f.BoolVarP(&patch, "patch", "p", false, "with what was changed, as patches")
	f.BoolVar(&names, "names", false, "only the paths that are changed on balance, from the directory here on")
	f.BoolVarP(&zero, "null", "z", false, "with --names: paths as they are, a NUL behind each")
	f.BoolVar(&deleted, "deleted", false, "only what was deleted")
	f.StringVar(&since, "since", "", "only what is younger than this point: 10m, a time, 1234, c12+, @TAG")
	f.StringVarP(&session, "session", "s", "", "only what sessions of this name did, and those that they started")
	f.BoolVar(&outside, "outside", false, "of every workspace, what was done by sessions that work on another one")
	f.BoolVar(&chain, "chain", false, "tell who started each session, and with what")
	f.StringVar(&command, "command", "", "only what this command did, as c12")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

// tellForgotten says from where on a log is not whole, because the policy does not keep what came before.
func (a *app) tellForgotten(ctx context.Context, st *store.Store, q versions.LogQuery) error {
	from, at, err := st.CompleteFrom(ctx, q.View)
	if err != nil || from <= q.After {
		return err
	}
	when := a.out.Time(time.Unix(0, at))
	_, err = a.out.Writer().WriteString("of what happened before change " + strconv.FormatInt(int64(from), 10) + " (" + when +
		"), only what can still be seen is kept; `wsfs retain` shows the policy\n")
	return err
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

// logOutside tells, of every workspace, what sessions did there that work on another one.
func (a *app) logOutside(ctx context.Context, st *store.Store, q versions.LogQuery, p *report.Log) error {
	all, err := st.Workspaces(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, ws := range all {
		rows, err := st.Sessions(ctx, ws.ID, atMost(0))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(rows, func(r store.SessionRow) bool {
			return r.Home != 0 && (q.Session == "" || versions.InSession(&r.Session, q.Session))
		}) {
			continue
		}
		one := q
		if one.View, err = st.ViewOf(ctx, ws); err != nil {
			return err
		}
		here, first := *p, true
		if err := versions.Log(ctx, st, one, func(e *versions.Entry) error {
			if first && !a.json {
				if found {
					a.out.Writer().WriteByte('\n')
				}
				a.out.Writer().WriteString("in workspace " + ui.Name(ws.Name) + ":\n")
			}
			first, found = false, true
			return here.Entry(e)
		}); err != nil {
			return err
		}
		here.End()
	}
	if !found && !a.json {
		return daemon.Fail(daemon.ExitNothing, "log --outside: no session has written outside of its workspace")
	}
	return nil
}
