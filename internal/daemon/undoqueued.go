package daemon

import (
	"context"

	"wsfs/fs"
	"wsfs/versions"
)

// runQueued is run where the last thing that was done to the workspace is that much was removed, and the database is still at
// it: the state that is gone back to is in the database, and what was removed since is in the queue, so there is nothing to wait
// for. It is done only if what is queued is nothing but removals behind that state, and the move removes nothing, so that nobody
// is to be asked. Else done is false, nothing was changed, and run goes on.
func (u *undoing) runQueued(ctx context.Context) (out UndoReply, done bool, err error) {
	timeline, seq, err := u.f.Freeze(nil)
	if err != nil {
		return UndoReply{}, false, err
	}
	at := versions.Place{Timeline: timeline, Seq: seq}
	q := u.d.st.QueuedRemovals(timeline, seq)
	u.d.log.Debug("queued removals", "workspace", u.s.name, "seq", seq, "found", q != nil)
	if q == nil {
		return UndoReply{}, false, nil
	}
	after := q.After()
	if sp := u.f.LastRun(); sp.Timeline == timeline && sp.UpTo > sp.After {
		after = min(after, sp.After)
	}
	ctx, ok, err := q.Steps(ctx, after)
	if !ok || err != nil {
		return UndoReply{}, false, err
	}
	plan, err := u.plan(ctx, at)
	if err != nil || plan.Move == nil || plan.Removed > 0 || plan.Empty() {
		return UndoReply{}, false, nil // run says what it is
	}
	if to := plan.Move; to.Timeline == timeline && to.Seq >= q.After() {
		return UndoReply{}, false, nil // the database may not have it yet
	}
	h, err := u.f.HoldQueued(ctx)
	if err != nil {
		return UndoReply{}, false, err
	}
	defer h.Release()
	if timeline, seq = h.At(); at != (versions.Place{Timeline: timeline, Seq: seq}) {
		return UndoReply{}, false, nil // somebody went on
	}
	out = u.reply(plan)
	u.say(out)
	out.Moved = true
	return out, true, undoError(h.Move(ctx, fs.Move{Timeline: plan.Move.Timeline, Seq: plan.Move.Seq, Why: u.why, Who: u.who}))
}
