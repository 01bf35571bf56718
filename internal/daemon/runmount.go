package daemon

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"wsfs/fs"
	"wsfs/internal/proc"
	"wsfs/store"
)

// linger is how long a mount that was made for a run waits for the next run.
const linger = 5 * time.Second

// runs are the mounts and commands of `wsfs run`.
type runs struct {
	registry proc.Registry

	mounting sync.Mutex // held while a mount is made or taken away
	mounts   map[store.WorkspaceID]*runMount

	mu       sync.Mutex
	commands map[int]*runningCommand // by pid; guarded by mu

	rules atomic.Pointer[map[string]*fs.Rules] // of sessions of commands that brought some; set under mu, what it points to never changes
}

// runMount is a mount on a directory of ours. It is never unmounted under its users: they have copies of it in
// namespaces of their own, which the kernel goes on serving.
type runMount struct {
	point string
	held  *os.File       // says that the directory is in use
	users int            // guarded by runs.mounting
	asked int            // guarded by runs.mounting; how often it was asked for
	ends  map[int]func() // guarded by runs.mounting; by process: what its end does, once
	idle  *time.Timer    // guarded by runs.mounting; nil while it has users
}

// runMount mounts a workspace for the process that asks, or shares the mount that is there.
func (d *Daemon) runMount(ctx context.Context, req RunMountRequest) (RunMountReply, error) {
	pid, ok := ctx.Value(peerKey{}).(int)
	if !ok || pid <= 0 {
		return RunMountReply{}, Fail(ExitFailed, "mount %s for a run: it is not known for which process", req.Workspace)
	}
	ws, err := d.workspace(ctx, req.Workspace)
	if err != nil {
		return RunMountReply{}, err
	}
	d.runs.mounting.Lock()
	defer d.runs.mounting.Unlock()
	m := d.runs.mounts[ws.ID]
	if m != nil && !d.serves(m.point) { // somebody took it away
		m.leave()
		_ = m.held.Close()
		m = nil
	}
	if m == nil {
		point, held, err := d.runPoint(ws.Name)
		if err != nil {
			return RunMountReply{}, err
		}
		if _, err := d.mount(ctx, MountRequest{Workspace: ws.Name, Mountpoint: Path(point), Suid: true, AllowOther: os.Geteuid() == 0, run: true, reads: req.Reads, held: held}); err != nil {
			_ = os.Remove(point)
			_ = held.Close()
			return RunMountReply{}, err
		}
		m = &runMount{point: point, held: held}
		if d.runs.mounts == nil {
			d.runs.mounts = map[store.WorkspaceID]*runMount{}
		}
		d.runs.mounts[ws.ID] = m
	}
	m.users++
	if m.idle != nil {
		m.idle.Stop()
		m.idle = nil
	}
	forget := d.keepUser(pid, m)
	end := sync.OnceFunc(func() { forget(); d.leaveRunMount(ws.ID, m, pid) })
	if m.ends == nil {
		m.ends = map[int]func(){}
	}
	m.ends[pid] = end
	if err := onEnd(pid, end); err != nil {
		forget()
		d.dropUser(ws.ID, m)
		return RunMountReply{}, err
	}
	return RunMountReply{Path(m.point), os.Getpid()}, nil
}

// leaveRun is the end of the use that the asking process makes of a mount.
func (d *Daemon) leaveRun(ctx context.Context, req RunMountRequest) error {
	pid, _ := ctx.Value(peerKey{}).(int)
	ws, err := d.workspace(ctx, req.Workspace)
	if err != nil {
		return err
	}
	var end func()
	d.runs.mounting.Lock()
	if m := d.runs.mounts[ws.ID]; m != nil {
		end = m.ends[pid]
	}
	d.runs.mounting.Unlock()
	if end != nil {
		end()
	}
	return nil
}

// serves reports whether this daemon has a mount there.
func (d *Daemon) serves(point string) bool {
	d.mu.Lock()
	entry := d.mounts[point]
	d.mu.Unlock()
	if entry == nil || entry.m == nil {
		return false
	}
	mounts, err := Mounts()
	if err != nil {
		return false
	}
	m := MountAt(mounts, point)
	return m != nil && m.Ours()
}

func (m *runMount) leave() {
	if m.idle != nil {
		m.idle.Stop()
		m.idle = nil
	}
}

func (d *Daemon) leaveRunMount(id store.WorkspaceID, m *runMount, pid int) {
	d.runs.mounting.Lock()
	defer d.runs.mounting.Unlock()
	delete(m.ends, pid)
	d.dropUser(id, m)
}

// dropUser is called with runs.mounting held.
func (d *Daemon) dropUser(id store.WorkspaceID, m *runMount) {
	if m.users--; m.users > 0 || d.runs.mounts[id] != m {
		return
	}
	m.idle = time.AfterFunc(linger, func() {
		d.runs.mounting.Lock()
		defer d.runs.mounting.Unlock()
		if m.users == 0 && d.runs.mounts[id] == m {
			d.endRunMount(id, m)
		}
	})
}

// endRunMount takes it out of the tree. What still runs in a copy of it is served on. runs.mounting is held.
func (d *Daemon) endRunMount(id store.WorkspaceID, m *runMount) {
	m.leave()
	delete(d.runs.mounts, id)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	minor := deviceOf(m.point)
	defer func() { go detachCopies(m.point, minor) }()
	if err := d.unmount(ctx, m.point, true); err != nil && ExitCode(err) != ExitNothing {
		d.log.Error("end the mount of a run", "mountpoint", m.point, "error", err)
	}
	_ = os.Remove(m.point) // EBUSY for a moment in other namespaces: the next run removes it
	_ = m.held.Close()
}

// endIdle takes the mount of a workspace away that only waits for the next run, so that the workspace can be dropped.
func (d *Daemon) endIdle(id store.WorkspaceID) {
	d.runs.mounting.Lock()
	defer d.runs.mounting.Unlock()
	for range 50 { // a run that has just ended is heard of in a moment
		if m := d.runs.mounts[id]; m == nil || m.users == 0 {
			break
		}
		d.runs.mounting.Unlock()
		time.Sleep(10 * time.Millisecond)
		d.runs.mounting.Lock()
	}
	m := d.runs.mounts[id]
	if m == nil || m.users > 0 {
		return
	}
	d.mu.Lock()
	entry := d.mounts[m.point]
	d.mu.Unlock()
	d.endRunMount(id, m)
	if entry != nil {
		select {
		case <-entry.gone:
		case <-time.After(2 * time.Second): // somebody lives on in it
		}
	}
}
