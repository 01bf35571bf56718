package proc

import "time"

// burstPause ends a burst of changes by a session's root.
const burstPause = 2 * time.Second

// burst keeps what a session's root does itself from being one command for as long as it lives: an interactive shell's
// builtins, or an agent that writes files. Each stretch of changes is a command of its own: a pause, or a change by
// another command of the session in between, ends it. It is called for every change, with mu held.
func (r *Resolver) burst(img *image) {
	if img.session == nil {
		return
	}
	if n := img.node; n.root && n.owner == n && n.command != nil {
		now := r.o.Now().UnixNano()
		if n.lastAt != 0 && (now-n.lastAt > int64(burstPause) || img.session.last.Load() != n.command) {
			n.command = nil
			img.who.Command = r.command(n)
		}
		n.lastAt = now
	}
	if c := img.who.Command; img.session.last.Load() != c {
		img.session.last.Store(c)
	}
}
