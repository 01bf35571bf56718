package proc

import (
	"time"

	"golang.org/x/sys/unix"

	"wsfs/store"
)

// publish makes facts visible to callers that cannot wait any longer.
func (r *Resolver) publish(img *image, f facts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	img.facts, img.known = f, true
	if f.sid == f.pid {
		r.remember(login{sid: f.sid, start: f.start, comm: f.comm})
	}
}

func (r *Resolver) setParent(img, parent *image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	img.parent, img.placed = parent, true
}

func (r *Resolver) parentOf(img *image) *image {
	r.mu.Lock()
	defer r.mu.Unlock()
	return img.parent
}

// finish ends the reading of an image. What failed for a reason of ours (descriptors, memory, readers) is not kept, so
// that it is tried again.
func (r *Resolver) finish(img *image, f facts, space *file, err error) {
	if err != nil && !gone(err) {
		r.o.Log.Warn("process not known", "pid", img.pid, "error", err)
	}
	r.mu.Lock()
	img.whole, img.err = true, err
	if err == nil {
		img.facts, img.known = f, true
	}
	switch {
	case img.dropped || space == nil:
	case err == nil:
		img.space, space = space, nil
		r.files++
		r.evict(r.o.MaxFiles)
	}
	if err != nil {
		r.forget(img)
	}
	close(img.done)
	r.mu.Unlock()
	space.release()
	<-r.readers
}

// forget takes an image out of the cache. Called with mu held.
func (r *Resolver) forget(img *image) {
	if t, ok := r.tasks.get(img.pid); ok && t.img == img {
		r.drop(t)
	}
}

