package main

import (
	"syscall"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/report"
	"wsfs/store"
	"wsfs/versions"
)

func (a *app) commandsCmd() *cobra.Command {
	var limit int
	var session string
	cmd := &cobra.Command{
		Use:   "commands",
		Short: "List the commands that changed the workspace, newest first",
		Args:  noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.onWorkspace(ctx, "commands", limit, func(st *store.Store, ws *store.Workspace) error {
			rows, err := st.Sessions(ctx, ws.ID, atMost(0))
			if err != nil {
				return err
			}
			names, wanted := map[store.SessionID]string{}, map[store.SessionID]bool{}
			known := session == ""
			for _, r := range rows {
				names[r.ID] = r.Name
				wanted[r.ID] = session == "" || versions.InSession(&r.Session, session)
				known = known || wanted[r.ID]
			}
			if !known {
				return daemon.Fail(daemon.ExitFailed, "commands: workspace %q knows no session %q; `wsfs sessions` lists them: %w", ws.Name, session, syscall.ENOENT)
			}
			t := report.NewCommands(a.out)
			n := 0
			err = st.Commands(ctx, store.CommandQuery{Workspace: ws.ID}, func(c *store.CommandRow) error {
				if !wanted[c.Session] || limit > 0 && n == limit {
					return nil
				}
				n++
				if a.json {
					return a.out.JSON(report.CommandLineOf(c, names[c.Session]))
				}
				t.Row(c, names[c.Session])
				return nil
			})
			if err != nil || a.json {
				return err
			}
			if n == 0 {
				return daemon.Fail(daemon.ExitNothing, "commands: none has changed workspace %q yet", ws.Name)
			}
			t.Print()
			return nil
		})
	}
	cmd.Flags().IntVarP(&limit, "number", "n", 0, "at most so many, 0: all")
	cmd.Flags().StringVar(&session, "session", "", "only those of sessions of this name, and of those that they started")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}
