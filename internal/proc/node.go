package proc

import "wsfs/store"

// envState is what is known of SessionVariable in a process's environment.
type envState uint8

const (
	envUnknown envState = iota // not read: too late, or the process is exiting
	envDenied                  // we have no right to read it
	envAbsent
	envSet
)

type environ struct {
	state envState
	name  string // the value, if envSet
}

// processKey names a process for good.
type processKey struct {
	pid   int
	start uint64
}

// facts are what was read about one image. Immutable once published.
type facts struct {
	stat
	cwd    string
	uid    uint32
	argv   string
	env    environ
	leader login // of the session of stat.sid, if it was looked up
}

// login is a login session: the one that automatic sessions are made of.
type login struct {
	sid     int
	start   uint64 // of the leader, 0 if it was gone before we saw it
	comm    string // of the leader, "" likewise
	tty     bool
	foreign bool // the leader is outside our pid namespace; sid is the topmost process that we see instead
}

// node is an image that found its place: its session, the image above it, its command. All but the rows, which are made
// when first asked for, is immutable. The rows are guarded by Resolver.mu.
type node struct {
	facts
	login login
	key   sessionKey
	byEnv bool  // the session comes from SessionVariable, its own or inherited
	root  bool  // the session's root
	up    *node // the parent, whatever its session; nil at the top
	inner bool  // up is in the same session
	owner *node // the image that is its command, perhaps itself; nil if unknown
	depth int   // images above it that are kept
	cut   bool  // a copy that only stands for what was above a chain too long to keep; it has no row

	reg     *Registration // what it is below of, nil if nothing
	wrapper bool          // it is the registered process itself, which only starts the program

	row     *store.Process
	command *store.Command // if this image is a command
	before  *node          // the copy of its parent that this process was before it became a command, see continues
	lastAt  int64          // ns; of a session's root, when it was last asked for, see burst
}

// maxDepth bounds the chain that an image keeps alive: programs that start their successor and exit would grow it
// without end. What was decided from the part cut off stays.
const maxDepth = 64

// place decides session, root and command of an image below up. mount is the mount's session, "" if it has none; own is
// the registration of its process, nil if it has none.
func place(f facts, up *node, mount string, own *Registration) *node {
	if up != nil && up.depth >= maxDepth {
		short := *up
		short.up, short.row, short.depth, short.cut = nil, nil, 0, true
		up = &short
	}
	n := &node{facts: f, login: loginOf(f, up), up: up}
	if up != nil {
		n.depth = up.depth + 1
	}
	if n.placeRegistered(own) {
		return n
	}
	switch f.env.state {
	case envSet:
		n.key, n.byEnv = sessionKey{name: f.env.name}, true
		n.inner = up != nil && up.byEnv && up.key == n.key
		n.root = !n.inner
	case envAbsent, envDenied:
		if f.env.state == envAbsent && up != nil && up.byEnv {
			n.key, n.byEnv, n.inner = up.key, true, true
			break
		}
		n.key = sessionKey{sid: n.login.sid, start: n.login.start}
		if mount != "" {
			n.key = sessionKey{name: mount}
		}
		n.inner = up != nil && !up.byEnv && up.login == n.login && up.env.state != envUnknown
		n.root = !n.inner && n.login.sid == f.pid
	case envUnknown:
		if mount != "" {
			n.key = sessionKey{name: mount}
		}
	}
	n.owner = n.commandOwner()
	return n
}

// commandOwner is the image that is n's command: the topmost one below the session's root, or n where there is none
// between. Below a registered process placeRegistered decides instead.
func (n *node) commandOwner() *node {
	switch {
	case n.env.state == envUnknown:
		return nil
	case !n.inner || n.up.root || n.up.owner == nil:
		return n
	}
	return n.up.owner
}

// continues keeps the command of a process that goes on as another program: bash runs the last program of a -c line in
// its own place, and that is still the same line. An image that only copies its parent's, as a shell does for a moment
// before it starts a program, has no line of its own: what it did (a shell opens and truncates what output is redirected
// to) belongs to the program that it becomes.
func (n *node) continues(before *node) {
	if before == nil || before.reg != n.reg || n.owner != n || before.owner == nil || n.root || before.root || before.key != n.key {
		return
	}
	first := before.owner
	if first.pid != n.pid || first.start != n.start {
		return
	}
	if first.up != nil && first.argv == first.up.argv {
		n.before = first
		return
	}
	n.owner = first
}

func loginOf(f facts, up *node) login {
	own := login{sid: f.sid, tty: f.tty != 0}
	switch {
	case f.sid == 0:
		if up != nil && up.login.foreign {
			return up.login
		}
		own.sid, own.start, own.comm, own.foreign = f.pid, f.start, f.comm, true
	case f.sid == f.pid:
		own.start, own.comm = f.start, f.comm
	case up != nil && up.login.sid == f.sid && !up.login.foreign:
		return up.login
	case f.leader.sid == f.sid:
		own.start, own.comm = f.leader.start, f.leader.comm
	}
	if !own.tty && up != nil && up.login.tty {
		return up.login
	}
	return own
}

// sameImage reports whether f was read from the image that n is: used for images that were forgotten for lack of room.
func (n *node) sameImage(f facts) bool {
	if n.pid != f.pid || n.start != f.start || n.comm != f.comm {
		return false
	}
	if f.exiting() && f.env.state == envUnknown {
		return true // its memory is gone, and with it what tells images apart
	}
	return n.stack == f.stack && n.argv == f.argv && n.env == f.env
}
