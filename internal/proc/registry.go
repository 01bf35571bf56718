package proc

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"wsfs/store"
)

// Registration says that everything below one process belongs to one session, and unless Each is set to one command:
// what `wsfs run` tells the daemon before it starts a program. Immutable after Registry.Add but for what it collects.
type Registration struct {
	PID        int // of the process that starts the program and adopts its orphans
	StartTicks uint64
	Session    string
	Parent     string            // the session that started it, "" none
	Meta       string            // as in store.Session
	Home       store.WorkspaceID // the workspace it works on
	Argv       string            // as in store.Process
	Cwd        string
	StartedAt  int64 // ns
	// Each makes every process below the program a command of its own, and the program the session's root: for shells
	// and agents, which live for a day.
	Each bool

	up *Registration // of the session Parent, if that was registered too; set by Registry.Add

	mu sync.Mutex // before Sessions.mu
	in []presence // guarded by mu
}

// presence is what a registration is in one workspace that it changed.
type presence struct {
	sessions *Sessions
	session  *session
	command  *store.Command // nil if Each
}

// Commands are the rows made of it so far, in all workspaces.
func (g *Registration) Commands() []*store.Command {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*store.Command
	for _, p := range g.in {
		if p.command != nil {
			list = append(list, p.command)
		}
	}
	return list
}

// Registry holds the registrations of one daemon. Its resolvers share it, so that a command is known on every mount.
// Safe for concurrent use. The zero value works.
type Registry struct {
	mu    sync.Mutex // a leaf
	known map[processKey]*Registration
}

// Add makes it known. The process must not have started the program yet: what was attributed before stays.
func (y *Registry) Add(g *Registration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.known == nil {
		y.known = make(map[processKey]*Registration)
	}
	for _, other := range y.known {
		if g.Parent != "" && other.Session == g.Parent && (g.up == nil || other.StartedAt > g.up.StartedAt) {
			g.up = other
		}
	}
	y.known[processKey{g.PID, g.StartTicks}] = g
}

// Remove forgets it: the process has ended, and with it all its descendants.
func (y *Registry) Remove(g *Registration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	key := processKey{g.PID, g.StartTicks}
	if y.known[key] == g {
		delete(y.known, key)
	}
}

func (y *Registry) find(key processKey) *Registration {
	if y == nil {
		return nil
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.known[key]
}

// place decides an image that is registered, or below one that is: the topmost registration counts, unless one further
// down names another session. Environments say nothing there. False: there is none.
func (n *node) placeRegistered(own *Registration) bool {
	up := n.up
	var above *Registration
	if up != nil {
		above = up.reg
	}
	switch {
	case own != nil && (above == nil || above.Session != own.Session):
		n.reg, n.wrapper = own, true
	case above != nil:
		n.reg = above
	default:
		return false
	}
	n.key, n.byEnv = sessionKey{name: n.reg.Session}, true
	n.inner = !n.wrapper && up.reg == n.reg && !up.wrapper
	n.root = n.reg.Each && !n.wrapper && up.wrapper
	if n.reg.Each && !n.wrapper {
		n.owner = n
		if n.inner && !up.root && up.owner != nil {
			n.owner = up.owner
		}
	}
	return true
}

// registered is what a registration is in the resolver's workspace.
func (r *Resolver) registered(g *Registration) presence {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.in {
		if p.sessions == r.sessions {
			return p
		}
	}
	p := presence{sessions: r.sessions, session: r.sessions.registered(g)}
	if !g.Each {
		p.command = &store.Command{
			ID: r.o.IDs.NewCommandID(), Session: p.session.row.ID, N: r.sessions.count(p.session),
			Argv: g.Argv, Cwd: g.Cwd, StartedAt: g.StartedAt,
		}
	}
	g.in = append(g.in, p)
	return p
}

// Resume gives a registration the command that it was in this workspace before the daemon was started again.
func (s *Sessions) Resume(g *Registration, c *store.Command) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in = append(g.in, presence{sessions: s, session: s.registered(g), command: c})
}

// registered is the session of a registration. A name that was another writer's before, by its parent or what it was
// started with, gets a new row.
func (s *Sessions) registered(g *Registration) *session {
	var parent *store.Session
	switch {
	case g.up != nil:
		parent = s.registered(g.up).row
	case g.Parent != "":
		parent = s.get(sessionKey{name: g.Parent}, "")
	}
	home := g.Home
	if home == s.workspace {
		home = 0
	}
	key := sessionKey{name: g.Session}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.known.get(key); ok {
		r := have.row
		if (g.Meta == "" || r.Meta == g.Meta) && (parent == nil || r.Parent != nil && r.Parent.Name == parent.Name) && r.Home == home {
			return have
		}
	}
	ses := &session{row: &store.Session{
		ID: s.ids.NewSessionID(), Name: g.Session, Workspace: s.workspace, StartedAt: s.now().UnixNano(),
		Parent: parent, Meta: g.Meta, Home: home,
	}}
	s.known.put(key, ses)
	s.known.bound(maxSessions)
	return ses
}

// startWait is how long StartTicks waits.
const startWait = 2 * time.Second

// StartTicks is when the process with that number started, in clock ticks after boot. ETIMEDOUT: there is one, but it
// does not let itself be read, as one may that waits for us in exec.
func StartTicks(pid int) (uint64, error) { return startTicks("/proc", pid, startWait) }

// startTicks leaves a goroutine that ends when the kernel lets it, if wait is not enough.
func startTicks(root string, pid int, wait time.Duration) (uint64, error) {
	d, err := openDir(root, pid)
	if err != nil {
		return 0, err
	}
	type answer struct {
		st  stat
		err error
	}
	got := make(chan answer, 1)
	go func() {
		defer d.close()
		var buf [maxStat]byte
		line, err := d.read("stat", buf[:])
		var st stat
		if err == nil {
			st, err = parseStat(line)
		}
		got <- answer{st, err}
	}()
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case a := <-got:
		return a.st.start, a.err
	case <-late.C:
		return 0, fmt.Errorf("read stat of process %d: not within %v: %w", pid, wait, syscall.ETIMEDOUT)
	}
}
