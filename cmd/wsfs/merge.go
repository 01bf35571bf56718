package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/versions"
)

func (a *app) mergeCmd() *cobra.Command {
	var req daemon.MergeRequest
	var ours, theirs bool
	var only []string
	cmd := &cobra.Command{
		Use: "merge SRC[@REV] [INTO]", ValidArgsFunction: a.completeWorkspace,
		Short: "Take what a workspace has changed into another one",
		Long: "Takes what workspace SRC has changed since the newest state that both came from into INTO (default: the workspace you are\n" +
			"in, else the one that SRC was forked from), as one change. Files are followed through renames and saves; texts that both\n" +
			"changed are merged line by line. What does not go together stays as INTO has it, is listed, and SRC's side of it is kept as a\n" +
			"conflict (exit code 4; `wsfs conflicts`, `wsfs resolve`). `wsfs undo` takes a merge back.",
		Args: cobra.RangeArgs(1, 2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		rev, err := versions.Parse(args[0], time.Local)
		if err != nil {
			return err
		}
		w, err := a.here()
		if err != nil {
			return err
		}
		if rev.Workspace == "" {
			return daemon.Fail(daemon.ExitUsage, "merge %s: of which workspace? Write WS%s", ui.Quote(args[0]), args[0])
		}
		if ours && theirs {
			return daemon.Fail(daemon.ExitUsage, "merge: --ours or --theirs, not both")
		}
		if ours {
			req.Prefer = "ours"
		}
		if theirs {
			req.Prefer = "theirs"
		}
		if len(args) == 2 {
			req.Into = args[1]
		} else if req.Into, err = a.mergeTarget(ctx, w, rev.Workspace); err != nil {
			return err
		}
		if err := versions.CheckWorkspaceName(req.Into); err != nil {
			return &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
		for _, p := range only {
			req.Only = append(req.Only, daemon.Path(versions.Clean(p)))
		}
		req.From = rev.String() // with its zone: the daemon lives in another one
		var res daemon.MergeReply
		err = a.ask(ctx, w.store, func(c *daemon.Client) (err error) {
			res, err = c.Merge(ctx, req)
			return err
		})
		if err != nil {
			return err
		}
		return a.merged(&res)
	}
	f := cmd.Flags()
	f.BoolVarP(&req.DryRun, "dry-run", "n", false, "say what would be done, change nothing")
	f.BoolVar(&ours, "ours", false, "where the two do not go together, keep what INTO has")
	f.BoolVar(&theirs, "theirs", false, "where the two do not go together, take what SRC has")
	f.StringArrayVar(&only, "only", nil, "only what is at or below this path, from the root of the workspace; may be repeated")
	f.StringSliceVar(&req.Hunks, "hunks", nil, "only these changes, by the ids of `wsfs review`, separated by commas; may be repeated")
	a.jsonFlag(cmd)
	return cmd
}

// mergeTarget is the workspace that a merge goes to if none is named.
func (a *app) mergeTarget(ctx context.Context, w where, from string) (string, error) {
	if w.workspace != "" && w.workspace != from {
		return w.workspace, nil
	}
	st, err := a.openRead(ctx, w.store)
	if err != nil {
		return "", err
	}
	defer st.Close()
	ws, err := versions.FindWorkspace(ctx, st.Store, from)
	if err != nil {
		return "", err
	}
	if ws.Parent != 0 {
		if up, err := st.WorkspaceByID(ctx, ws.Parent); err == nil && up.DroppedAt == 0 {
			return up.Name, nil
		}
	}
	return "", daemon.Fail(daemon.ExitUsage, "merge %s: into which workspace? You are in no other one, and it was forked from none that is there; name it", from)
}

// merged prints what a merge did or would do.
func (a *app) merged(res *daemon.MergeReply) error {
	var err error
	if n := len(res.Conflicts); n > 0 {
		tail := fmt.Sprintf("%s keeps its side of them; `wsfs conflicts` has both", res.Workspace)
		if res.DryRun {
			tail = "nothing was changed"
		}
		err = daemon.Fail(daemon.ExitDecision, "merge %s@%d into %s: %s; %s", res.From, res.FromSeq, res.Workspace, plural(n, "conflict"), tail)
	}
	if a.json {
		if jerr := a.out.JSON(res); jerr != nil {
			return jerr
		}
		return err
	}
	w := a.out.Writer()
	for _, l := range res.Paths {
		from := ""
		if l.From != "" && l.From != l.Path {
			from = " from " + ui.Name(string(l.From))
		}
		fmt.Fprintf(w, "%s %s%s\n", l.What, ui.Name(string(l.Path)), from)
	}
	for _, c := range res.Conflicts {
		there := ""
		if c.There != "" {
			there = " (there " + ui.Name(string(c.There)) + ")"
		}
		fmt.Fprintf(w, "conflict %s%s: %s: %s\n", ui.Name(string(c.Path)), there, c.Why, c.Detail)
	}
	verb := "merged"
	if res.DryRun {
		verb = "would merge"
	}
	var list []string
	for _, x := range []struct {
		n    int
		what string
	}{
		{res.Created, "created"}, {res.Changed, "changed"}, {res.Merged, "merged"}, {res.Renamed, "renamed"}, {res.Removed, "removed"},
		{len(res.Conflicts), "in conflict"}, {res.Skipped, "left out"},
	} {
		if x.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	if len(list) == 0 {
		list = []string{"nothing differs"}
	}
	fmt.Fprintf(w, "%s %s@%d into %s: %s\n", verb, res.From, res.FromSeq, res.Workspace, strings.Join(list, ", "))
	return err
}
