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
	w, rev, path, unclear, err := a.parsePast(arg)
	if err != nil {
		return nil, err
	}
	return a.openPast(ctx, w, rev, path, unclear)
}

// openPast opens what parsePast found.
func (a *app) openPast(ctx context.Context, w where, rev versions.Revision, path string, unclear error) (*past, error) {
	st, err := a.openRead(ctx, w.store)
	if err != nil {
		return nil, err
	}
	var res *versions.Resolved
	if err = unclear; err == nil {
		res, err = versions.Resolve(ctx, st.Store, rev, a.out.Now)
	}
	if err != nil {
		st.Close()
		return nil, err
	}
	return &past{st, res, path}, nil
}

// parsePast says what an argument of findPast means, without opening the store. unclear is an error that waits until it is known
// that there is one.
func (a *app) parsePast(arg string) (w where, rev versions.Revision, path string, unclear, err error) {
	spec, err := versions.ParseSpec(arg, time.Local)
	if err != nil {
		return w, rev, "", nil, err
	}
	if !spec.Rooted && a.workspaceFlag == "" {
		w, err = a.placeOfName(spec.Path)
	} else {
		w, err = a.here()
	}
	if err != nil {
		return w, rev, "", nil, err
	}
	rev, path = spec.Revision, w.path
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
		unclear = daemon.Fail(daemon.ExitUsage, "%s: it is on no mount of a workspace; write WS@REV:PATH, or give --workspace", ui.Quote(arg))
	}
	return w, rev, versions.Clean(path), unclear, nil
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
