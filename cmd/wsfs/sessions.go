package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/report"
	"wsfs/internal/ui"
	"wsfs/store"
)

// sessionLine is one line of `wsfs sessions --json`.
type sessionLine struct {
	ID       int64  `json:"id"`
	Name     string `json:"name"`
	Agent    string `json:"agent,omitempty"`
	Started  string `json:"started"`
	Commands int    `json:"commands"` // those that changed something

	Parent  string          `json:"parent,omitempty"`  // the session that started it
	Meta    json.RawMessage `json:"meta,omitempty"`    // what it was started with, an object of strings
	Outside bool            `json:"outside,omitempty"` // it works on another workspace
}

func sessionLineOf(r *store.SessionRow) sessionLine {
	l := sessionLine{ID: int64(r.ID), Name: r.Name, Agent: r.Agent, Started: ui.Stamp(r.StartedAt), Commands: r.Commands, Outside: r.Home != 0}
	l.Meta = report.ChainOf(&r.Session)[0].Meta
	if r.Parent != nil {
		l.Parent = r.Parent.Name
	}
	return l
}

func (a *app) sessionsCmd() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List who has written in the workspace, newest first",
		Args:  noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.onWorkspace(cmd.Context(), "sessions", limit, func(st *store.Store, ws *store.Workspace) error {
			rows, err := st.Sessions(cmd.Context(), ws.ID, atMost(limit))
			if err != nil {
				return err
			}
			t := a.out.NewTable("session", ">id", ">commands", "began", "kind")
			for _, r := range rows {
				if a.json {
					if err := a.out.JSON(sessionLineOf(&r)); err != nil {
						return err
					}
					continue
				}
				t.Row(ui.Name(r.Name), itoa(int64(r.ID)), itoa(int64(r.Commands)), a.out.Time(time.Unix(0, r.StartedAt)), r.Agent)
			}
			if a.json {
				return nil
			}
			if len(rows) == 0 {
				return daemon.Fail(daemon.ExitNothing, "sessions: none has changed workspace %q yet", ws.Name)
			}
			t.Print()
			return nil
		})
	}
	cmd.Flags().IntVarP(&limit, "number", "n", 0, "at most so many, 0: all")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

// atMost is a limit for queries that know no "all".
func atMost(n int) int {
	if n == 0 {
		return 1 << 40
	}
	return n
}

// onWorkspace opens the store for reading and finds the workspace that a command without arguments means.
func (a *app) onWorkspace(ctx context.Context, what string, limit int, fn func(*store.Store, *store.Workspace) error) error {
	if limit < 0 {
		return daemon.Fail(daemon.ExitUsage, "%s: -n %d: give a number of lines, 0 for all", what, limit)
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
	ws, err := a.workspace(ctx, st.Store, w)
	if err != nil {
		return err
	}
	return fn(st.Store, ws)
}
