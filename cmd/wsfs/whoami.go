package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"wsfs/internal/ui"
)

// whoamiReply is `wsfs whoami --json`: one object.
type whoamiReply struct {
	Session   string `json:"session,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Fork      string `json:"fork,omitempty"`
	Store     string `json:"store"`
	Path      string `json:"path,omitempty"` // in the workspace
	Ports     string `json:"port_base,omitempty"`
}

func (a *app) whoamiCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Say which session and which workspace you are in",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			w, err := a.here()
			if err != nil {
				return err
			}
			r := whoamiReply{
				Session: a.getenv("WSFS_SESSION"), Workspace: w.workspace, Fork: a.getenv("WSFS_FORK"), Store: w.store,
				Ports: a.getenv("WSFS_PORT_BASE"),
			}
			if w.workspace != "" {
				r.Path = "/" + w.path
			}
			if a.json {
				return a.out.JSON(r)
			}
			session, workspace := r.Session, r.Workspace
			if session == "" {
				session = "(none)"
			}
			if workspace == "" {
				workspace = "(none)"
			}
			fmt.Fprintf(a.out.Writer(), "session %s workspace %s store %s\n", ui.Name(session), ui.Name(workspace), ui.Name(r.Store))
			return nil
		},
	}
	a.jsonFlag(cmd)
	return cmd
}
