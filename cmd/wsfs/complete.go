package main

import (
	"github.com/spf13/cobra"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// completeWorkspace offers the names of workspaces for the first argument, and directories for the others. It only
// looks: neither the daemon nor the journal is waited for.
func (a *app) completeWorkspace(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	names, err := a.workspaceNames(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) workspaceNames(cmd *cobra.Command) ([]string, error) {
	w, err := a.here()
	if err != nil {
		return nil, err
	}
	if err := checkStore(w.store); err != nil {
		return nil, err
	}
	st, err := store.Open(cmd.Context(), w.store, sqlite.Driver(), store.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	all, err := st.Workspaces(cmd.Context())
	var names []string
	for _, ws := range all {
		names = append(names, ws.Name)
	}
	return names, err
}
