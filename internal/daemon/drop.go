package daemon

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"wsfs/versions"
)

// drop takes a workspace away, in one row. Nothing of it is deleted: undrop brings it back until it is collected.
func (d *Daemon) drop(ctx context.Context, req DropRequest) (DropReply, error) {
	out, err := d.dropIdle(ctx, req)
	if err == nil {
		d.tellGone(out.Workspace)
	}
	return out, err
}

// dropIdle drops a workspace that nobody uses.
func (d *Daemon) dropIdle(ctx context.Context, req DropRequest) (DropReply, error) {
	ws, err := d.workspace(ctx, req.Workspace)
	if err != nil {
		return DropReply{}, err
	}
	s, err := d.slot(ctx, ws.Name, ws.ID)
	if err != nil {
		return DropReply{}, err
	}
	who := d.callerAt(ctx, s)
	d.endIdle(ws.ID)
	if err := d.vacate(ws.ID); err != nil {
		return DropReply{}, Fail(ExitFailed, "drop %q: %w", ws.Name, err)
	}
	s.mu.Lock() // nobody can make it live meanwhile
	defer s.mu.Unlock()
	if s.gone {
		return DropReply{}, Fail(ExitFailed, "drop %q: another command has just dropped it: %w", ws.Name, syscall.ENOENT)
	}
	if point := d.mountOf(ws.Name); point != "" && d.o.RuntimeDir != "" && within(point, d.o.RuntimeDir) {
		return DropReply{}, Fail(ExitFailed, "drop %q: a program that `wsfs run` started works in it; end that first: %w", ws.Name, syscall.EBUSY)
	} else if point != "" {
		return DropReply{}, Fail(ExitFailed, "drop %q: it is mounted on %s; `wsfs umount %s` first: %w", ws.Name, point, point, syscall.EBUSY)
	}
	if s.live != nil {
		return DropReply{}, Fail(ExitFailed, "drop %q: another command works on it; try again: %w", ws.Name, syscall.EBUSY)
	}
	if ws, err = d.workspace(ctx, req.Workspace); err != nil { // it may have moved since
		return DropReply{}, err
	}
	out := DropReply{Workspace: ws.Name, ID: int64(ws.ID)}
	if out.OnlyHere, err = d.st.OnlyHere(ctx, ws); err != nil {
		return DropReply{}, err
	}
	if out.OnlyHere > 0 && !req.Force {
		return DropReply{}, Fail(ExitDecision, "drop %q: %s of it are in no other workspace; `wsfs fork %s NAME` keeps them reachable, "+
			"--force drops it all the same, and `wsfs undrop %s` would bring it back", ws.Name, changes(out.OnlyHere), ws.Name, ws.Name)
	}
	slot, err := d.give(ctx, versions.DropOp(*ws, d.o.Now().UnixNano(), who))
	if err == nil {
		err = d.st.Wait(slot)
	}
	if err != nil {
		return DropReply{}, err
	}
	d.at("dropped")
	d.forget(s)
	d.log.Info("dropped", "workspace", ws.Name, "id", ws.ID, "only_here", out.OnlyHere)
	return out, nil
}

// changes is a number of changes as OnlyHere counts them.
func changes(n int64) string {
	switch {
	case n == 1:
		return "1 change"
	case n >= 10_000:
		return "10,000 or more changes"
	}
	return fmt.Sprintf("%d changes", n)
}

// mountOf is a mountpoint that shows the workspace, "" if none does.
func (d *Daemon) mountOf(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for point, m := range d.mounts {
		if m.req.Workspace == name {
			return point
		}
	}
	return ""
}

// forget removes the slot of a workspace that was dropped. s.mu is held.
func (d *Daemon) forget(s *slot) {
	s.gone = true
	s.rest()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.slots, s.id)
}

// undrop brings back the workspace of that name that was dropped last.
func (d *Daemon) undrop(ctx context.Context, req UndropRequest) (UndropReply, error) {
	name := req.As
	if name == "" {
		name = req.Workspace
	}
	for _, n := range []string{req.Workspace, name} {
		if err := versions.CheckWorkspaceName(n); err != nil {
			return UndropReply{}, &Error{ExitUsage, err}
		}
	}
	d.names.undrop.Lock()
	defer d.names.undrop.Unlock()
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return UndropReply{}, err
	}
	ws, err := versions.FindDropped(ctx, d.st, req.Workspace)
	if err != nil {
		return UndropReply{}, err
	}
	s, err := d.newSlot(ctx, name, ws.ID)
	if err != nil {
		return UndropReply{}, err
	}
	what := fmt.Sprintf("undrop %q", req.Workspace)
	slot, err := d.take(ctx, what, versions.UndropOp(*ws, name, d.o.Now().UnixNano(), d.callerAt(ctx, s)))
	if err != nil {
		return UndropReply{}, err
	}
	d.register(s)
	if err := d.st.Wait(slot); err != nil {
		return UndropReply{}, err
	}
	d.log.Info("undropped", "workspace", name, "id", ws.ID)
	return UndropReply{name, int64(ws.ID), time.Unix(0, ws.DroppedAt).UTC().Format(time.RFC3339Nano)}, nil
}
