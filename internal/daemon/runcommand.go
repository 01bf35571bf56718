package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/fs"
	"wsfs/internal/proc"
	"wsfs/store"
)

// runningCommand is a registered command until its last process is gone.
type runningCommand struct {
	reg    *proc.Registration
	forget func() // takes it back from the keeper
	rules  *fs.Rules
	ended  bool // its program has ended; what it left in the background may live on. Guarded by runs.mu
}

// registerCommand registers the process at the other end.
func (d *Daemon) registerCommand(ctx context.Context, req CommandRequest) error {
	pid, ok := ctx.Value(peerKey{}).(int)
	if !ok || pid <= 0 {
		return Fail(ExitFailed, "register a command: it is not known of which process")
	}
	ws, err := d.workspace(ctx, req.Workspace)
	if err != nil {
		return err
	}
	if req.Session == "" || len(req.Session) > 255 || bytes.IndexByte([]byte(req.Session), 0) >= 0 {
		return Fail(ExitUsage, "register a command: session %q: a name of 1 to 255 bytes is needed: %w", req.Session, syscall.EINVAL)
	}
	if err := CheckConflicts(req.Conflicts); err != nil {
		return err
	}
	rules, _ := fs.ParseRules(req.Conflicts)
	start, err := proc.StartTicks(pid)
	if err != nil {
		return fmt.Errorf("register process %d: %w", pid, err)
	}
	argv := bytes.Join(req.Argv, []byte{0})
	if len(argv) > proc.MaxArgv {
		argv = argv[:proc.MaxArgv]
	}
	g := &proc.Registration{
		PID: pid, StartTicks: start, Session: req.Session, Meta: req.Meta, Home: ws.ID, Argv: string(argv),
		Cwd: string(req.Cwd), StartedAt: d.o.Now().UnixNano(), Each: req.Each,
	}
	if req.Parent != req.Session {
		g.Parent = req.Parent
	}
	d.expect(ws.ID, req.Session)
	c := d.addCommand(g, rules, req.Conflicts)
	if err := onEnd(pid, func() { d.commandGone(c) }); err != nil {
		d.commandGone(c)
		return err
	}
	return nil
}

// addCommand makes a registered process known, here and to the keeper.
func (d *Daemon) addCommand(g *proc.Registration, rules *fs.Rules, conflicts []string) *runningCommand {
	c := &runningCommand{reg: g, rules: rules, forget: d.keepCommand(g, conflicts)}
	d.runs.mu.Lock()
	if d.runs.commands == nil {
		d.runs.commands = map[int]*runningCommand{}
	}
	d.runs.commands[g.PID] = c
	d.runs.noteRules()
	d.runs.mu.Unlock()
	d.runs.registry.Add(g)
	return c
}

// rulesOf are the rules that a running command brought for a session, nil if none did. It waits for nothing.
func (r *runs) rulesOf(session string) *fs.Rules {
	if m := r.rules.Load(); m != nil {
		return (*m)[session]
	}
	return nil
}

// noteRules makes rulesOf see the commands that run: of several of one session the youngest counts. mu is held.
func (r *runs) noteRules() {
	m, since := map[string]*fs.Rules{}, map[string]int64{}
	for _, c := range r.commands {
		if g := c.reg; c.rules != nil && g.StartedAt >= since[g.Session] {
			m[g.Session], since[g.Session] = c.rules, g.StartedAt
		}
	}
	if len(m) == 0 {
		r.rules.Store(nil)
		return
	}
	r.rules.Store(&m)
}

// endCommand notes how the program of the process at the other end has ended, if it changed anything.
func (d *Daemon) endCommand(ctx context.Context, req EndRequest) (EndReply, error) {
	pid, _ := ctx.Value(peerKey{}).(int)
	d.runs.mu.Lock()
	c := d.runs.commands[pid]
	if c != nil {
		c.ended = true
	}
	d.runs.mu.Unlock()
	if c == nil {
		return EndReply{}, Fail(ExitFailed, "end a command: process %d is not registered: %w", pid, syscall.ESRCH)
	}
	end := store.CommandEnd{State: store.CommandExited, Exit: req.Exit}
	if req.Signal != 0 {
		end.State = store.CommandKilled
	}
	return d.noteEnd(ctx, c, end)
}

// commandGone forgets a command whose last process is gone.
func (d *Daemon) commandGone(c *runningCommand) {
	d.runs.mu.Lock()
	seen := c.ended
	c.ended = true
	if d.runs.commands[c.reg.PID] == c {
		delete(d.runs.commands, c.reg.PID)
	}
	d.runs.noteRules()
	d.runs.mu.Unlock()
	if !seen { // the process that would have told was killed
		if _, err := d.noteEnd(context.Background(), c, store.CommandEnd{State: store.CommandLost, Exit: -1}); err != nil {
			d.log.Warn("note the end of a command", "session", c.reg.Session, "error", err)
		}
	}
	d.runs.registry.Remove(c.reg)
	c.forget()
}

// noteEnd writes the end of a command into its rows. One that changed nothing has none, and leaves no trace.
func (d *Daemon) noteEnd(ctx context.Context, c *runningCommand, end store.CommandEnd) (EndReply, error) {
	out := EndReply{Commands: []EndedCommand{}}
	rows := c.reg.Commands()
	if len(rows) == 0 {
		return out, nil
	}
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return out, err
	}
	op := &store.Op{Kind: store.OpWorkspace, At: d.o.Now().UnixNano()}
	for _, row := range rows {
		have, err := d.st.CommandByID(ctx, row.ID)
		if errors.Is(err, syscall.ENOENT) {
			continue // it asked for something that failed
		}
		if err != nil {
			return out, err
		}
		end.Command, end.At = row.ID, op.At
		op.Ended = append(op.Ended, end)
		if s, err := d.st.SessionByID(ctx, have.Session); err == nil && have.Timeline != 0 {
			out.Commands = append(out.Commands, EndedCommand{int64(row.ID), d.nameOf(ctx, s.Workspace)})
		}
	}
	if len(op.Ended) == 0 {
		return out, nil
	}
	return out, d.mark("note the end of a command", op)
}

// running reports whether the program of a registered command has not ended yet.
func (d *Daemon) running(id store.CommandID) bool {
	d.runs.mu.Lock()
	var live []*proc.Registration
	for _, c := range d.runs.commands {
		if !c.ended {
			live = append(live, c.reg)
		}
	}
	d.runs.mu.Unlock()
	for _, reg := range live {
		for _, c := range reg.Commands() {
			if c.ID == id {
				return true
			}
		}
	}
	return false
}

// onEnd calls fn once the process with that number has ended. The process must be alive.
func onEnd(pid int, fn func()) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	go func() {
		defer f.Close()
		ended := func(fd uintptr, wait int) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, wait)
			return n > 0 || err != nil && !errors.Is(err, syscall.EINTR)
		}
		if err := raw.Read(func(fd uintptr) bool { return ended(fd, 0) }); err != nil { // no poller for it here
			for !ended(uintptr(fd), -1) {
			}
		}
		fn()
	}()
	return nil
}
