package store

import "slices"

// Attribution rows travel with the first op of a journal that names them; later ops name them by id alone.

// emitted remembers which rows the current journal has already.
type emitted struct {
	last      Attribution // of the previous op: nearly always the same again
	sessions  map[SessionID]struct{}
	processes map[ProcessID]struct{}
	commands  map[CommandID]struct{}
}

// maxEmitted bounds the memory of emitted: beyond it everything is forgotten. A row written twice does no harm.
const maxEmitted = 1 << 17

// missing returns the rows that w names and the journal has not, nil if there are none.
func (e *emitted) missing(w Attribution) *attributionRows {
	if w == e.last {
		return nil
	}
	var r attributionRows
	for s := w.Session; s != nil; s = s.Parent {
		if _, ok := e.sessions[s.ID]; ok {
			break // its parents came with it
		}
		r.sessions = append(r.sessions, s)
	}
	slices.Reverse(r.sessions)
	for p := w.Process; p != nil; p = p.Parent {
		if _, ok := e.processes[p.ID]; ok {
			break // its parents came with it
		}
		r.processes = append(r.processes, p)
	}
	for i, j := 0, len(r.processes)-1; i < j; i, j = i+1, j-1 {
		r.processes[i], r.processes[j] = r.processes[j], r.processes[i]
	}
	if c := w.Command; c != nil {
		if _, ok := e.commands[c.ID]; !ok {
			r.commands = append(r.commands, c)
		}
	}
	if r.sessions == nil && r.processes == nil && r.commands == nil {
		return nil
	}
	return &r
}

// note records that an op by w with the rows r (may be nil) is in the journal.
func (e *emitted) note(w Attribution, r *attributionRows) {
	e.last = w
	if r == nil {
		return
	}
	if e.sessions == nil || len(e.sessions)+len(e.processes)+len(e.commands) > maxEmitted {
		e.sessions = make(map[SessionID]struct{})
		e.processes = make(map[ProcessID]struct{})
		e.commands = make(map[CommandID]struct{})
	}
	for _, s := range r.sessions {
		e.sessions[s.ID] = struct{}{}
	}
	for _, p := range r.processes {
		e.processes[p.ID] = struct{}{}
	}
	for _, c := range r.commands {
		e.commands[c.ID] = struct{}{}
	}
}

// knownRows are the rows that a journal's decoder has met.
type knownRows struct {
	sessions  map[SessionID]*Session
	processes map[ProcessID]*Process
	commands  map[CommandID]*Command
}

func (k *knownRows) session(id SessionID) *Session {
	if id == 0 {
		return nil
	}
	if s := k.sessions[id]; s != nil {
		return s
	}
	return &Session{ID: id}
}

func (k *knownRows) process(id ProcessID) *Process {
	if id == 0 {
		return nil
	}
	if p := k.processes[id]; p != nil {
		return p
	}
	return &Process{ID: id}
}

func (k *knownRows) command(id CommandID) *Command {
	if id == 0 {
		return nil
	}
	if c := k.commands[id]; c != nil {
		return c
	}
	return &Command{ID: id}
}

func appendRows(b []byte, r *attributionRows) []byte {
	b = putUint(b, uint64(len(r.sessions)))
	for _, s := range r.sessions {
		b = putUint(b, uint64(s.ID))
		b = putString(b, s.Name)
		b = putUint(b, uint64(s.Workspace))
		b = putString(b, s.Agent)
		b = putInt(b, s.StartedAt)
	}
	b = putUint(b, uint64(len(r.processes)))
	for _, p := range r.processes {
		var parent ProcessID
		if p.Parent != nil {
			parent = p.Parent.ID
		}
		b = putUint(b, uint64(p.ID))
		b = putUint(b, uint64(p.Session))
		b = putUint(b, uint64(parent))
		b = putInt(b, int64(p.PID))
		b = putUint(b, p.StartTicks)
		b = putString(b, p.Comm)
		b = putString(b, p.Argv)
		b = putString(b, p.Cwd)
		b = putUint(b, uint64(p.UID))
	}
	b = putUint(b, uint64(len(r.commands)))
	for _, c := range r.commands {
		b = putUint(b, uint64(c.ID))
		b = putUint(b, uint64(c.Session))
		b = putInt(b, int64(c.N))
		b = putString(b, c.Argv)
		b = putString(b, c.Cwd)
		b = putInt(b, c.StartedAt)
	}
	return b
}

// decodeRows decodes rows and adds them to known, so that parents and later ops find them.
func decodeRows(d *decoder, known *knownRows) *attributionRows {
	if known.sessions == nil {
		known.sessions = make(map[SessionID]*Session)
		known.processes = make(map[ProcessID]*Process)
		known.commands = make(map[CommandID]*Command)
	}
	r := &attributionRows{}
	r.sessions = list(d, "sessions", 5, func(d *decoder, to **Session) {
		s := &Session{}
		s.ID = SessionID(d.uint("session"))
		s.Name = d.string("session's name")
		s.Workspace = WorkspaceID(d.uint("session's workspace"))
		s.Agent = d.string("agent")
		s.StartedAt = d.int("session's start")
		known.sessions[s.ID] = s
		*to = s
	})
	r.processes = list(d, "processes", 9, func(d *decoder, to **Process) {
		p := &Process{}
		p.ID = ProcessID(d.uint("process"))
		p.Session = SessionID(d.uint("process's session"))
		p.Parent = known.process(ProcessID(d.uint("parent process")))
		p.PID = int(d.int("pid"))
		p.StartTicks = d.uint("start ticks")
		p.Comm = d.string("comm")
		p.Argv = d.string("argv")
		p.Cwd = d.string("cwd")
		p.UID = d.uint32("process's uid")
		known.processes[p.ID] = p
		*to = p
	})
	r.commands = list(d, "commands", 6, func(d *decoder, to **Command) {
		c := &Command{}
		c.ID = CommandID(d.uint("command"))
		c.Session = SessionID(d.uint("command's session"))
		c.N = int(d.int("command's number"))
		c.Argv = d.string("command's argv")
		c.Cwd = d.string("command's cwd")
		c.StartedAt = d.int("command's start")
		known.commands[c.ID] = c
		*to = c
	})
	return r
}
