package daemon

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"

	"wsfs/fs"
	"wsfs/fs/fuse"
	"wsfs/internal/control"
	"wsfs/store"
)

// allLabel stands where a mount's source has the workspace: it shows all of them. No workspace can have it as its name.
const allLabel = "@all"

// mountAll makes the mount that shows every workspace of the store as a directory.
func (d *Daemon) mountAll(ctx context.Context, req *MountRequest, kept *fuse.Kept, back []uint64) (*fuse.Mount, error) {
	if req.Workspace != "" || req.Revision != "" || req.Temporary {
		return nil, Fail(ExitUsage, "mount all workspaces on %s: no workspace, revision or --ephemeral-fork goes with it: %w", req.Mountpoint, syscall.EINVAL)
	}
	point, session := string(req.Mountpoint), req.Session
	top := &control.Top{
		Dir: d.o.Store, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Since: d.started.UnixNano(), List: d.workspaceNames,
		Enter: func(ctx context.Context, name string) (*fs.Entrance, error) {
			id, err := d.named(ctx, name)
			if err == nil && id == 0 {
				err = fmt.Errorf("workspace %q: %w", name, syscall.ENOENT)
			}
			if err != nil {
				return nil, err
			}
			return d.entrance(name, id, name, point, session), nil
		},
	}
	o := d.mountOptions(req, allLabel)
	o.Kept, o.BeforeReply, o.Back, o.Again = kept, d.o.beforeReply, back, d.again(point, session)
	return fuse.NewAll(context.WithoutCancel(ctx), top, point, o)
}

// entrance leads into a workspace that is in a mount beside what was mounted: under a mount of all, or as a transaction. It is opened when
// somebody goes in. where is its path from the root of the mount.
func (d *Daemon) entrance(name string, id store.WorkspaceID, where, point, session string) *fs.Entrance {
	return &fs.Entrance{
		Key: id, Path: where, Idle: d.liveIdle, Again: liveTree(id, where),
		Attr: func(c *fs.Call) (fs.Attr, error) {
			c.Blocks()
			s, err := d.slot(context.Background(), name, id)
			if err != nil {
				return fs.Attr{}, err
			}
			return d.attrNow(c, s, store.RootIno)
		},
		Open: func(ctx context.Context) (*fs.Tree, error) {
			s, f, release, err := d.acquire(ctx, name)
			if err != nil {
				return nil, err
			}
			if s.id != id { // dropped, and another one has its name
				release()
				return nil, fmt.Errorf("workspace %q was dropped: %w", name, syscall.ESTALE)
			}
			return &fs.Tree{FS: f, Control: d.controlOf(s, f, 0, point, where, session), Who: s.resolver(session), Close: release}, nil
		},
	}
}

// workspaceNames lists the workspaces that there are.
func (d *Daemon) workspaceNames(ctx context.Context) ([]string, error) {
	d.names.mu.Lock()
	defer d.names.mu.Unlock()
	if err := d.readNames(ctx); err != nil {
		return nil, err
	}
	list := make([]string, 0, len(d.names.live))
	for name := range d.names.live {
		list = append(list, name)
	}
	slices.Sort(list)
	return list, nil
}

// allMounts are the mounts that show every workspace.
func (d *Daemon) allMounts() []*fuse.Mount {
	return d.everyMount(func(m *mounted) bool { return m.req.All })
}

// everyMount is the mounts that match.
func (d *Daemon) everyMount(match func(*mounted) bool) []*fuse.Mount {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*fuse.Mount
	for _, m := range d.mounts {
		if m.m != nil && match(m) {
			list = append(list, m.m)
		}
	}
	return list
}

// vacate closes a workspace under every mount that shows it beside others; EBUSY if somebody is in it. No lock is held: the kernel is asked.
func (d *Daemon) vacate(id store.WorkspaceID) error {
	for _, m := range d.everyMount(func(*mounted) bool { return true }) {
		if err := m.Vacate(id); err != nil {
			return err
		}
	}
	return nil
}

// tellGone makes the kernel forget the name of a workspace that was dropped. No lock is held: the kernel may wait for a
// request that needs one.
func (d *Daemon) tellGone(name string) {
	for _, m := range d.allMounts() {
		m.EntryChanged(store.RootIno, name)
	}
}
