package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"wsfs/fs"
	"wsfs/internal/keep"
	"wsfs/internal/proc"
	"wsfs/store"
)

// What the keeper holds of runs beside their mounts: who uses those, and the commands that run. Both are processes, which
// live on when a daemon dies.

const (
	keptUserPrefix    = "user:"
	keptCommandPrefix = "command:"
)

// keptUser is a process that a mount was made for.
type keptUser struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot: the number may be another process's by now
	Point Path   `json:"point"`
}

// keptCommand is a registered process.
type keptCommand struct {
	PID       int               `json:"pid"`
	Start     uint64            `json:"start"`
	Session   []byte            `json:"session"`
	Parent    []byte            `json:"parent,omitempty"`
	Meta      []byte            `json:"meta,omitempty"`
	Home      store.WorkspaceID `json:"home"`
	Argv      []byte            `json:"argv"`
	Cwd       []byte            `json:"cwd"`
	StartedAt int64             `json:"started_at"`
	Each      bool              `json:"each,omitempty"`
	Conflicts []string          `json:"conflicts,omitempty"`
}

// keepProcess gives the keeper what belongs to a process, and takes it back by the function that it returns.
func (d *Daemon) keepProcess(name string, v any) (forget func()) {
	if d.o.Keeper == nil {
		return func() {}
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = d.o.Keeper.Put(name, b)
	}
	d.tellKeeper(err)
	return func() { d.tellKeeper(d.o.Keeper.Drop(name)) }
}

func (d *Daemon) keepCommand(g *proc.Registration, conflicts []string) (forget func()) {
	return d.keepProcess(fmt.Sprintf("%s%d.%d", keptCommandPrefix, g.PID, g.StartTicks), &keptCommand{
		PID: g.PID, Start: g.StartTicks, Session: []byte(g.Session), Parent: []byte(g.Parent), Meta: []byte(g.Meta), Home: g.Home,
		Argv: []byte(g.Argv), Cwd: []byte(g.Cwd), StartedAt: g.StartedAt, Each: g.Each,
		Conflicts: conflicts,
	})
}

// keepUser is kept once for each time that a process asks for a mount.
func (d *Daemon) keepUser(pid int, m *runMount) (forget func()) {
	start, err := proc.StartTicks(pid)
	if d.o.Keeper == nil || err != nil {
		return func() {}
	}
	m.asked++
	return d.keepProcess(fmt.Sprintf("%s%d.%d.%s.%d", keptUserPrefix, pid, start, m.point, m.asked), &keptUser{PID: pid, Start: start, Point: Path(m.point)})
}

// leftRuns is what the daemon before left of runs.
type leftRuns struct {
	users    []keptUser
	names    []string // of the users' entries
	commands []keptCommand
}

// take makes sense of an entry; false: it is something else.
func (r *leftRuns) take(e *keep.Entry) (bool, error) {
	switch {
	case strings.HasPrefix(e.Name, keptUserPrefix):
		var u keptUser
		err := json.Unmarshal(e.Data, &u)
		if err == nil {
			r.users, r.names = append(r.users, u), append(r.names, e.Name)
		}
		return true, err
	case strings.HasPrefix(e.Name, keptCommandPrefix):
		var c keptCommand
		err := json.Unmarshal(e.Data, &c)
		if err == nil {
			r.commands = append(r.commands, c)
		}
		return true, err
	}
	return false, nil
}

// isProcess takes one that cannot be read in time for the one asked for: it may wait in exec for a mount that is not
// served yet. If it is another, its start tells it apart all the same, and what is registered goes with it.
func isProcess(pid int, start uint64) bool {
	now, err := proc.StartTicks(pid)
	return err == nil && now == start || errors.Is(err, syscall.ETIMEDOUT)
}

// resumeCommands registers again what runs. It comes before any mount is served, so that what a command does next is
// attributed to the rows that it has.
func (d *Daemon) resumeCommands(ctx context.Context, list []keptCommand) {
	slices.SortStableFunc(list, func(a, b keptCommand) int { return cmp.Compare(a.StartedAt, b.StartedAt) }) // parents first
	for i := range list {
		k := &list[i]
		g := &proc.Registration{
			PID: k.PID, StartTicks: k.Start, Session: string(k.Session), Parent: string(k.Parent), Meta: string(k.Meta), Home: k.Home,
			Argv: string(k.Argv), Cwd: string(k.Cwd), StartedAt: k.StartedAt, Each: k.Each,
		}
		rules, err := fs.ParseRules(k.Conflicts)
		if err != nil {
			d.log.Warn("the rules for conflicts of a command are not known any more", "session", g.Session, "error", err)
		}
		c := d.addCommand(g, rules, k.Conflicts)
		if err := d.resumeRows(ctx, g); err != nil {
			d.log.Warn("what a command did before goes under another number", "session", g.Session, "error", err)
		}
		if !isProcess(g.PID, g.StartTicks) || onEnd(g.PID, func() { d.commandGone(c) }) != nil {
			go d.commandGone(c) // it ended while there was no daemon
		}
	}
}

// resumedCommands is how many commands back of a session one is looked for.
const resumedCommands = 256

// resumeRows gives a registration the rows that it had in each workspace.
func (d *Daemon) resumeRows(ctx context.Context, g *proc.Registration) error {
	if g.Each { // its commands are those of processes
		return nil
	}
	for _, s := range d.allSlots() {
		sessions, err := d.st.Sessions(ctx, s.id, knownSessions)
		if err != nil {
			return err
		}
		for i := range sessions {
			if sessions[i].Name != g.Session {
				continue
			}
			q := store.CommandQuery{Workspace: s.id, Session: sessions[i].ID, Limit: resumedCommands}
			err := d.st.Commands(ctx, q, func(c *store.CommandRow) error {
				if c.StartedAt == g.StartedAt && c.Argv == g.Argv {
					s.sessions.Resume(g, &c.Command)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// resumeRunMounts goes on with the mounts of runs, for those of their users that live. One without users ends in a while,
// as if the last had just left.
func (d *Daemon) resumeRunMounts(mounts []*left, runs *leftRuns) {
	d.runs.mounting.Lock()
	defer d.runs.mounting.Unlock()
	for _, l := range mounts {
		if l.held == nil {
			continue
		}
		m := &runMount{point: string(l.km.Request.Mountpoint), held: l.held, users: 1, ends: map[int]func(){}}
		if !d.serves(m.point) { // taken out of the tree; who is in it still is served
			_ = l.held.Close()
			continue
		}
		if d.runs.mounts == nil {
			d.runs.mounts = map[store.WorkspaceID]*runMount{}
		}
		d.runs.mounts[l.km.Workspace] = m
		for i, u := range runs.users {
			if string(u.Point) != m.point {
				continue
			}
			m.asked++
			m.users++
			forget := func() { d.tellKeeper(d.o.Keeper.Drop(runs.names[i])) }
			end := sync.OnceFunc(func() { forget(); d.leaveRunMount(l.km.Workspace, m, u.PID) })
			m.ends[u.PID] = end
			if !isProcess(u.PID, u.Start) || onEnd(u.PID, end) != nil {
				delete(m.ends, u.PID)
				forget()
				m.users--
			}
		}
		d.dropUser(l.km.Workspace, m)
	}
}

// heldFile is the descriptor that says that a directory for mounts of runs is in use.
func heldFile(fd int, point string) *os.File { return os.NewFile(uintptr(fd), point) }
