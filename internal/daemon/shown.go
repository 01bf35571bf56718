package daemon

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"wsfs/fs"
	"wsfs/fs/fuse"
	"wsfs/store"
	"wsfs/versions"
)

// shown is what one mount shows: a live workspace, a state of its past, or a fork that lives as long as the mount.
type shown struct {
	f         *fs.FS
	slot      *slot
	workspace string
	id        store.WorkspaceID
	timeline  store.TimelineID // of a past state, as seq
	seq       store.Seq        // of a past state, 0 if it is live
	resolver  fuse.Resolver    // nil where nothing can be changed
	release   func()           // once, when the mount is gone
}

// label names it as a revision does.
func (s *shown) label() string { return mountLabel(s.workspace, s.seq) }

func mountLabel(workspace string, seq store.Seq) string {
	if seq == 0 {
		return workspace
	}
	return fmt.Sprintf("%s@%d", workspace, seq)
}

// show opens what req asks for.
func (d *Daemon) show(ctx context.Context, req *MountRequest) (*shown, error) {
	rev := versions.Revision{Workspace: req.Workspace}
	if req.Revision != "" {
		var err error
		if rev, err = versions.Parse(req.Revision, time.UTC); err != nil {
			return nil, err
		}
		if rev.Workspace != req.Workspace {
			return nil, Fail(ExitUsage, "mount %s: it is no revision of workspace %q: %w", req.Revision, req.Workspace, syscall.EINVAL)
		}
	}
	switch {
	case req.Temporary:
		return d.showFork(ctx, rev, req.Session)
	case req.Revision != "":
		return d.showPast(ctx, rev, string(req.Mountpoint))
	}
	return d.showLive(ctx, req.Workspace, req.Session)
}

func (d *Daemon) showLive(ctx context.Context, name, session string) (*shown, error) {
	s, f, release, err := d.acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return &shown{f: f, slot: s, workspace: name, id: s.id, resolver: s.resolver(session), release: release}, nil
}

// showPast opens a state of the past. A pin keeps it for as long as the mount is there, and the view that it is read
// through holds no transaction.
func (d *Daemon) showPast(ctx context.Context, rev versions.Revision, point string) (*shown, error) {
	from, err := d.freeze(ctx, rev)
	if err != nil {
		return nil, err
	}
	f, release, err := d.openPinned(ctx, from, pinRef(point))
	if err != nil {
		return nil, fmt.Errorf("%s for the mount on %s: %w", rev, point, err)
	}
	at := from.place
	return &shown{f: f, slot: from.slot, workspace: from.ws.Name, id: from.ws.ID, timeline: at.Timeline, seq: at.Seq, release: release}, nil
}

// openPinned opens a state of the past with a pin of that name, which release removes after it has closed it.
func (d *Daemon) openPinned(ctx context.Context, from frozen, ref string) (f *fs.FS, release func(), err error) {
	pin := store.Pin{Timeline: from.place.Timeline, Seq: from.place.Seq, Kind: store.PinMount, Ref: ref}
	what := fmt.Sprintf("pin %s@%d", from.ws.Name, pin.Seq)
	if _, err := d.st.ViewAt(ctx, pin.Timeline, pin.Seq); err != nil && errors.Is(err, store.ErrCollected) {
		return nil, nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := d.mark(what, d.pinOp(store.PinChange{Pin: pin})); err != nil {
		return nil, nil, err
	}
	unpin := func() {
		if err := d.mark("un"+what, d.pinOp(store.PinChange{Pin: pin, Remove: true})); err != nil {
			d.log.Error("leave a pinned state", "error", err) // the next start removes it
		}
	}
	if f, err = d.openPast(ctx, from); err != nil {
		unpin()
		return nil, nil, err
	}
	return f, func() {
		if err := f.Close(); err != nil {
			d.log.Error("close a pinned state", "workspace", from.ws.Name, "seq", pin.Seq, "error", err)
		}
		unpin()
	}, nil
}

func (d *Daemon) openPast(ctx context.Context, from frozen) (*fs.FS, error) {
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return nil, err
	}
	view, err := d.st.ViewAt(ctx, from.place.Timeline, from.place.Seq)
	if err != nil {
		return nil, err
	}
	return fs.Open(ctx, d.st, &from.ws, fs.Options{Log: d.log, Now: d.o.Now, At: view})
}

func (d *Daemon) pinOp(pins ...store.PinChange) *store.Op {
	return &store.Op{Kind: store.OpWorkspace, At: d.o.Now().UnixNano(), Pins: pins}
}

// pinRef is a mountpoint as a pin names it.
func pinRef(point string) string {
	if utf8.ValidString(point) {
		return point
	}
	return strconv.Quote(point)
}

// showFork forks and opens the fork, which is dropped when nobody uses it any more. The same op pins its base, so that
// the next start finds it if this process is killed.
func (d *Daemon) showFork(ctx context.Context, rev versions.Revision, session string) (*shown, error) {
	from, err := d.freeze(ctx, rev)
	if err != nil {
		return nil, err
	}
	who := d.callerAt(ctx, from.slot)
	for {
		op := versions.ForkOp(d.st, &from.ws, from.place, "", d.o.Now().UnixNano(), who)
		ws := &op.Pointer.Workspace
		ws.Name = versions.TemporaryName(from.ws.Name, int64(ws.ID))
		pin := store.Pin{Timeline: ws.Base, Seq: ws.BaseSeq, Kind: store.PinTemporary, Ref: strconv.FormatInt(int64(ws.ID), 10)}
		op.Pins = []store.PinChange{{Pin: pin}}
		slot, err := d.take(ctx, fmt.Sprintf("fork %s into %q", rev, ws.Name), op)
		if errors.Is(err, syscall.EEXIST) {
			continue // somebody likes our names
		}
		if err == nil {
			err = d.st.Wait(slot)
		}
		if err != nil {
			return nil, err
		}
		d.log.Info("forked for a mount", "workspace", ws.Name, "parent", from.ws.Name, "seq", from.place.Seq)
		return d.showTemporary(ctx, ws.Name, pin, session)
	}
}

