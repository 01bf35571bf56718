package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/versions"
)

func (a *app) dropCmd() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "drop WS", ValidArgsFunction: a.completeOnlyWorkspace,
		Short: "Take a workspace away",
		Long: "Takes workspace WS away, at once, however large it is. It must not be mounted, and if it has changes that no other\n" +
			"workspace has it must be forced. `wsfs undrop` brings it back for as long as its history is kept.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "although it has changes that are in no other workspace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		var res daemon.DropReply
		err = a.ask(ctx, w.store, func(c *daemon.Client) (err error) {
			res, err = c.Drop(ctx, daemon.DropRequest{Workspace: args[0], Force: force})
			return err
		})
		if err != nil {
			return err
		}
		if a.json {
			return a.out.JSON(res)
		}
		text := "nothing is lost with it"
		if res.OnlyHere > 0 {
			text = fmt.Sprintf("%s of it are in no other workspace", ui.Plural(res.OnlyHere, "change"))
		}
		fmt.Fprintf(a.out.Writer(), "%s is dropped, %s; `wsfs undrop %s` brings it back\n", res.Workspace, text, ui.Quote(res.Workspace))
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) undropCmd() *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use: "undrop WS", ValidArgsFunction: a.completeDropped,
		Short: "Bring a dropped workspace back",
		Long: "Brings back the workspace WS that was dropped last. Its name must be free, or another one given by --as.\n" +
			"`wsfs workspaces --dropped` lists what can be brought back.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&as, "as", "", "its new name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if cmd.Flags().Changed("as") {
			if err := versions.CheckWorkspaceName(as); err != nil {
				return &daemon.Error{Exit: daemon.ExitUsage, Err: err}
			}
		}
		w, err := a.here()
		if err != nil {
			return err
		}
		var res daemon.UndropReply
		err = a.ask(ctx, w.store, func(c *daemon.Client) (err error) {
			res, err = c.Undrop(ctx, daemon.UndropRequest{Workspace: args[0], As: as})
			return err
		})
		if err != nil {
			return err
		}
		if a.json {
			return a.out.JSON(res)
		}
		fmt.Fprintf(a.out.Writer(), "%s is back; `wsfs mount %s DIR` shows it\n", res.Workspace, ui.Quote(res.Workspace))
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

// completeDropped offers the names of dropped workspaces.
func (a *app) completeDropped(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := a.namesOf(cmd, true)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
