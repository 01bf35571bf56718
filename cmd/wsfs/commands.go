package main

import (
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
)

// commandLine is one line of `wsfs commands --json`.
type commandLine struct {
	Command   string   `json:"command"` // as in WS@cN
	Session   string   `json:"session,omitempty"`
	SessionID int64    `json:"session_id,omitempty"`
	N         int      `json:"n"` // 1, 2, ... in the session
	Argv      []string `json:"argv,omitempty"`
	Cwd       string   `json:"cwd,omitempty"`
	Started   string   `json:"started,omitempty"`
	Ended     string   `json:"ended,omitempty"` // if known
	Exit      *int     `json:"exit,omitempty"`  // if known
	First     int64    `json:"first_seq"`       // first change
	Seq       int64    `json:"seq"`             // last change
}

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
			names := map[store.SessionID]string{}
			known := session == ""
			for _, r := range rows {
				names[r.ID] = r.Name
				known = known || r.Name == session
			}
			if !known {
				return daemon.Fail(daemon.ExitFailed, "commands: workspace %q knows no session %q; `wsfs sessions` lists them: %w", ws.Name, session, syscall.ENOENT)
			}
			t := a.out.NewTable("", "", "", "", "")
			n := 0
			err = st.Commands(ctx, store.CommandQuery{Workspace: ws.ID}, func(c *store.CommandRow) error {
				if session != "" && names[c.Session] != session || limit > 0 && n == limit {
					return nil
				}
				n++
				if a.json {
					return a.out.JSON(commandLineOf(c, names[c.Session]))
				}
				seqs := "@" + itoa(int64(c.SeqBefore)+1)
				if c.SeqAfter > c.SeqBefore+1 {
					seqs += ".." + itoa(int64(c.SeqAfter))
				}
				began := "-"
				if c.StartedAt != 0 {
					began = a.out.Time(time.Unix(0, c.StartedAt))
				}
				argv := "(unknown)"
				if c.Argv != "" {
					argv = "$ " + ui.Command(c.Argv)
				}
				if a.out.Width > 0 {
					argv = ui.Cut(argv, max(20, a.out.Width-60))
				}
				t.Row("c"+itoa(int64(c.ID)), seqs, ui.Name(names[c.Session]), began, argv)
				t.Style(0, ui.Yellow)
				t.Style(2, ui.Blue)
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
	cmd.Flags().StringVar(&session, "session", "", "only those of sessions of this name")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

func commandLineOf(c *store.CommandRow, session string) commandLine {
	l := commandLine{
		Command: "c" + itoa(int64(c.ID)), Session: session, SessionID: int64(c.Session), N: c.N, Argv: ui.Args(c.Argv),
		Started: ui.Stamp(c.StartedAt), Ended: ui.Stamp(c.EndedAt), First: int64(c.SeqBefore) + 1, Seq: int64(c.SeqAfter),
	}
	l.Cwd, _ = ui.Text(c.Cwd)
	if c.Exit >= 0 {
		l.Exit = &c.Exit
	}
	return l
}