// showTemporary opens a workspace that is dropped when nobody uses it any more, with its pin.
func (d *Daemon) showTemporary(ctx context.Context, name string, pin store.Pin, session string) (*shown, error) {
	s, f, release, err := d.acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.temporary = &pin
	s.mu.Unlock()
	leave := func() {
		release()
		// Where a mount of all has it open with nobody in it, it is dropped now, too.
		if err := d.vacate(s.id); err != nil {
			d.log.Info("a temporary fork stays until it is left", "workspace", name, "error", err)
		}
	}
	return &shown{f: f, slot: s, workspace: name, id: s.id, resolver: s.resolver(session), release: leave}, nil
}

// showForkAgain opens the temporary fork of a mount that is taken over.
func (d *Daemon) showForkAgain(ctx context.Context, ws *store.Workspace, session string) (*shown, error) {
	pins, err := d.st.Pins(ctx, store.PinTemporary)
	if err != nil {
		return nil, err
	}
	for _, p := range pins {
		if p.Ref == strconv.FormatInt(int64(ws.ID), 10) {
			return d.showTemporary(ctx, ws.Name, p, session)
		}
	}
	return nil, fmt.Errorf("fork %q was made for its mount, and has no pin: %w", ws.Name, syscall.ENOENT)
}

// showPastAgain opens the state of the past of a mount that is taken over. Its pin is there.
func (d *Daemon) showPastAgain(ctx context.Context, ws *store.Workspace, km keptMount) (*shown, error) {
	s, err := d.slot(ctx, ws.Name, ws.ID)
	if err != nil {
		return nil, err
	}
	from := frozen{slot: s, ws: *ws, place: versions.Place{Timeline: km.Timeline, Seq: km.Seq}}
	f, release, err := d.openPinned(ctx, from, pinRef(string(km.Request.Mountpoint)))
	if err != nil {
		return nil, err
	}
	return &shown{f: f, slot: s, workspace: ws.Name, id: ws.ID, timeline: km.Timeline, seq: km.Seq, release: release}, nil
}

// dropTemporary drops a workspace that was made for its mounts, after the last of them. s.mu is held.
func (d *Daemon) dropTemporary(s *slot, ws *store.Workspace) {
	op := versions.DropOp(*ws, d.o.Now().UnixNano(), store.Attribution{})
	op.Pins = []store.PinChange{{Pin: *s.temporary, Remove: true}}
	slot, err := d.give(context.Background(), op)
	if err == nil {
		d.forget(s)
		err = d.st.Wait(slot)
	}
	if err != nil {
		d.log.Error("drop a temporary fork", "workspace", ws.Name, "error", err) // the next start does
		return
	}
	go d.tellGone(ws.Name) // not under the lock of the slot
	d.log.Info("dropped", "workspace", ws.Name, "id", ws.ID)
}

// clearMarks removes what mounts of an earlier process kept: pins of past states, and temporary forks. It runs before
// anything is mounted.
func (d *Daemon) clearMarks(ctx context.Context) error {
	mounts, err := d.st.Pins(ctx, store.PinMount)
	if err != nil {
		return err
	}
	forks, err := d.st.Pins(ctx, store.PinTemporary)
	if err != nil {
		return err
	}
	var gone []store.PinChange
	kept := map[string]bool{}
	for _, m := range d.list() { // of mounts that were taken over
		if m.Seq != 0 {
			kept[pinRef(string(m.Mountpoint))] = true
		} else if m.Temporary {
			if id, err := d.named(ctx, m.Workspace); err == nil {
				kept[strconv.FormatInt(int64(id), 10)] = true
			}
		}
	}
	for _, p := range mounts {
		if kept[p.Ref] {
			continue
		}
		gone = append(gone, store.PinChange{Pin: p, Remove: true})
	}
	for _, p := range forks {
		if kept[p.Ref] {
			continue
		}
		remove := store.PinChange{Pin: p, Remove: true}
		id, _ := strconv.ParseInt(p.Ref, 10, 64) // 0: no workspace has it
		ws, err := d.st.WorkspaceByID(ctx, store.WorkspaceID(id))
		if errors.Is(err, syscall.ENOENT) || err == nil && ws.DroppedAt != 0 {
			gone = append(gone, remove)
			continue
		}
		if err != nil {
			return err
		}
		op := versions.DropOp(*ws, d.o.Now().UnixNano(), store.Attribution{})
		op.Pins = []store.PinChange{remove}
		if _, err := d.give(ctx, op); err != nil {
			return err
		}
		d.log.Info("dropped what a mount left behind", "workspace", ws.Name, "id", ws.ID)
	}
	if len(gone) == 0 {
		return nil
	}
	return d.mark("remove the pins of dead mounts", d.pinOp(gone...))
}
