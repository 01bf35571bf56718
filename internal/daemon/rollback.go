package daemon

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"wsfs/store"
	"wsfs/versions"
)

// RollbackRequest asks to bring a workspace to what it was at Revision: all of it by moving its pointer, or only Paths by a
// change.
type RollbackRequest struct {
	Workspace string `json:"workspace"`
	Revision  string `json:"revision"` // as versions.ParseHere reads it; times in UTC
	Paths     []Path `json:"paths,omitempty"`
	// WithoutMissing leaves files out whose bytes are not kept any more, instead of refusing a state that has some.
	WithoutMissing bool `json:"without_missing,omitempty"`
	ExactTimes     bool `json:"exact_times,omitempty"`
	Yes            bool `json:"yes,omitempty"` // although it removes much
	DryRun         bool `json:"dry_run,omitempty"`
	List           bool `json:"list,omitempty"`
}

// RollbackReply says what a rollback did, or would do.
type RollbackReply = UndoReply

func (d *Daemon) rollbackSaying(ctx context.Context, req RollbackRequest, say func(UndoReply)) (RollbackReply, error) {
	rev, err := versions.ParseHere(req.Revision, time.UTC)
	if err != nil {
		return RollbackReply{}, err
	}
	if rev.Workspace == "" {
		rev.Workspace = req.Workspace
	}
	s, f, release, err := d.acquireWritable(ctx, "rollback", req.Workspace, req.DryRun)
	if err != nil {
		return RollbackReply{}, err
	}
	defer release()
	if rev.Workspace != req.Workspace {
		return RollbackReply{}, Fail(ExitUsage, "rollback workspace %q to %s: that is another workspace; `wsfs fork %s NEW` makes one that starts there: %w",
			req.Workspace, rev, rev, syscall.EXDEV)
	}
	now := d.o.Now() // ages count from when it was asked
	u := &undoing{
		d: d, what: "rollback to " + rev.String(), s: s, f: f, who: d.caller(ctx, s), kind: store.OpRestore, why: versions.WhyRollback,
		dry: req.DryRun, say: say, list: req.List, ask: !req.Yes && !req.DryRun, warm: true,
	}
	whole := len(req.Paths) == 0 && !req.List && !req.DryRun && !req.WithoutMissing
	u.queued = whole && (rev.Point.Kind == versions.AtTag || rev.Point.Kind == versions.BeforeCommand)
	sel := versions.UndoSelect{Paths: texts(req.Paths), ExactTimes: req.ExactTimes, List: req.List, WithoutMissing: req.WithoutMissing}
	u.plan = func(ctx context.Context, at versions.Place) (*versions.UndoPlan, error) {
		r, err := versions.Resolve(ctx, d.st, rev, now)
		if err != nil {
			return nil, err
		}
		to, err := r.Place(ctx, d.st)
		if err != nil {
			return nil, err
		}
		plan, err := versions.PlanRollback(ctx, d.st, f.Workspace(), at, to, sel)
		var lack *versions.LackError
		if errors.As(err, &lack) {
			err = &Error{ExitDecision, fmt.Errorf("%w; nothing was changed", err)}
		}
		return plan, err
	}
	return u.run(ctx)
}
