package main

import (
	"github.com/spf13/cobra"

	"wsfs/fs/fuse"
)

// echoHelper is the name of the command that a daemon runs to tell a mount's watchers of an undo or a rollback.
const echoHelper = "echo-helper"

func (a *app) echoHelperCmd() *cobra.Command {
	return &cobra.Command{
		Use:    echoHelper,
		Short:  "Tell watchers of a mount what a daemon changed behind the kernel; started by it",
		Hidden: true,
		Args:   noArgs,
		RunE:   func(*cobra.Command, []string) error { return fuse.RunEchoHelper(a.in, a.stdout) },
	}
}
