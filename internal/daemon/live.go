package daemon

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"

	"wsfs/fs"
	"wsfs/internal/proc"
	"wsfs/store"
	"wsfs/versions"
)

// slot is one workspace of this daemon: its live file system while anybody needs it, and its sessions, which are
// remembered for as long as the daemon runs so that a session is one writer over all mounts.
type slot struct {
	d        *Daemon
	name     string
	id       store.WorkspaceID
	sessions *proc.Sessions

	mu        sync.Mutex                // held while the file system is opened or closed
	live      *fs.FS                    // guarded by mu
	ledger    *fs.Ledger                // guarded by mu; of live; nil: nothing outlives the daemon
	refs      int                       // guarded by mu
	asking    int                       // guarded by mu; callers being resolved for what needs no live file system
	temporary *store.Pin                // guarded by mu; the workspace was made for its mounts: drop it after the last
	gone      bool                      // guarded by mu; the workspace was dropped: look for the name again
	resolvers map[string]*proc.Resolver // guarded by mu; by the mount's session, "" also serves the API
}

// acquire returns the live file system of a workspace, opening it for the first user. release must be called once.
func (d *Daemon) acquire(ctx context.Context, name string) (s *slot, f *fs.FS, release func(), err error) {
	ws, err := d.workspace(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	if s, err = d.slot(ctx, name, ws.ID); err != nil {
		return nil, nil, nil, err
	}
	s.mu.Lock()
	if s.gone { // and another workspace may have its name
		s.mu.Unlock()
		return d.acquire(ctx, name)
	}
	defer s.mu.Unlock()
	if s.live == nil {
		// The row may have moved while the file system before this one was closed.
		if err = d.st.Apply(ctx, d.st.Last()); err != nil {
			return nil, nil, nil, err
		}
		if ws, err = d.st.WorkspaceByID(ctx, s.id); err != nil {
			return nil, nil, nil, err
		}
		ledger, starts := d.ledger(s.id)
		f, err := fs.Open(ctx, d.st, ws, fs.Options{Log: d.log, Now: d.o.Now, ReadOnly: ws.ReadOnly, Ledger: ledger, Starts: starts,
			RulesOf: d.runs.rulesOf})
		if err != nil {
			d.dropLedger(s.id, ledger)
			return nil, nil, nil, err
		}
		f.Warm()
		d.expectRunning(s.id, f)
		s.live, s.ledger = f, ledger
	}
	s.refs++
	return s, s.live, sync.OnceFunc(s.release), nil
}

// use adds a user of the live file system, if there is one.
func (s *slot) use() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil || s.gone {
		return false
	}
	s.refs++
	return true
}

// acquireLive is acquire that does not wait for the database where the workspace is live already: it is for who waits
// for it when they need it.
func (d *Daemon) acquireLive(ctx context.Context, name string) (*slot, *fs.FS, func(), error) {
	id, err := d.named(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	d.mu.Lock()
	s := d.slots[id]
	d.mu.Unlock()
	if s != nil && s.use() { // nobody closes it while it is used
		return s, s.live, sync.OnceFunc(s.release), nil
	}
	return d.acquire(ctx, name)
}

// knownSessions is how many sessions of earlier runs go on under their name.
const knownSessions = 256

// slot is the slot of a workspace, made at first use. A session of an earlier run stays the same writer: who sets
// WSFS_SESSION=agent-1 today is who did so before the daemon was started again.
func (d *Daemon) slot(ctx context.Context, name string, id store.WorkspaceID) (*slot, error) {
	d.mu.Lock()
	s := d.slots[id]
	d.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := d.newSlot(ctx, name, id)
	if err != nil {
		return nil, err
	}
	return d.register(s), nil
}

// register makes s the slot of its workspace, unless that has one already, and returns it.
func (d *Daemon) register(s *slot) *slot {
	d.mu.Lock()
	defer d.mu.Unlock()
	if have := d.slots[s.id]; have != nil {
		return have
	}
	d.slots[s.id] = s
	return s
}

// newSlot makes a slot that nobody finds yet.
func (d *Daemon) newSlot(ctx context.Context, name string, id store.WorkspaceID) (*slot, error) {
	before, err := d.st.Sessions(ctx, id, knownSessions)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // only completes the names of automatic sessions
	s := &slot{d: d, name: name, id: id, sessions: proc.NewSessions(d.st, id, host, d.o.Now), resolvers: map[string]*proc.Resolver{}}
	for i := len(before) - 1; i >= 0; i-- { // of one name, the newest counts
		s.sessions.Adopt(&before[i].Session, before[i].Commands)
	}
	return s, nil
}

// resolver attributes callers whose own session is not known to session. Mounts with the same one share it, and with
// it the commands it has seen, so that a command that works on two mounts is one command.
func (s *slot) resolver(session string) *proc.Resolver {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resolvers[session]
	if r == nil {
		r = proc.New(proc.Options{Sessions: s.sessions, MountSession: session, Registry: &s.d.runs.registry, Log: s.d.log})
		s.resolvers[session] = r
	}
	return r
}

func (s *slot) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs--; s.refs > 0 {
		return
	}
	if err := s.live.Close(); err != nil {
		s.d.log.Error("close workspace", "workspace", s.name, "error", err)
	}
	ws := s.live.Workspace()
	s.d.dropLedger(s.id, s.ledger)
	s.live, s.ledger = nil, nil
	s.rest()
	if s.temporary != nil {
		s.d.dropTemporary(s, ws)
	}
}

