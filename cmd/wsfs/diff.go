package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

func (a *app) diffCmd() *cobra.Command {
	var stat, nameOnly bool
	var context int
	cmd := &cobra.Command{
		Use:   "diff A [B] [PATH...]",
		Short: "Show in what two states differ",
		Long: "Shows what turns the state A into the state B, by default the present of the workspace one stands in, as a patch that\n" +
			"`git apply` and `patch -p1` take. A and B are revisions (WS@5m) or points of that workspace: 1234, 5m, a time, c12,\n" +
			"@TAG. What follows, or stands behind --, are paths. Exit code 3: they do not differ.",
		Args: cobra.MinimumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := diffForms("diff", context, stat, nameOnly); err != nil {
			return err
		}
		ctx := cmd.Context()
		dash := cmd.ArgsLenAtDash()
		if dash < 0 {
			dash = len(args)
		}
		if dash == 0 {
			return daemon.Fail(daemon.ExitUsage, "diff: a revision is missing before --: the state to compare with, such as 5m or c12")
		}
		d, err := a.diffTarget(ctx, args, dash)
		if err != nil {
			return err
		}
		defer d.st.Close()
		o := versions.DiffOptions{Paths: d.paths, Expand: !a.json}
		list, err := versions.Diff(ctx, d.st.Store, d.from.View, d.to.View, o)
		if err != nil {
			return fmt.Errorf("compare %s with %s: %w", d.from.Revision, d.to.Revision, err)
		}
		if err := d.known(ctx, list); err != nil {
			return err
		}
		p := &diffPrinter{ctx: ctx, out: a.out, st: d.st.Store, context: contextLines(context), stat: stat, names: nameOnly, json: a.json}
		if err := p.print(list); err != nil {
			return err
		}
		if len(list) == 0 && !a.json {
			return daemon.Fail(daemon.ExitNothing, "diff: %s and %s do not differ%s", d.from.Revision, d.to.Revision, there(d.paths))
		}
		return nil
	}
	f := cmd.Flags()
	f.BoolVar(&stat, "stat", false, "how many lines of which files")
	f.BoolVar(&nameOnly, "name-only", false, "only the paths")
	f.IntVarP(&context, "unified", "U", 3, "lines of context")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

// diffForms refuses options that do not go together.
func diffForms(what string, context int, stat, nameOnly bool) error {
	switch {
	case context < 0:
		return daemon.Fail(daemon.ExitUsage, "%s: -U %d: give a number of lines", what, context)
	case stat && nameOnly:
		return daemon.Fail(daemon.ExitUsage, "%s: give --stat or --name-only, not both", what)
	}
	return nil
}

// contextLines is a number of lines as internal/diff wants it.
func contextLines(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func there(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return " in " + strings.Join(paths, ", ")
}

// diffArgs are the arguments of a diff that were found.
type diffArgs struct {
	st       *reading
	from, to *versions.Resolved
	paths    []string // from the root of the workspace
	given    []string // as they were written
}

// diffTarget reads A [B] [PATH...]; only the first dash arguments can be revisions.
func (a *app) diffTarget(ctx context.Context, args []string, dash int) (*diffArgs, error) {
	w, err := a.here()
	if err != nil {
		return nil, err
	}
	st, err := a.openRead(ctx, w.store)
	if err != nil {
		return nil, err
	}
	d := &diffArgs{st: st}
	if err := a.diffRevisions(ctx, d, w, args, dash); err != nil {
		st.Close()
		return nil, err
	}
	return d, nil
}

func (a *app) diffRevisions(ctx context.Context, d *diffArgs, w where, args []string, dash int) error {
	rev, err := versions.ParseHere(args[0], time.Local)
	if err != nil {
		return &daemon.Error{Exit: daemon.ExitUsage, Err: err}
	}
	if rev.Workspace == "" {
		ws, err := a.workspace(ctx, d.st.Store, w)
		if err != nil {
			return err
		}
		rev.Workspace = ws.Name
	}
	if d.from, err = versions.Resolve(ctx, d.st.Store, rev, a.out.Now); err != nil {
		return err
	}
	to, rest := versions.Revision{Workspace: rev.Workspace}, args[1:]
	switch {
	case a.workspaceFlag != "":
		to.Workspace = a.workspaceFlag
	case w.workspace != "":
		to.Workspace = w.workspace
	}
	if len(rest) > 0 && dash > 1 {
		if second, ok := a.secondRevision(ctx, d.st.Store, rest[0]); ok {
			if second.Workspace == "" {
				second.Workspace = to.Workspace
			}
			to, rest = second, rest[1:]
		}
	}
	if d.to, err = versions.Resolve(ctx, d.st.Store, to, a.out.Now); err != nil {
		return err
	}
	for _, arg := range rest {
		p, err := a.pathIn(w, arg)
		if err != nil {
			return err
		}
		d.paths, d.given = append(d.paths, versions.Clean(p)), append(d.given, arg)
	}
	return nil
}

// secondRevision reads an argument that may be a revision or a path. A word is a revision only if there is such a
// workspace.
func (a *app) secondRevision(ctx context.Context, st *store.Store, arg string) (versions.Revision, bool) {
	rev, err := versions.ParseHere(arg, time.Local)
	if err != nil {
		return rev, false
	}
	if rev.Workspace == "" || rev.Point.Kind != versions.AtHead {
		return rev, true
	}
	_, err = st.Workspace(ctx, rev.Workspace)
	return rev, err == nil
}

// pathIn is a path argument from the root of the workspace: relative to the current directory if that is on a mount.
func (a *app) pathIn(w where, arg string) (string, error) {
	if a.workspaceFlag != "" || w.mount == nil {
		return arg, nil
	}
	at, err := a.placeOfName(arg)
	if err != nil {
		return "", err
	}
	if at.mount == nil || at.workspace != w.workspace {
		return "", daemon.Fail(daemon.ExitUsage, "%s: it is on no mount of a workspace; give a path inside %s", ui.Quote(arg), w.workspace)
	}
	return at.path, nil
}

// known refuses a path that neither side has: a mistyped revision would read as one that does not differ.
func (d *diffArgs) known(ctx context.Context, list []versions.DiffEntry) error {
	for i, p := range d.paths {
		found := len(list) > 0 && len(d.paths) == 1
		for _, v := range []*store.View{d.from.View, d.to.View} {
			if found {
				break
			}
			_, _, err := v.Resolve(ctx, p)
			if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) {
				return err
			}
			found = err == nil
		}
		if !found {
			return daemon.Fail(daemon.ExitFailed, "diff: %s is no revision, and neither %s nor %s has a path of that name: %w",
				ui.Quote(d.given[i]), d.from.Revision, d.to.Revision, syscall.ENOENT)
		}
	}
	return nil
}
