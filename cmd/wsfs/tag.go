package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

func (a *app) tagCmd() *cobra.Command {
	var req daemon.TagRequest
	cmd := &cobra.Command{
		Use: "tag WS[@REV] NAME | -d WS NAME", ValidArgsFunction: a.completeOnlyWorkspace,
		Short: "Give a state a name",
		Long: "Gives the state of WS now, or at REV, a name: WS@NAME is that state from then on. In a mount WS can be left out, and\n" +
			"@REV is enough. What is tagged is never collected.",
		Args: cobra.RangeArgs(1, 2),
	}
	cmd.Flags().BoolVarP(&req.Delete, "delete", "d", false, "remove the tag; the state stays")
	cmd.Flags().BoolVarP(&req.Force, "force", "f", false, "move the tag if there is one of that name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		req.Name = args[len(args)-1]
		if err := versions.CheckTagName(req.Name); err != nil {
			return &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
		arg := ""
		if len(args) == 2 {
			arg = args[0]
		}
		dir, rev, err := a.revisionHere(arg)
		if err != nil {
			return err
		}
		req.Revision = rev.String()
		var res daemon.TagReply
		err = a.ask(ctx, dir, func(c *daemon.Client) (err error) {
			res, err = c.Tag(ctx, req)
			return err
		})
		if err != nil {
			return err
		}
		switch {
		case a.json:
			return a.out.JSON(res)
		case req.Delete:
			fmt.Fprintf(a.out.Writer(), "%s@%s is no tag any more; it was %s@%d\n", res.Workspace, res.Tag, res.Workspace, res.Seq)
		case res.Was != 0:
			fmt.Fprintf(a.out.Writer(), "%s@%s is %s@%d now, it was @%d\n", res.Workspace, res.Tag, res.Workspace, res.Seq, res.Was)
		default:
			fmt.Fprintf(a.out.Writer(), "%s@%s is %s@%d\n", res.Workspace, res.Tag, res.Workspace, res.Seq)
		}
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

// tagLine is one line of `wsfs tags --json`.
type tagLine struct {
	Workspace string `json:"workspace"`
	Tag       string `json:"tag"`
	Seq       int64  `json:"seq"`
	Time      string `json:"time,omitempty"` // of the newest change in it
}

func (a *app) tagsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "tags [WS]", ValidArgsFunction: a.completeOnlyWorkspace,
		Short: "List the tags of a workspace, or of all",
		Args:  cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		name := w.workspace
		if len(args) == 1 {
			name = args[0]
		}
		st, err := a.openRead(ctx, w.store)
		if err != nil {
			return err
		}
		defer st.Close()
		lines, err := tagLines(ctx, st.Store, name)
		if err != nil {
			return err
		}
		t := a.out.NewTable("TAG", ">SEQ", "LAST CHANGE")
		for _, l := range lines {
			if a.json {
				if err := a.out.JSON(l); err != nil {
					return err
				}
				continue
			}
			when := "-"
			if at, err := time.Parse(time.RFC3339Nano, l.Time); err == nil {
				when = a.out.Time(at.Local())
			}
			t.Row(l.Workspace+"@"+l.Tag, fmt.Sprint(l.Seq), when)
		}
		switch {
		case a.json:
		case len(lines) == 0:
			a.note("no tags; `wsfs tag WS[@REV] NAME` makes one")
		default:
			t.Print()
		}
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

// tagLines is the tags of a workspace, of all if name is "".
func tagLines(ctx context.Context, st *store.Store, name string) ([]tagLine, error) {
	var list []*store.Workspace
	var err error
	if name == "" {
		list, err = st.Workspaces(ctx)
	} else {
		if err := versions.CheckWorkspaceName(name); err != nil {
			return nil, &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
		list = make([]*store.Workspace, 1)
		list[0], err = versions.FindWorkspace(ctx, st, name)
	}
	if err != nil {
		return nil, err
	}
	var lines []tagLine
	for _, ws := range list {
		tags, err := st.Tags(ctx, ws.ID)
		if err != nil {
			return nil, err
		}
		for _, tag := range tags {
			l := tagLine{Workspace: ws.Name, Tag: tag.Name, Seq: int64(tag.Seq)}
			v, err := st.ViewAt(ctx, tag.Timeline, tag.Seq)
			if err == nil {
				var at int64
				at, err = v.ChangedAt(ctx)
				l.Time = ui.Stamp(at)
			}
			if err != nil && !errors.Is(err, syscall.ENOENT) {
				return nil, err
			}
			lines = append(lines, l)
		}
	}
	return lines, nil
}
