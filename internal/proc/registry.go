package proc

import (
	"sync"

	"wsfs/store"
)

// Registration says that everything below one process belongs to one session, and unless Each is set to one command:
// what `wsfs run` tells the daemon before it starts a program. Immutable after Registry.Add but for what it collects.
type Registration struct {
	PID        int // of the process that starts the program and adopts its orphans
	StartTicks uint64
	Session    string
	Argv       string // as in store.Process
	Cwd        string
	StartedAt  int64 // ns
	// Each makes every process below the program a command of its own, and the program the session's root: for shells
	// and agents, which live for a day.
	Each bool

	mu       sync.Mutex
	commands []*store.Command // made of it, one for each workspace that it changed; guarded by mu
}

// Commands are the rows made of it so far, in all workspaces.
func (g *Registration) Commands() []*store.Command {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*store.Command(nil), g.commands...)
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

// registered is the command that a registration is in the resolver's workspace.
func (r *Resolver) registered(g *Registration) *store.Command {
	s := r.sessions.get(sessionKey{name: g.Session}, "")
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.commands {
		if c.Session == s.ID {
			return c
		}
	}
	c := &store.Command{
		ID: r.o.IDs.NewCommandID(), Session: s.ID, N: r.sessions.nextCommand(sessionKey{name: g.Session}, ""),
		Argv: g.Argv, Cwd: g.Cwd, StartedAt: g.StartedAt,
	}
	g.commands = append(g.commands, c)
	return c
}

// StartTicks is when the process with that number started, in clock ticks after boot.
func StartTicks(pid int) (uint64, error) {
	d, err := openDir("/proc", pid)
	if err != nil {
		return 0, err
	}
	defer d.close()
	var buf [maxStat]byte
	line, err := d.read("stat", buf[:])
	if err != nil {
		return 0, err
	}
	st, err := parseStat(line)
	return st.start, err
}
