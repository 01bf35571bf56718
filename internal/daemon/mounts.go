package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/fs/fuse"
)

// unmountPatience is how long the end of the daemon waits for users of a mount before it cuts them off.
const unmountPatience = 2 * time.Second

// partPatience is how long a new mount waits for the end of one that umount(8) has just taken away from its place.
const partPatience = 20 * time.Second

// mounted is one mount that this daemon serves.
type mounted struct {
	req   MountRequest
	since time.Time
	show  *shown
	m     *fuse.Mount // nil while it is being made
	kept  *fuse.Kept  // nil: it ends with this daemon
	gone  chan struct{}
}

// mount serves a workspace on a directory.
func (d *Daemon) mount(ctx context.Context, req MountRequest) (Mount, error) {
	point := string(req.Mountpoint)
	if err := d.checkPlace(point); err != nil {
		return Mount{}, err
	}
	d.waitParted(ctx, point)
	entry := &mounted{req: req, since: d.o.Now(), gone: make(chan struct{})}
	d.mu.Lock()
	d.tried = true
	switch {
	case d.ending:
		d.mu.Unlock()
		return Mount{}, Fail(ExitFailed, "mount on %s: the daemon is ending; try again: %w", point, syscall.EAGAIN)
	case d.mounts[point] != nil:
		have := "workspace " + strconv.Quote(d.mounts[point].req.Workspace) + " is"
		if d.mounts[point].req.All {
			have = "all workspaces are"
		}
		d.mu.Unlock()
		return Mount{}, Fail(ExitFailed, "mount on %s: %s mounted there; `wsfs umount %s` ends that: %w", point, have, point, syscall.EBUSY)
	}
	d.mounts[point] = entry
	d.mu.Unlock()
	drop := func() {
		d.mu.Lock()
		delete(d.mounts, point)
		d.mu.Unlock()
		d.leaveIfIdle()
	}
	entry.kept = d.newKept(&req)
	show, m, err := d.mountOn(ctx, &req, entry.kept)
	if err != nil {
		entry.kept.Close()
		drop()
		return Mount{}, err
	}
	d.mu.Lock()
	entry.m, entry.show, entry.req = m, show, req
	info := d.describe(entry)
	d.mu.Unlock()
	d.keepMount(entry)
	d.saveMounts()
	d.log.Log(ctx, req.level(), "mounted", "workspace", show.label(), "mountpoint", point, "read_only", req.ReadOnly)
	d.attend(entry)
	return info, nil
}

