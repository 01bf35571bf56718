package main

import (
	"errors"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
)

func (a *app) syncCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sync [MOUNTPOINT]",
		Short: "Make everything written so far survive a power loss",
		Long: "Makes versions of files that are open and dirty, and returns when all that was written before is on the disk and in\n" +
			"the database. Without MOUNTPOINT it does so for the whole store. (sync(1) and syncfs(2) never reach a FUSE server.)",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		req := daemon.SyncRequest{Durable: true}
		if len(args) == 1 {
			if w, err = a.placeOf(args[0]); err != nil {
				return err
			}
			if w.mount == nil {
				return daemon.Fail(daemon.ExitFailed, "sync %s: it is on no mount of a workspace; `wsfs status` lists the mounts", args[0])
			}
			req.Workspace = w.workspace
		}
		c, err := a.connect(ctx, w.store)
		if err != nil {
			return err
		}
		res, err := c.Sync(ctx, req)
		if err = errors.Join(err, c.Close()); err != nil {
			return err
		}
		if a.json {
			return a.out.JSON(res)
		}
		a.out.Writer().WriteString("synced " + ui.Name(w.store) + "\n")
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}