// rest lets go of what resolving callers took hold of, unless somebody still uses the slot. s.mu is held.
func (s *slot) rest() {
	if s.refs > 0 || s.asking > 0 {
		return
	}
	for session, r := range s.resolvers {
		_ = r.Close() // it only holds descriptors of /proc
		delete(s.resolvers, session)
	}
}

// each calls fn with every live file system.
func (d *Daemon) each(name string, fn func(*fs.FS) error) error {
	d.mu.Lock()
	var all []*slot
	for _, s := range d.slots {
		if name == "" || s.name == name {
			all = append(all, s)
		}
	}
	d.mu.Unlock()
	var first error
	for _, s := range all {
		s.mu.Lock()
		f := s.live
		if f != nil {
			s.refs++ // it must not be closed under fn
		}
		s.mu.Unlock()
		if f == nil {
			continue
		}
		if err := fn(f); err != nil && first == nil {
			first = err
		}
		s.release()
	}
	return first
}

func (d *Daemon) allSlots() []*slot {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*slot
	for _, s := range d.slots {
		all = append(all, s)
	}
	return all
}

// closeSlots closes what unmounting left open: file systems that a request still uses.
func (d *Daemon) closeSlots() {
	_ = d.each("", func(f *fs.FS) error {
		if err := f.Close(); err != nil {
			d.log.Error("close workspace", "error", err)
		}
		return nil
	})
	d.mu.Lock()
	askers := d.askers
	d.askers = nil
	d.mu.Unlock()
	for _, s := range askers {
		s.mu.Lock()
		s.rest()
		s.mu.Unlock()
	}
}

// workspace finds a workspace after everything acknowledged is in the database, so that one just made is seen.
func (d *Daemon) workspace(ctx context.Context, name string) (*store.Workspace, error) {
	if err := versions.CheckWorkspaceName(name); err != nil {
		return nil, &Error{ExitUsage, err}
	}
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return nil, err
	}
	return versions.FindWorkspace(ctx, d.st, name)
}

// createWorkspace makes an empty workspace whose root belongs to uid and gid.
func (d *Daemon) createWorkspace(ctx context.Context, name, origin string, uid, gid uint32) error {
	if err := versions.CheckWorkspaceName(name); err != nil {
		return &Error{ExitUsage, err}
	}
	now := d.o.Now().UnixNano()
	ws := store.Workspace{
		ID: d.st.NewWorkspaceID(), Name: name, Timeline: d.st.NewTimelineID(), OriginPath: origin, CreatedAt: now,
	}
	s, err := d.newSlot(ctx, name, ws.ID)
	if err != nil {
		return err
	}
	op := &store.Op{
		Kind: store.OpWorkspace, Timeline: ws.Timeline, Workspace: ws.ID, Seq: 1, At: now, Who: d.callerAt(ctx, s),
		Versions: []store.Version{{
			Ino: store.RootIno, Seq: 1, ID: d.st.NewVersionID(), Origin: ws.Timeline, Mode: syscall.S_IFDIR | 0o755,
			UID: uid, GID: gid, Nlink: 2, Mtime: now, Ctime: now, Atime: now,
		}},
		Items:   []store.Item{{Op: store.OpWorkspace, Ino: store.RootIno}},
		Pointer: &store.Pointer{Workspace: ws, NewTimeline: &store.Timeline{ID: ws.Timeline}, Why: "init"},
	}
	slot, err := d.take(ctx, fmt.Sprintf("make workspace %q", name), op)
	if err != nil {
		return err
	}
	d.register(s)
	if err = d.st.Wait(slot); err == nil {
		err = d.st.Sync(slot)
	}
	if err == nil {
		err = d.st.Apply(ctx, slot)
	}
	if err != nil {
		return fmt.Errorf("make workspace %q: %w", name, err)
	}
	d.log.Info("workspace made", "workspace", name, "id", ws.ID)
	return nil
}