// level is that of what is logged of a mount.
func (req *MountRequest) level() slog.Level {
	if req.run { // there is one for each call of a tool
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// attend waits for the end of a mount, in the background.
func (d *Daemon) attend(entry *mounted) {
	m, show, point := entry.m, entry.show, string(entry.req.Mountpoint)
	go func() {
		err := m.Wait()
		d.log.Log(context.Background(), entry.req.level(), "unmounted", "workspace", show.label(), "mountpoint", point, "error", err)
		show.release()
		entry.kept.Close()
		d.mu.Lock()
		delete(d.mounts, point)
		d.mu.Unlock()
		d.saveMounts()
		d.leaveIfIdle() // before anybody is answered, so that Status tells them that the daemon ends
		close(entry.gone)
	}()
}

// waitParted waits for the end of a mount that is in the mount table no more. umount(8) returns before its server has
// noticed, and whoever mounts again in the next line of a script must not be told that the place is taken.
func (d *Daemon) waitParted(ctx context.Context, point string) {
	d.mu.Lock()
	had := d.mounts[point]
	made := had != nil && had.m != nil
	d.mu.Unlock()
	if !made {
		return
	}
	if table, err := Mounts(); err != nil || MountAt(table, point) != nil {
		return
	}
	select {
	case <-had.gone:
	case <-ctx.Done():
	case <-time.After(partPatience):
	}
}

// mountOn mounts what req asks for.
func (d *Daemon) mountOn(ctx context.Context, req *MountRequest, kept *fuse.Kept) (*shown, *fuse.Mount, error) {
	if _, err := fs.ParseRules(req.Conflicts); err != nil {
		return nil, nil, &Error{ExitUsage, fmt.Errorf("mount on %s: %w", req.Mountpoint, err)}
	}
	if req.All {
		m, err := d.mountAll(ctx, req, kept, nil)
		return &shown{workspace: allLabel, release: func() {}}, m, err
	}
	show, err := d.show(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	req.Workspace, req.ReadOnly = show.workspace, req.ReadOnly || show.seq != 0
	if req.reads {
		show.f.WatchReads()
	}
	m, err := d.serveShown(ctx, req, show, kept, nil)
	if err != nil {
		show.release()
	}
	return show, m, err
}

// serveShown mounts what show has open, or goes on with the mount of it that kept is of.
func (d *Daemon) serveShown(ctx context.Context, req *MountRequest, show *shown, kept *fuse.Kept, back []uint64) (*fuse.Mount, error) {
	o := d.mountOptions(req, show.label())
	o.Kept, o.BeforeReply, o.Back, o.Again = kept, d.o.beforeReply, back, d.again(string(req.Mountpoint), req.Session)
	o.Resolver, o.Control = show.resolver, d.controlOf(show.slot, show.f, show.seq, string(req.Mountpoint), "", req.Session)
	return fuse.New(context.WithoutCancel(ctx), show.f, string(req.Mountpoint), o)
}

func (d *Daemon) mountOptions(req *MountRequest, label string) fuse.Options {
	rules, _ := fs.ParseRules(req.Conflicts) // mountOn has looked at them
	return fuse.Options{
		AllowOther: req.AllowOther, ReadOnly: req.ReadOnly, Suid: req.Suid, Dev: req.Dev, NoExec: req.NoExec,
		NonEmpty: req.NonEmpty, Name: sourceName(label, d.o.Store), Transport: fuse.Transport(req.Transport),
		Log: d.log, EchoHelper: d.o.EchoHelper, NoEcho: req.NoEcho,
		DurableClose: req.Durability == DurableClose, Rules: rules,
	}
}

// checkPlace refuses mountpoints that would make the daemon wait for itself. It only compares names.
func (d *Daemon) checkPlace(point string) error {
	refuse := func(errno syscall.Errno, format string, args ...any) error {
		return Fail(ExitFailed, "mount on %s: %s: %w", point, fmt.Sprintf(format, args...), errno)
	}
	if !filepath.IsAbs(point) || filepath.Clean(point) != point {
		return Fail(ExitUsage, "mount on %q: the mountpoint must be a clean absolute path: %w", point, syscall.EINVAL)
	}
	switch {
	case within(point, d.o.Store):
		return refuse(syscall.EINVAL, "it is inside the store %s; choose a directory outside", d.o.Store)
	case within(d.o.Store, point):
		return refuse(syscall.EINVAL, "the store %s is inside it and would be hidden; choose another directory", d.o.Store)
	}
	mounts, err := Mounts()
	if err != nil {
		return err
	}
	for i := range mounts {
		m := &mounts[i]
		if m.Ours() && m.Store() == d.o.Store && m.Point != point && within(point, m.Point) {
			return refuse(syscall.EINVAL, "it is inside the mount of %s at %s; choose a directory outside", m.Shown(), m.Point)
		}
	}
	return nil
}

// unmount ends one mount and returns when its file system is closed, so that what was written there is in the database.
func (d *Daemon) unmount(ctx context.Context, point string, lazy bool) error {
	d.mu.Lock()
	entry := d.mounts[point]
	d.mu.Unlock()
	if entry == nil || entry.m == nil {
		return Fail(ExitNothing, "unmount %s: this store's daemon has no mount there; `wsfs status` lists its mounts", point)
	}
	if minor := deviceOf(point); minor != 0 {
		defer detachLater(point, minor)()
	}
	if err := entry.m.Unmount(ctx, lazy); err != nil {
		return err
	}
	if lazy {
		return nil // its users may keep it for long
	}
	select {
	case <-entry.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unmountAll ends all mounts at once; users that are still there after patience are cut off.
func (d *Daemon) unmountAll(patience time.Duration) error {
	d.mu.Lock()
	all := make([]*mounted, 0, len(d.mounts))
	for _, m := range d.mounts {
		if m.m != nil {
			all = append(all, m)
		}
	}
	d.mu.Unlock()
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	for i, entry := range all {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			errs[i] = entry.m.Shutdown(ctx)
			<-entry.gone
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// leaveIfIdle ends a daemon that was started for its mounts when the last one is gone.
func (d *Daemon) leaveIfIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.o.AutoExit && d.tried && len(d.mounts) == 0 {
		d.ending = true
		d.Stop()
	}
}

// describe is a mount for the API. d.mu is held.
func (d *Daemon) describe(m *mounted) Mount {
	out := Mount{
		Workspace: m.req.Workspace, Mountpoint: m.req.Mountpoint, ReadOnly: m.req.ReadOnly, Session: m.req.Session,
		Since: m.since.UTC().Format(time.RFC3339), Seq: int64(m.show.seq), Temporary: m.req.Temporary, All: m.req.All,
		Run: m.req.run,
	}
	return out
}

// list is all mounts, by mountpoint.
func (d *Daemon) list() []Mount {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Mount, 0, len(d.mounts))
	for _, m := range d.mounts {
		if m.m != nil {
			out = append(out, d.describe(m))
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Mountpoint < out[j].Mountpoint })
	return out
}

// savedMount is one entry of the file `mounts`, which outlives a killed daemon.
type savedMount struct {
	Workspace  string `json:"workspace"`
	Mountpoint Path   `json:"mountpoint"`
	Source     string `json:"source"`
}

func mountsFile(dir string) string { return filepath.Join(dir, "mounts") }

// saveMounts writes the file `mounts`. Failing is no reason to fail the mount: the mount table names our store too.
func (d *Daemon) saveMounts() {
	var list []savedMount
	for _, m := range d.list() {
		list = append(list, savedMount{m.Workspace, m.Mountpoint, sourcePrefix + sourceName(m.source(), d.o.Store)})
	}
	b, err := json.MarshalIndent(list, "", "\t")
	if err == nil {
		tmp := mountsFile(d.o.Store) + ".new"
		if err = os.WriteFile(tmp, append(b, '\n'), 0o600); err == nil {
			err = os.Rename(tmp, mountsFile(d.o.Store))
		}
	}
	if err != nil {
		d.log.Warn("save the list of mounts", "error", err)
	}
}

// clearStale detaches mounts of this store that no daemon serves any more. It runs with the lock held, so whatever the
// mount table says of this store was left by a daemon that is dead.
func (d *Daemon) clearStale(ctx context.Context) error {
	stale, err := StaleMounts(d.o.Store)
	if err != nil {
		return err
	}
	for _, m := range stale {
		if d.serves(m.Point) { // it was taken over
			continue
		}
		d.log.Warn("clear a mount whose daemon died", "mountpoint", m.Point, "source", m.Source)
		if err := fuse.UnmountPath(ctx, m.Point, true); err != nil {
			return fmt.Errorf("clear the dead mount on %s: %w; do it by hand: fusermount3 -uz %s", m.Point, err, m.Point)
		}
	}
	d.saveMounts()
	if d.o.RuntimeDir != "" && ownDir(d.o.RuntimeDir) == nil {
		d.clearRunPoints(d.o.RuntimeDir)
	}
	return nil
}

// StaleMounts lists the mounts of the store in directory dir, newest first. While nobody holds the store's lock they
// are all dead. No mount is touched.
func StaleMounts(dir string) ([]MountInfo, error) {
	mounts, err := Mounts()
	if err != nil {
		return nil, err
	}
	saved := map[string]string{}
	if b, err := os.ReadFile(mountsFile(dir)); err == nil {
		var list []savedMount
		if json.Unmarshal(b, &list) == nil {
			for _, s := range list {
				saved[string(s.Mountpoint)] = s.Source
			}
		}
	}
	var out []MountInfo
	for i := len(mounts) - 1; i >= 0; i-- {
		m := mounts[i]
		// The file speaks for a store that was moved since: its mounts have the old path in their source.
		if m.Ours() && (m.Store() == dir || saved[m.Point] == m.Source) {
			out = append(out, m)
		}
	}
	return out, nil
}
