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

// past is an argument of cat, ls or export that was found: a path at a point.
type past struct {
	st   *reading
	rev  *versions.Resolved
	path string
}

// findPast finds PATH@REV, WS@REV:PATH, WS:PATH or PATH. Outside of a mount `WS@REV` names the root of a workspace.
func (a *app) findPast(ctx context.Context, arg string) (*past, error) {
	spec, err := versions.ParseSpec(arg, time.Local)
	if err != nil {
		return nil, err
	}
	w, err := a.here()
	if !spec.Rooted && a.workspaceFlag == "" {
		w, err = a.placeOfName(spec.Path)
	}
	if err != nil {
		return nil, err
	}
	st, err := a.openRead(ctx, w.store)
	if err != nil {
		return nil, err
	}
	p, err := a.findIn(ctx, st, w, spec, arg)
	if err != nil {
		st.Close()
		return nil, err
	}
	return p, nil
}

func (a *app) findIn(ctx context.Context, st *reading, w where, spec versions.Spec, arg string) (*past, error) {
	rev, path := spec.Revision, w.path
	switch {
	case spec.Rooted:
		path = spec.Path
	case a.workspaceFlag != "":
		rev.Workspace, path = a.workspaceFlag, spec.Path
	case w.workspace != "":
		if rev.Workspace = w.workspace; rev.Point.Kind == versions.AtHead {
			rev = w.now()
		}
	case versions.CheckWorkspaceName(spec.Path) == nil:
		// In no mount a single word can only be a workspace.
		rev.Workspace, path = spec.Path, ""
	default:
		return nil, daemon.Fail(daemon.ExitUsage, "%s: it is on no mount of a workspace; write WS@REV:PATH, or give --workspace", ui.Quote(arg))
	}
	res, err := versions.Resolve(ctx, st.Store, rev, a.out.Now)
	if err != nil {
		return nil, err
	}
	return &past{st, res, versions.Clean(path)}, nil
}

func (a *app) catCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cat PATH@REV | WS@REV:PATH ...",
		Short: "Print files as they were",
		Args:  cobra.MinimumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, arg := range args {
			if err := a.catOne(cmd.Context(), arg); err != nil {
				return err
			}
		}
		return nil
	}
	a.workspaceOf(cmd)
	return cmd
}

func (a *app) catOne(ctx context.Context, arg string) error {
	p, err := a.findPast(ctx, arg)
	if err != nil {
		return err
	}
	defer p.st.Close()
	r, _, err := versions.Open(ctx, p.st.Store, p.rev.View, p.path)
	if err != nil {
		return fmt.Errorf("%s: %w", p.rev.Revision, err)
	}
	if _, err := copyAll(ctx, a.out.Writer(), r); err != nil {
		return fmt.Errorf("read %s of %s: %w", ui.Quote(p.path), p.rev.Revision, err)
	}
	return nil
}
