package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"wsfs/store"
	"wsfs/versions"
)

// fork makes a workspace that starts at a revision of another one: one op, acknowledged when it is in the journal.
func (d *Daemon) fork(ctx context.Context, req ForkRequest) (ForkReply, error) {
	rev, err := versions.Parse(req.Revision, time.UTC)
	if err != nil {
		return ForkReply{}, err
	}
	if err := versions.CheckWorkspaceName(req.Name); err != nil {
		return ForkReply{}, &Error{ExitUsage, err}
	}
	from, err := d.freeze(ctx, rev)
	if err != nil {
		return ForkReply{}, err
	}
	what := fmt.Sprintf("fork %s into %q", rev, req.Name)
	if err := d.whole(ctx, what, rev, from.place); err != nil {
		return ForkReply{}, err
	}
	op := versions.ForkOp(d.st, &from.ws, from.place, req.Name, d.o.Now().UnixNano(), d.callerAt(ctx, from.slot))
	slot, err := d.take(ctx, what, op)
	if err != nil {
		return ForkReply{}, err
	}
	if err := d.st.Wait(slot); err != nil {
		return ForkReply{}, fmt.Errorf("%s: %w", what, err)
	}
	d.log.Info("forked", "workspace", req.Name, "parent", from.ws.Name, "seq", from.place.Seq)
	return ForkReply{req.Name, int64(op.Pointer.Workspace.ID), from.ws.Name, int64(from.place.Seq)}, nil
}

// whole refuses to begin something that can be written at a state of which bytes are missing.
func (d *Daemon) whole(ctx context.Context, what string, rev versions.Revision, at versions.Place) error {
	if rev.Point.Kind == versions.AtHead {
		return nil // and so nothing is asked of the database
	}
	if err := at.Whole(ctx, d.st); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// frozen is a fixed point of a workspace.
type frozen struct {
	slot  *slot
	ws    store.Workspace
	place versions.Place
}

// freeze finds the state that rev names, complete and never to be amended: what is dirty in a live file system becomes
// versions first. Only a revision that needs the database waits for it.
func (d *Daemon) freeze(ctx context.Context, rev versions.Revision) (frozen, error) {
	for {
		if at, ok, err := d.freezeLive(ctx, rev); ok || err != nil {
			return at, err
		}
		row, err := d.workspace(ctx, rev.Workspace)
		if err != nil {
			return frozen{}, err
		}
		s, err := d.slot(ctx, rev.Workspace, row.ID)
		if err != nil {
			return frozen{}, err
		}
		s.mu.Lock()                                   // or it could become live and write in the middle
		if s.gone || s.live != nil && !row.ReadOnly { // it has, a moment ago
			s.mu.Unlock()
			continue
		}
		at, err := d.find(ctx, s, rev)
		s.mu.Unlock()
		return at, err
	}
}

// freezeLive is freeze for a live workspace; ok is false for any other.
func (d *Daemon) freezeLive(ctx context.Context, rev versions.Revision) (at frozen, ok bool, err error) {
	id, err := d.named(ctx, rev.Workspace)
	if err != nil {
		return frozen{}, false, err
	}
	d.mu.Lock()
	s := d.slots[id]
	d.mu.Unlock()
	if s == nil {
		return frozen{}, false, nil
	}
	s.mu.Lock()
	f := s.live
	if f != nil {
		s.refs++
	}
	s.mu.Unlock()
	if f == nil {
		return frozen{}, false, nil
	}
	defer s.release()
	if f.Workspace().ReadOnly {
		return frozen{}, false, nil // nothing is dirty
	}
	at = frozen{slot: s}
	if at.place.Timeline, at.place.Seq, err = f.Freeze(nil); err != nil {
		return frozen{}, false, fmt.Errorf("find %s: %w", rev, err)
	}
	at.ws = *f.Workspace()
	if rev.Point.Kind != versions.AtHead {
		at, err = d.find(ctx, s, rev)
	}
	return at, true, err
}

// find resolves rev in the database after everything acknowledged is there.
func (d *Daemon) find(ctx context.Context, s *slot, rev versions.Revision) (frozen, error) {
	now := d.o.Now()
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return frozen{}, err
	}
	r, err := versions.Resolve(ctx, d.st, rev, now)
	if err != nil {
		return frozen{}, err
	}
	place, err := r.Place(ctx, d.st)
	return frozen{s, *r.Workspace, place}, err
}

// maxAskers is how many workspaces that are not live keep what resolving took hold of, so that the next change that
// comes over the API knows the processes it has seen.
const maxAskers = 16

// callerAt is caller for a workspace that need not be live.
func (d *Daemon) callerAt(ctx context.Context, s *slot) store.Attribution {
	s.mu.Lock()
	s.asking++
	s.mu.Unlock()
	who := d.caller(ctx, s)
	s.mu.Lock()
	s.asking--
	s.mu.Unlock()
	var old *slot
	d.mu.Lock()
	if !slices.Contains(d.askers, s) {
		if d.askers = append(d.askers, s); len(d.askers) > maxAskers {
			old, d.askers = d.askers[0], d.askers[1:]
		}
	}
	d.mu.Unlock()
	if old != nil {
		old.mu.Lock()
		old.rest()
		old.mu.Unlock()
	}
	return who
}
