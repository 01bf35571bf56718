package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
)

func (a *app) locksCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "locks",
		Short: "Tell who holds which lock",
		Long: "Lists the locks of flock(2) and fcntl(2) on files of all mounted workspaces, with who waits for one, and the locks of\n" +
			"`wsfs lock`.",
		Args: noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, err := a.here()
		if err != nil {
			return err
		}
		var res daemon.LocksReply
		err = a.ask(cmd.Context(), w.store, func(c *daemon.Client) (err error) {
			res, err = c.Locks(cmd.Context())
			return err
		})
		switch {
		case err != nil:
			return err
		case a.json:
			return a.out.JSON(res)
		case len(res.Files)+len(res.Leases) == 0:
			return daemon.Fail(daemon.ExitNothing, "locks: nobody holds one")
		}
		if len(res.Files) > 0 {
			t := a.out.NewTable("workspace", "path", "kind", "type", "bytes", ">process", "session", "")
			for i := range res.Files {
				l := &res.Files[i]
				path, state := ui.Name(string(l.Path)), ""
				if l.Path == "" {
					path = fmt.Sprintf("(removed, inode %d)", l.Inode)
				}
				if l.Waiting {
					state = "waits"
				}
				t.Row(ui.Name(l.Workspace), path, l.Kind, l.Type, lockRange(l), itoa(int64(l.PID)), ui.Name(l.Session), state)
			}
			t.Print()
		}
		if len(res.Leases) > 0 {
			t := a.out.NewTable("lock", ">token", ">process", "session", "since", "until")
			for _, l := range res.Leases {
				t.Row(ui.Name(l.Name), itoa(l.Token), itoa(int64(l.PID)), ui.Name(l.Session), a.stampTime(l.Since), a.stampTime(l.Expires))
			}
			t.Print()
		}
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

func lockRange(l *daemon.FileLock) string {
	switch {
	case l.Kind == "flock" || l.Start == 0 && l.End == 0:
		return "all"
	case l.End == 0:
		return fmt.Sprintf("%d-", l.Start)
	}
	return fmt.Sprintf("%d-%d", l.Start, l.End)
}

func (a *app) stampTime(s string) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return s
	}
	return t.Local().Format("15:04:05")
}
