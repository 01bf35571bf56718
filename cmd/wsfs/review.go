package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/report"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

func (a *app) reviewCmd() *cobra.Command {
	r := &reviewing{a: a}
	var accept, reject []string
	cmd := &cobra.Command{
		Use: "review [WS[@REV]] [INTO]", ValidArgsFunction: a.completeWorkspace,
		Short: "List what a fork changed, by file and hunk, and take or refuse it",
		Long: "Lists what workspace WS (default: the one you are in) has changed since the newest state that it has in common with INTO (default:\n" +
			"the workspace that it was forked from), by file and hunk, each with an id, with the commands that did it and with what was\n" +
			"said of it. `--accept` takes changes into INTO, as `wsfs merge --hunks` does; `--reject` writes down that they are not wanted,\n" +
			"and leaves them where they are. Both take ids, paths, or directories.",
		Args: cobra.MaximumNArgs(2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if err := r.find(ctx, args); err != nil {
			return err
		}
		if len(accept)+len(reject) == 0 {
			return r.print()
		}
		take, err := r.choose(accept)
		if err != nil {
			return err
		}
		refuse, err := r.choose(reject)
		if err != nil {
			return err
		}
		return r.say(ctx, take, refuse)
	}
	f := cmd.Flags()
	f.StringSliceVar(&accept, "accept", nil, "take these changes into INTO: ids or paths, separated by commas; may be repeated")
	f.StringSliceVar(&reject, "reject", nil, "write down that these are not wanted")
	f.BoolVar(&r.list, "list", false, "a line for each change, without the text")
	f.BoolVar(&r.all, "all", false, "also what is below .git")
	a.jsonFlag(cmd)
	return cmd
}

// reviewing is one review.
type reviewing struct {
	a         *app
	list, all bool
	dir       string // of the store
	rev       versions.Revision
	from      *versions.Resolved
	into      string // "": the state that the workspace was forked from, as there is no other workspace
	changes   []versions.Change
	hidden    int // below .git
}

// find works out what there is to review.
func (r *reviewing) find(ctx context.Context, args []string) (err error) {
	w, err := r.a.here()
	if err != nil {
		return err
	}
	r.dir = w.store
	st, err := r.a.openRead(ctx, w.store)
	if err != nil {
		return err
	}
	defer st.Close()
	if len(args) > 0 {
		if r.rev, err = versions.ParseHere(args[0], time.Local); err != nil {
			return &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
	}
	if r.rev.Workspace == "" {
		ws, err := r.a.workspace(ctx, st.Store, w)
		if err != nil {
			return err
		}
		r.rev.Workspace = ws.Name
	}
	if r.from, err = versions.Resolve(ctx, st.Store, r.rev, r.a.out.Now); err != nil {
		return err
	}
	ws := r.from.Workspace
	at := versions.Place{Timeline: ws.Base, Seq: ws.BaseSeq}
	if len(args) > 1 {
		r.into = args[1]
	} else if ws.Parent != 0 {
		if up, err := st.WorkspaceByID(ctx, ws.Parent); err == nil && up.DroppedAt == 0 {
			r.into = up.Name
		}
	}
	switch {
	case r.into == ws.Name:
		return daemon.Fail(daemon.ExitUsage, "review %s into itself: there is nothing to compare it with", ws.Name)
	case r.into != "":
		to, err := versions.Resolve(ctx, st.Store, versions.Revision{Workspace: r.into}, r.a.out.Now)
		if err != nil {
			return err
		}
		at.Timeline, at.Seq = to.View.Head()
	case at.Timeline == 0:
		return daemon.Fail(daemon.ExitUsage, "review %s: it was forked from none; name the workspace to compare it with", ws.Name)
	}
	var from versions.Place
	from.Timeline, from.Seq = r.from.View.Head()
	list, err := versions.PlanReview(ctx, st.Store, at, from, true)
	if errors.Is(err, versions.ErrNothing) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := list.Said(ctx, st.Store, ws.ID); err != nil {
		return err
	}
	for i := range list.Changes {
		if c := &list.Changes[i]; c.Git && !r.all {
			r.hidden++
		} else {
			r.changes = append(r.changes, *c)
		}
	}
	return nil
}

func (r *reviewing) print() error {
	n := map[string]int{}
	for i := range r.changes {
		c := &r.changes[i]
		verdict := "open"
		if c.Said != nil {
			verdict = c.Said.Verdict
		}
		n[verdict]++
		if r.a.json {
			if err := r.a.out.JSON(report.ChangeLineOf(c)); err != nil {
				return err
			}
			continue
		}
		report.Change(r.a.out, c, !r.list)
	}
	switch {
	case len(r.changes) == 0 && r.a.json:
		return &quietError{daemon.Fail(daemon.ExitNothing, "review: nothing")}
	case len(r.changes) == 0:
		return daemon.Fail(daemon.ExitNothing, "review: %s has changed nothing that is not in %s", r.from.Revision, r.target())
	case r.a.json:
		return nil
	}
	var parts []string
	for _, v := range []string{"open", store.Accepted, store.Rejected} {
		if n[v] > 0 {
			parts = append(parts, ui.Count(int64(n[v]))+" "+v)
		}
	}
	r.a.note("%s of %s for %s: %s", plural(len(r.changes), "change"), r.from.Revision, r.target(), strings.Join(parts, ", "))
	if r.hidden > 0 {
		r.a.note("%s below .git not shown; --all shows them", plural(r.hidden, "change"))
	}
	return nil
}

func (r *reviewing) target() string {
	if r.into == "" {
		return "what it was forked from"
	}
	return r.into
}

// choose finds the changes that arguments name.
func (r *reviewing) choose(args []string) ([]*versions.Change, error) {
	var out []*versions.Change
	for _, arg := range args {
		found, ids, path := 0, 0, versions.Clean(arg)
		for i := range r.changes {
			c := &r.changes[i]
			if id := len(arg) >= 4 && strings.HasPrefix(c.ID, arg); id {
				ids++
			} else if c.Path != path && !strings.HasPrefix(c.Path, path+"/") && path != "" {
				continue
			}
			if found++; !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
		if found == 0 || ids > 1 {
			return nil, daemon.Fail(daemon.ExitUsage, "review: %s names %s of %s; `wsfs review --list` has them", ui.Quote(arg), plural(ids, "change"), r.from.Revision)
		}
	}
	return out, nil
}

// say takes changes in, and refuses others.
func (r *reviewing) say(ctx context.Context, take, refuse []*versions.Change) error {
	if len(take) > 0 && r.into == "" {
		return daemon.Fail(daemon.ExitUsage, "review: accept into which workspace? Name it after %s", r.rev)
	}
	for _, c := range take {
		if slices.Contains(refuse, c) {
			return daemon.Fail(daemon.ExitUsage, "review: %s is to be accepted and rejected", c.ID)
		}
	}
	var res *daemon.MergeReply
	err := r.a.ask(ctx, r.dir, func(c *daemon.Client) error {
		if len(refuse) > 0 {
			req := daemon.RejectRequest{From: r.rev.String()}
			for _, x := range refuse {
				req.Paths = append(req.Paths, daemon.ReviewPaths{Path: daemon.Path(x.Path), IDs: []string{x.ID}})
			}
			if _, err := c.Reject(ctx, req); err != nil {
				return err
			}
		}
		if len(take) == 0 {
			return nil
		}
		req := daemon.MergeRequest{From: r.rev.String(), Into: r.into}
		for _, x := range take {
			req.Hunks = append(req.Hunks, x.ID)
		}
		out, err := c.Merge(ctx, req)
		res = &out
		return err
	})
	if len(refuse) > 0 && (err == nil || res != nil) {
		r.a.note("%s of %s rejected", plural(len(refuse), "change"), r.from.Revision)
	}
	if err != nil || res == nil {
		return err
	}
	return r.a.merged(res)
}
