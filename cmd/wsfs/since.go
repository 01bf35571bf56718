package main

import (
	"context"
	"errors"
	"time"

	"wsfs/store"
	"wsfs/versions"
)

// since is the seq that a log goes back to, 0 for the beginning: a point of the workspace, or of its past before it was
// made.
func (a *app) since(ctx context.Context, st *store.Store, rev *versions.Resolved, point string) (store.Seq, error) {
	if point == "" {
		return 0, nil
	}
	from, err := versions.ParseHere(point, time.Local)
	if err != nil {
		return 0, err
	}
	if from.Workspace == "" {
		from.Workspace = rev.Workspace.Name
	}
	res, err := versions.Resolve(ctx, st, from, a.out.Now)
	var unknown *versions.UnknownError
	if errors.As(err, &unknown) && (from.Point.Kind == versions.AtAge || from.Point.Kind == versions.AtTime) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pinned, err := st.Pin(ctx, res.View)
	if err != nil {
		return 0, err
	}
	_, seq := pinned.Head()
	return seq, nil
}