// leader finds the leader of session sid, of which a process that started at start is a member. The number cannot have
// become another process's while the session exists.
func (r *Resolver) leader(sid int, start uint64, buf *buffer) login {
	d, err := openDir(r.o.Root, sid)
	if err == nil {
		defer d.close()
		var line []byte
		if line, err = d.read("stat", buf[:maxStat]); err == nil {
			var st stat
			if st, err = parseStat(line); err == nil {
				l := login{sid: sid, start: st.start, comm: st.comm}
				r.mu.Lock()
				defer r.mu.Unlock()
				r.remember(l)
				return l
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.leaders.get(sid); ok && l.start <= start {
		return l
	}
	return login{}
}

// remember is called with mu held. The name a leader had first stays: it is part of the session's.
func (r *Resolver) remember(l login) {
	if old, ok := r.leaders.get(l.sid); ok && old.start == l.start {
		return
	}
	r.leaders.put(l.sid, l)
	r.leaders.bound(maxLeaders)
}

// settled returns the attribution if it is final and needs no waiting.
func (r *Resolver) settled(img *image) (store.Attribution, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.final(img)
}

// final makes the rows of a decided image at the first call for it: those of an ancestor that never asked for itself are
// made when a descendant needs them. Called with mu held.
func (r *Resolver) final(img *image) (store.Attribution, bool) {
	if !img.final {
		n := r.decide(img, 0)
		if n == nil {
			return store.Attribution{}, false
		}
		img.who, img.final = r.rows(n), true
		img.session = r.sessionOf(n)
	}
	r.burst(img)
	return img.who, true
}

// attribution returns what is known now.
func (r *Resolver) attribution(img *image) store.Attribution {
	r.mu.Lock()
	defer r.mu.Unlock()
	if who, ok := r.final(img); ok {
		return who
	}
	if img.partial {
		return img.who
	}
	if !img.known {
		return store.Attribution{Session: r.mountSession()}
	}
	up, decided := r.above(img, 0)
	n := &node{facts: img.facts}
	switch {
	case decided:
		n = place(n.facts, up, r.o.MountSession, r.ownRegistration(n.facts))
	case n.env.state == envSet:
		n.key = sessionKey{name: n.env.name} // but where it begins is not known
	case r.o.MountSession != "":
		n.key = sessionKey{name: r.o.MountSession}
	}
	img.who, img.partial = r.rows(n), true
	return img.who
}

// decide makes the node of an image; nil if something is still missing. Called with mu held.
func (r *Resolver) decide(img *image, hops int) *node {
	if img.node != nil {
		return img.node
	}
	if !img.whole || img.err != nil {
		return nil
	}
	key := processKey{img.facts.pid, img.facts.start}
	n, ok := r.past.get(key)
	if !ok || !n.sameImage(img.facts) {
		up, decided := r.above(img, hops)
		if !decided {
			return nil
		}
		before := n
		n = place(img.facts, up, r.o.MountSession, r.ownRegistration(img.facts))
		n.continues(before)
		r.past.put(key, n)
		r.past.bound(maxForgotten)
	}
	img.node, img.parent = n, nil
	return n
}

// above returns the node of an image's parent, nil for none, and whether that is decided. The parent is the one that was
// found for the process's first image: exec does not change it, and a parent that has exited since is still who forked.
func (r *Resolver) above(img *image, hops int) (*node, bool) {
	if prev, ok := r.past.get(processKey{img.facts.pid, img.facts.start}); ok {
		return prev.up, true
	}
	switch {
	case !img.placed:
		return nil, false
	case img.parent == nil || hops >= maxHops:
		return nil, true
	case img.parent.whole && img.parent.err != nil:
		if gone(img.parent.err) {
			return nil, true
		}
		img.err = img.parent.err // not final, and to be tried again
		r.forget(img)
		return nil, false
	}
	up := r.decide(img.parent, hops+1)
	if up != nil && up.start > img.facts.start {
		return nil, true // not the parent: it got the number of one that had just died
	}
	return up, up != nil
}

func (r *Resolver) ownRegistration(f facts) *Registration {
	return r.o.Registry.find(processKey{f.pid, f.start})
}

func (r *Resolver) rows(n *node) store.Attribution {
	who := store.Attribution{Process: r.row(n)}
	if s := r.sessionOf(n); s != nil {
		who.Session = s.row
	}
	if n.reg != nil && !n.reg.Each {
		who.Command = r.registered(n.reg).command
	} else {
		who.Command = r.command(n.owner)
	}
	return who
}

// sessionOf is nil if it is unknown.
func (r *Resolver) sessionOf(n *node) *session {
	if n.reg != nil {
		return r.registered(n.reg).session
	}
	return r.sessions.entry(n.key, n.login.comm)
}

func (r *Resolver) row(n *node) *store.Process {
	if n.row != nil || n.cut {
		return n.row
	}
	n.row = &store.Process{
		ID: r.o.IDs.NewProcessID(), PID: n.pid, StartTicks: n.start, Comm: n.comm, Argv: n.argv, Cwd: n.cwd, UID: n.uid,
	}
	n.row.Unread = n.reg == nil && (n.env.state == envUnknown || n.env.state == envDenied)
	if s := r.sessionOf(n); s != nil {
		n.row.Session = s.row.ID
	}
	if n.inner {
		n.row.Parent = r.row(n.up)
	}
	return n.row
}

func (r *Resolver) command(n *node) *store.Command {
	if n == nil {
		return nil
	}
	if n.command != nil {
		return n.command
	}
	s := r.sessionOf(n)
	if s == nil {
		return nil
	}
	if b := n.before; b != nil && b.command != nil {
		same := *b.command // by its number; whoever is first in the store gives it its words
		same.Argv, same.Cwd = n.argv, n.cwd
		n.command, n.before = &same, nil
		return n.command
	}
	n.command = &store.Command{
		ID: r.o.IDs.NewCommandID(), Session: s.row.ID, N: r.sessions.count(s),
		Argv: n.argv, Cwd: n.cwd, StartedAt: r.startedAt(n.start),
	}
	if n.root {
		n.command.StartedAt = r.o.Now().UnixNano() // of this burst, not of the shell
	}
	return n.command
}

// startedAt turns clock ticks after boot into ns since the epoch.
func (r *Resolver) startedAt(ticks uint64) int64 {
	const tick = int64(10 * time.Millisecond) // USER_HZ is 100 on every architecture that Go runs on
	now := r.o.Now().UnixNano()
	var up unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil || ticks > uint64(up.Nano()/tick) {
		return now
	}
	return now - (up.Nano() - int64(ticks)*tick)
}
