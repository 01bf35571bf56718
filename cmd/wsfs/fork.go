package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/versions"
)

func (a *app) forkCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "fork WS[@REV] NEW", ValidArgsFunction: a.completeOnlyWorkspace,
		Short: "Make a workspace that starts as another one is or was",
		Long: "Makes workspace NEW, which starts as WS is now, or was at REV: complete, with files that are open and dirty, and at once,\n" +
			"however large it is. Neither sees what is changed in the other after that. @REV alone is a point of the workspace\n" +
			"you are in.",
		Args: cobra.ExactArgs(2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if err := versions.CheckWorkspaceName(args[1]); err != nil {
			return &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
		dir, rev, err := a.revisionHere(args[0])
		if err != nil {
			return err
		}
		var res daemon.ForkReply
		err = a.ask(ctx, dir, func(c *daemon.Client) (err error) {
			res, err = c.Fork(ctx, daemon.ForkRequest{Revision: rev.String(), Name: args[1]})
			return err
		})
		if err != nil {
			return err
		}
		if a.json {
			return a.out.JSON(res)
		}
		fmt.Fprintf(a.out.Writer(), "%s starts as %s@%d; `wsfs mount %s DIR` shows it\n", res.Workspace, res.Parent, res.BaseSeq, ui.Quote(res.Workspace))
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

// revisionHere reads a revision and finds the store it is in. @POINT is one of the workspace that the current directory
// is on, and "" what is shown there. The daemon lives in another time zone: times are written out with theirs by Revision.String.
func (a *app) revisionHere(arg string) (dir string, rev versions.Revision, err error) {
	if arg != "" {
		if rev, err = versions.Parse(arg, time.Local); err != nil {
			return "", rev, err
		}
	}
	w, err := a.here()
	if err != nil {
		return "", rev, err
	}
	if rev.Workspace == "" {
		if w.workspace == "" {
			return "", rev, daemon.Fail(daemon.ExitUsage, "%s: of which workspace? You are in no mount; write WS%s", arg, arg)
		}
		if rev.Workspace = w.workspace; arg == "" {
			rev = w.now()
		}
	}
	return w.store, rev, nil
}

// ask opens a client that can write, calls fn with it and closes it. An error of closing is one too: in process it means
// that what was done is not in the database yet.
func (a *app) ask(ctx context.Context, dir string, fn func(*daemon.Client) error) error {
	c, err := a.connect(ctx, dir)
	if err != nil {
		return err
	}
	err = fn(c)
	if cerr := c.Close(); err == nil {
		err = cerr
	}
	return err
}
