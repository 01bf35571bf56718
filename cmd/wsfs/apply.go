package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/report"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

func (a *app) applyCmd() *cobra.Command {
	var req daemon.ApplyRequest
	var list, changes bool
	cmd := &cobra.Command{
		Use: "apply [WS] [DIR]", ValidArgsFunction: a.completeOnlyWorkspace,
		Short: "Write a workspace's changes back to the directory that it came from",
		Long: "Writes what workspace WS (default: that of the mount or of the directory you are in) has changed since it was last\n" +
			"equal to DIR (default: the directory that it came from) into that directory. Texts that were changed there too are\n" +
			"merged; what does not merge is a conflict: all are listed, and nothing is written. Each file changes in an instant,\n" +
			"and only times are no change.",
		Args: cobra.MaximumNArgs(2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		w, err := a.applyTarget(ctx, &req, args)
		if err != nil {
			return err
		}
		if list {
			return a.listApplied(ctx, w, req.Workspace)
		}
		req.List = changes
		var res daemon.ApplyReply
		err = a.ask(ctx, w.store, func(c *daemon.Client) (err error) {
			res, err = c.Apply(ctx, req)
			return err
		})
		if err != nil {
			return err
		}
		if changes {
			return a.toApply(&res)
		}
		return a.applied(&res, req.DryRun)
	}
	f := cmd.Flags()
	f.StringArrayVar(&req.Only, "only", nil, "only paths that match this glob, or lie in a directory that does; may be repeated")
	f.StringSliceVar(&req.Hunks, "hunks", nil, "only these changes, by their ids as --changes or `wsfs review` has them; separated by commas, may be repeated")
	f.BoolVar(&changes, "changes", false, "list what would be written by file and hunk, with the ids, and write nothing")
	f.BoolVarP(&req.DryRun, "dry-run", "n", false, "say what would be written, and write nothing")
	f.BoolVar(&list, "list", false, "list what was applied so far, when and by whom")
	a.jsonFlag(cmd)
	return cmd
}

// applyTarget reads which workspace is to be applied, and to where.
func (a *app) applyTarget(ctx context.Context, req *daemon.ApplyRequest, args []string) (where, error) {
	w, err := a.here()
	if err != nil {
		return w, err
	}
	if len(args) == 1 && strings.Contains(args[0], "/") {
		args = []string{"", args[0]}
	}
	if len(args) > 0 {
		req.Workspace = args[0]
	}
	if len(args) == 2 {
		mounts, err := daemon.Mounts()
		if err != nil {
			return w, err
		}
		dir, err := a.realPath(mounts, args[1])
		if err != nil {
			return w, err
		}
		req.Dir = daemon.Path(dir)
	}
	if req.Workspace == "" {
		req.Workspace = w.workspace
	}
	if req.Workspace == "" {
		if req.Workspace, err = a.originHere(ctx, w.store); err != nil {
			return w, err
		}
	}
	if err := versions.CheckWorkspaceName(req.Workspace); err != nil {
		return w, &daemon.Error{Exit: daemon.ExitUsage, Err: err}
	}
	return w, nil
}

// originHere is the workspace that came from the current directory or one above it.
func (a *app) originHere(ctx context.Context, dir string) (string, error) {
	cwd, err := getwd()
	if err != nil {
		return "", err
	}
	st, err := a.openRead(ctx, dir)
	if err != nil {
		return "", err
	}
	defer st.Close()
	all, err := st.Workspaces(ctx)
	if err != nil {
		return "", err
	}
	var best *store.Workspace
	for _, ws := range all {
		if ws.Parent == 0 && ws.OriginPath != "" && below(cwd, ws.OriginPath) && (best == nil || len(ws.OriginPath) > len(best.OriginPath)) {
			best = ws
		}
	}
	if best == nil {
		return "", daemon.Fail(daemon.ExitUsage, "apply: which workspace? You are in no mount, and none came from %s: %w", cwd, syscall.ENOENT)
	}
	return best.Name, nil
}

// toApply prints of which changes an apply would consist.
func (a *app) toApply(res *daemon.ApplyReply) error {
	for _, l := range res.Changes {
		if a.json {
			if err := a.out.JSON(l); err != nil {
				return err
			}
			continue
		}
		c := &versions.Change{ID: l.ID, What: l.What, Path: l.Path, Dir: l.Dir, Hunk: l.Line > 0, Line: l.Line}
		for _, s := range l.Old {
			c.Old = append(c.Old, []byte(s))
		}
		for _, s := range l.New {
			c.New = append(c.New, []byte(s))
		}
		report.Change(a.out, c, true)
	}
	if len(res.Changes) > 0 {
		return nil
	}
	err := daemon.Fail(daemon.ExitNothing, "apply %s to %s: there is nothing that it does not have", res.Workspace, ui.Name(string(res.Dir)))
	if a.json {
		return &quietError{err}
	}
	return err
}

// applied prints what an apply did or would do.
func (a *app) applied(res *daemon.ApplyReply, dry bool) error {
	dir := ui.Name(string(res.Dir))
	var err error
	switch {
	case len(res.Conflicts) > 0:
		err = daemon.Fail(daemon.ExitDecision, "apply %s to %s: %s; nothing was written. Make the two sides agree there, or leave those paths out with --only",
			res.Workspace, dir, plural(len(res.Conflicts), "conflict"))
	case len(res.Paths) == 0 && res.Skipped > 0:
		err = daemon.Fail(daemon.ExitNothing, "apply %s to %s: none of %s matches", res.Workspace, dir, plural(res.Skipped, "changed path"))
	case len(res.Paths) == 0:
		err = daemon.Fail(daemon.ExitNothing, "apply %s to %s: there is nothing that it does not have", res.Workspace, dir)
	}
	if a.json {
		if jerr := a.out.JSON(res); jerr != nil {
			return jerr
		}
		return err
	}
	w := a.out.Writer()
	for _, c := range res.Conflicts {
		fmt.Fprintf(w, "conflict %s: %s\n", ui.Name(string(c.Path)), c.Why)
	}
	if err != nil {
		return err
	}
	for _, p := range res.Paths {
		fmt.Fprintf(w, "%s %s\n", p.What, ui.Name(string(p.Path)))
	}
	for _, r := range res.Refused {
		fmt.Fprintf(w, "refused %s: extended attribute %s: %s\n", ui.Name(string(r.Path)), ui.Quote(r.Name), r.Why)
	}
	verb := "applied"
	if dry {
		verb = "would apply"
	}
	left := ""
	if res.Skipped > 0 {
		left = fmt.Sprintf("; %s left out", plural(res.Skipped, "changed path"))
	}
	fmt.Fprintf(w, "%s %s of %s@%d to %s%s\n", verb, plural(len(res.Paths), "path"), res.Workspace, res.Seq, dir, left)
	return nil
}

func (a *app) listApplied(ctx context.Context, w where, name string) error {
	st, err := a.openRead(ctx, w.store)
	if err != nil {
		return err
	}
	defer st.Close()
	ws, err := versions.FindWorkspace(ctx, st.Store, name)
	if err != nil {
		return err
	}
	list, err := daemon.ListApplied(ctx, st.Store, ws)
	if err != nil {
		return err
	}
	if len(list) == 0 && !a.json {
		return daemon.Fail(daemon.ExitNothing, "apply --list: nothing of workspace %q was applied yet", name)
	}
	t := a.out.NewTable("", "", ">", "", "", "")
	for i := range list {
		l := &list[i]
		l.Time = ui.Stamp(l.At)
		if a.json {
			if err := a.out.JSON(l); err != nil {
				return err
			}
			continue
		}
		by, what := "(unknown)", ""
		if l.Session != "" {
			by = ui.Name(l.Session)
		}
		if l.Argv != "" {
			what = l.Command + " $ " + ui.Command(l.Argv)
		}
		t.Row(fmt.Sprintf("@%d", l.Seq), a.out.Time(time.Unix(0, l.At)), plural(l.Paths, "path"), ui.Name(string(l.Dir)), by, what)
	}
	if !a.json {
		t.Print()
	}
	return nil
}
