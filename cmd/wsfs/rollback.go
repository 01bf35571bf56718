package main

import (
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/versions"
)

func (a *app) rollbackCmd() *cobra.Command {
	var f undoFlags
	var req daemon.RollbackRequest
	cmd := &cobra.Command{
		Use: "rollback WS REV [PATH...]", ValidArgsFunction: a.completeOnlyWorkspace,
		Short: "Bring a workspace back to exactly what it was",
		Long: "Brings workspace WS back to exactly what it was at REV (5m, 1234, @TAG, c12, or WS@POINT), in one step however large it is:\n" +
			"also what was made since goes. `wsfs undo` takes a rollback back. With PATH, only what is at or below it is brought back,\n" +
			"as a change; PATH counts from the root of WS, or, in its mount, from the current directory.",
		Args: cobra.MinimumNArgs(2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rev, err := versions.ParseHere(args[1], time.Local)
		if err != nil {
			return err
		}
		w, err := a.here()
		if err != nil {
			return err
		}
		req.Workspace, req.DryRun, req.List, req.ExactTimes = args[0], f.dryRun, f.names || a.json, f.exact
		// Written out with its zone: the daemon lives in another one.
		if req.Revision = "@" + rev.Point.String(); rev.Workspace != "" {
			req.Revision = rev.String()
		}
		inside := w.workspace == args[0]
		for _, p := range args[2:] {
			if !inside {
				req.Paths = append(req.Paths, daemon.Path(versions.Clean(p)))
				continue
			}
			at, err := a.placeOfName(p)
			if err != nil {
				return err
			}
			if at.workspace != args[0] {
				return daemon.Fail(daemon.ExitUsage, "rollback %s: it is not in workspace %q", p, args[0])
			}
			req.Paths = append(req.Paths, daemon.Path(at.path))
		}
		what := "rollback of " + args[0] + " to " + args[1]
		return a.ask(cmd.Context(), w.store, func(c *daemon.Client) error {
			return a.undoDo(&f, what, req.DryRun, func(yes bool, plan func(daemon.UndoReply)) (daemon.UndoReply, error) {
				req.Yes = yes
				res, err := c.Rollback(cmd.Context(), req, plan)
				for _, p := range res.Missing {
					a.note("not brought back, its bytes are not kept any more: %s", ui.Name(string(p)))
				}
				return res, err
			})
		})
	}
	cmd.Flags().BoolVar(&f.exact, "exact-times", false, "with PATH: bring back recorded times also where bytes change")
	cmd.Flags().BoolVar(&req.WithoutMissing, "without-missing", false, "files whose bytes are not kept any more (class) stay as they are now, and are listed")
	a.undoFlags(cmd, &f)
	cmd.Flags().Lookup("workspace").Hidden = true // WS says it
	return cmd
}
