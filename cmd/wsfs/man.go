package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"wsfs/internal/ui"
)

func (a *app) manCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man [DIR]",
		Short: "Write the manual pages",
		Long:  "Writes a manual page for every command into DIR (made if missing), or the page of wsfs itself to the standard output.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			// A fixed date: the pages of one version are the same wherever they are made.
			date := time.Unix(0, 0).UTC()
			header := &doc.GenManHeader{Title: "WSFS", Section: "1", Source: "wsfs " + version(), Manual: "wsfs", Date: &date}
			if len(args) == 0 {
				return doc.GenMan(root, header, a.out.Writer())
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.out.Writer(), "wrote the manual pages to %s\n", ui.Name(args[0]))
			return nil
		},
	}
}
