package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/versions"
)

func (a *app) restoreCmd() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "restore PATH --from REV",
		Short: "Bring a file or directory back to what it was",
		Long: "Brings PATH, with all below it, back to what it was at REV, as one change. Nothing newer is removed. REV is a revision\n" +
			"(WS@5m) or just its point: 1234, 5m, a time, c12, @TAG. Outside of a mount PATH is taken from the root of --workspace.",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if from == "" {
			return daemon.Fail(daemon.ExitUsage, "restore %s: --from is missing: the revision to take it from, such as 5m or c12", ui.Quote(args[0]))
		}
		rev, err := versions.ParseHere(from, time.Local)
		if err != nil {
			return err
		}
		var w where
		if a.workspaceFlag != "" {
			if w, err = a.here(); err == nil {
				w.workspace, w.path = a.workspaceFlag, args[0]
			}
		} else {
			w, err = a.placeOfName(args[0])
		}
		if err != nil {
			return err
		}
		if w.workspace == "" {
			return daemon.Fail(daemon.ExitUsage, "restore %s: it is on no mount of a workspace; go into one, or give --workspace", ui.Quote(args[0]))
		}
		if a.workspaceFlag == "" && w.mount != nil && w.mount.Seq() != "" {
			return daemon.Fail(daemon.ExitUsage, "restore %s: %s is a state of the past, which stays what it is; `--workspace %s` restores it in the present: %w",
				ui.Quote(args[0]), w.mount.Point, w.workspace, syscall.EROFS)
		}
		c, err := a.connect(ctx, w.store)
		if err != nil {
			return err
		}
		// Written out with its zone: the daemon lives in another one.
		point := "@" + rev.Point.String()
		if rev.Workspace != "" {
			point = rev.String()
		}
		res, err := c.Restore(ctx, daemon.RestoreRequest{Workspace: w.workspace, Path: daemon.Path(w.path), Revision: point})
		if cerr := c.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		if a.json {
			return a.out.JSON(res)
		}
		msg := fmt.Sprintf("restored %s from %s: %s, change %d", ui.Name(args[0]), from, ui.Plural(res.Restored, "path"), res.Seq)
		if res.Kept > 0 {
			msg += fmt.Sprintf("; %s that did not exist then were kept", ui.Count(res.Kept))
		}
		fmt.Fprintln(a.out.Writer(), msg)
		return nil
	}
	cmd.Flags().StringVar(&from, "from", "", "revision to take it from")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}
