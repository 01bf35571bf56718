package main

import (
	"path"
	"strings"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/report"
	"wsfs/store"
	"wsfs/versions"
)

func (a *app) conflictsCmd() *cobra.Command {
	var limit int
	var all bool
	cmd := &cobra.Command{
		Use:   "conflicts [PATH...]",
		Short: "List what two sessions wrote and nobody has decided yet",
		Long: "Lists the conflicts of the workspace, newest first: a session wrote a file without having seen what another one had made of it,\n" +
			"or took back what it had changed. Both sides are kept. `wsfs resolve ID` decides; .wsfs/conflicts/ID in a mount has the sides.",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.onWorkspace(ctx, "conflicts", limit, func(st *store.Store, ws *store.Workspace) error {
			w, err := a.here()
			if err != nil {
				return err
			}
			list, err := versions.Conflicts(ctx, st, store.ConflictQuery{Workspace: ws.ID, Resolved: all})
			if err != nil {
				return err
			}
			t, n := report.NewConflicts(a.out), 0
			for i := range list {
				if len(args) > 0 && !belowAny(list[i].Path, w.path, args) {
					continue
				}
				if n++; limit > 0 && n > limit {
					break
				}
				if a.json {
					if err := a.out.JSON(report.ConflictLineOf(&list[i])); err != nil {
						return err
					}
					continue
				}
				t.Row(&list[i])
			}
			switch {
			case n == 0 && !a.json:
				return daemon.Fail(daemon.ExitNothing, "conflicts: there are none in workspace %q", ws.Name)
			case n == 0:
				return &quietError{daemon.Fail(daemon.ExitNothing, "conflicts: none")}
			}
			if !a.json {
				t.Print()
			}
			return nil
		})
	}
	cmd.Flags().IntVarP(&limit, "number", "n", 0, "at most so many, 0: all")
	cmd.Flags().BoolVar(&all, "all", false, "also those that were merged at once or are resolved")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

// belowAny reports whether a path of the workspace is one of names, or below one; they count from the directory here.
func belowAny(name, here string, names []string) bool {
	for _, n := range names {
		at := strings.TrimPrefix(path.Join("/", here, n), "/")
		if strings.HasPrefix(n, "/") {
			at = strings.TrimPrefix(path.Clean(n), "/")
		}
		if at == "" || at == name || strings.HasPrefix(name, at+"/") {
			return true
		}
	}
	return false
}
