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
	names, err := a.namesOf(cmd, false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeOnlyWorkspace offers the names of workspaces for the first argument and nothing for the others.
func (a *app) completeOnlyWorkspace(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeWorkspace(cmd, args, part)
}

// namesOf lists the workspaces that are there, or those that were dropped.
func (a *app) namesOf(cmd *cobra.Command, dropped bool) ([]string, error) {
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
	if dropped {
		all, err = st.DroppedWorkspaces(cmd.Context())
	}
	var names []string
	for _, ws := range all {
		names = append(names, ws.Name)
	}
	return names, err
}
