package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// RunRequest asks which workspace a run works on, and makes the fork it wants.
type RunRequest struct {
	Workspace string  `json:"workspace"`
	Fork      *string `json:"fork,omitempty"`  // run in a fork of it: of that name, or of one made up
	Session   string  `json:"session"`         // of the run
	Named     bool    `json:"named,omitempty"` // the session's name was chosen by somebody: it keeps its fork
}

// RunReply is where to run.
type RunReply struct {
	Workspace string `json:"workspace"`
	ID        int64  `json:"id"`
	Origin    Path   `json:"origin,omitempty"` // the host directory that it came from
	Parent    string `json:"parent,omitempty"` // of which it is a fork
	Made      bool   `json:"made,omitempty"`   // the fork was made now
	Bound     bool   `json:"bound,omitempty"`  // it is the fork of the session, which nobody asked for this time
}

// RunMountRequest asks for a mount of a workspace on a directory that is nobody's business. It is there for as long as
// the process that asks, and longer if others use it.
type RunMountRequest struct {
	Workspace string `json:"workspace"`
	// Reads: what is read by the mount is remembered, for MergeRequest.Serializable. It must be the first mount of the workspace.
	Reads bool `json:"reads,omitempty"`
}

// RunMountReply says where it is.
type RunMountReply struct {
	Mountpoint Path `json:"mountpoint"`
	PID        int  `json:"pid"` // of the daemon
}

// CommandRequest registers the process that sends it: everything below it is one command (Each: one session).
type CommandRequest struct {
	Workspace string   `json:"workspace"`
	Session   string   `json:"session"`
	Parent    string   `json:"parent,omitempty"` // the session that starts this one
	Meta      string   `json:"meta,omitempty"`   // a JSON object
	Argv      [][]byte `json:"argv"`
	Cwd       Path     `json:"cwd"`
	Each      bool     `json:"each,omitempty"`
	// Conflicts are rules as fs.ParseRules reads them. While the command runs they count for its session instead of those of the mounts.
	Conflicts []string `json:"conflicts,omitempty"`
}

// EndRequest tells how the program ended that the registered process which sends it had started.
type EndRequest struct {
	Exit   int `json:"exit"`             // as a shell would say it
	Signal int `json:"signal,omitempty"` // that killed it
}

// EndReply says what the command is, in each workspace that it changed.
type EndReply struct {
	Commands []EndedCommand `json:"commands"`
}

// EndedCommand is a command that changed something.
type EndedCommand struct {
	Command   int64  `json:"command"`
	Workspace string `json:"workspace"`
}

// CheckConflicts says what is wrong with rules for CommandRequest.Conflicts.
func CheckConflicts(rules []string) error {
	if _, err := fs.ParseRules(rules); err != nil {
		return &Error{ExitUsage, fmt.Errorf("conflicts: %w", err)}
	}
	return nil
}

func (d *Daemon) runRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/runs", reply(func(r *http.Request, req *RunRequest) (any, error) { return d.run(r.Context(), *req) }))
	mux.HandleFunc("POST /v1/runs/mount", reply(func(r *http.Request, req *RunMountRequest) (any, error) {
		return d.runMount(r.Context(), *req)
	}))
	mux.HandleFunc("POST /v1/runs/leave", reply(func(r *http.Request, req *RunMountRequest) (any, error) {
		return struct{}{}, d.leaveRun(r.Context(), *req)
	}))
	mux.HandleFunc("POST /v1/commands", reply(func(r *http.Request, req *CommandRequest) (any, error) {
		return struct{}{}, d.registerCommand(r.Context(), *req)
	}))
	mux.HandleFunc("POST /v1/commands/end", reply(func(r *http.Request, req *EndRequest) (any, error) {
		return d.endCommand(r.Context(), *req)
	}))
}

// Run asks where to run.
func (c *Client) Run(ctx context.Context, req RunRequest) (RunReply, error) {
	var out RunReply
	return out, c.do(ctx, http.MethodPost, "/v1/runs", req, &out)
}

// RunMount asks for a mount that is there for as long as this process.
func (c *Client) RunMount(ctx context.Context, req RunMountRequest) (RunMountReply, error) {
	var out RunMountReply
	return out, c.do(ctx, http.MethodPost, "/v1/runs/mount", req, &out)
}

// LeaveRun gives back what RunMount gave, before this process ends.
func (c *Client) LeaveRun(ctx context.Context, req RunMountRequest) error {
	return c.do(ctx, http.MethodPost, "/v1/runs/leave", req, nil)
}

// RegisterCommand registers this process.
func (c *Client) RegisterCommand(ctx context.Context, req CommandRequest) error {
	return c.do(ctx, http.MethodPost, "/v1/commands", req, nil)
}

// EndCommand tells that the program which this process started has ended.
func (c *Client) EndCommand(ctx context.Context, req EndRequest) (EndReply, error) {
	var out EndReply
	return out, c.do(ctx, http.MethodPost, "/v1/commands/end", req, &out)
}

func (d *Daemon) run(ctx context.Context, req RunRequest) (RunReply, error) {
	d.staysFor(ctx)
	base, err := d.workspace(ctx, req.Workspace)
	if err != nil {
		return RunReply{}, err
	}
	out := RunReply{Workspace: base.Name, ID: int64(base.ID), Origin: Path(base.OriginPath)}
	var bound *store.Workspace
	if req.Named {
		if bound, err = d.boundFork(ctx, base, req.Session); err != nil {
			return RunReply{}, err
		}
	}
	fork := bound
	switch {
	case req.Fork == nil && bound == nil:
		if base.Parent != 0 {
			out.Parent = d.nameOf(ctx, base.Parent)
		}
		return out, nil
	case req.Fork == nil:
		out.Bound = true
	case *req.Fork != "" || bound == nil:
		name := *req.Fork
		if name == "" {
			name = forkName(base.Name, req.Session)
		}
		if fork, out.Made, err = d.forkFor(ctx, base, name, req, bound == nil); err != nil {
			return RunReply{}, err
		}
	}
	out.Workspace, out.ID, out.Origin, out.Parent = fork.Name, int64(fork.ID), Path(fork.OriginPath), base.Name
	return out, nil
}

// staysFor makes a daemon that was started for a run end after it, whether or not that comes to mount anything.
func (d *Daemon) staysFor(ctx context.Context) {
	pid, ok := ctx.Value(peerKey{}).(int)
	if !ok || pid <= 0 {
		return
	}
	leave := func() {
		d.mu.Lock()
		d.tried = true
		d.mu.Unlock()
		d.leaveIfIdle()
	}
	if onEnd(pid, leave) != nil {
		leave()
	}
}

func (d *Daemon) nameOf(ctx context.Context, id store.WorkspaceID) string {
	ws, err := d.st.WorkspaceByID(ctx, id)
	if err != nil {
		return strconv.FormatInt(int64(id), 10)
	}
	return ws.Name
}

// forkFor is the fork of base of that name, made if there is none. With bind, the same op notes that the session works
// in it.
func (d *Daemon) forkFor(ctx context.Context, base *store.Workspace, name string, req RunRequest, bind bool) (*store.Workspace, bool, error) {
	if err := versions.CheckWorkspaceName(name); err != nil {
		return nil, false, &Error{ExitUsage, err}
	}
	have, err := d.workspace(ctx, name)
	switch {
	case err == nil && have.Parent != base.ID:
		return nil, false, Fail(ExitFailed, "run in fork %q of %q: the workspace of that name is no fork of it; choose another name: %w",
			name, base.Name, syscall.EEXIST)
	case err == nil && !(bind && req.Named):
		return have, false, nil
	case err == nil:
		return have, false, d.mark("bind session "+req.Session, d.pinOp(sessionPin(have, req.Session)))
	case !errors.Is(err, syscall.ENOENT):
		return nil, false, err
	}
	rev := versions.Revision{Workspace: base.Name}
	from, err := d.freeze(ctx, rev)
	if err != nil {
		return nil, false, err
	}
	op := versions.ForkOp(d.st, &from.ws, from.place, name, d.o.Now().UnixNano(), d.callerAt(ctx, from.slot))
	ws := op.Pointer.Workspace
	if bind && req.Named {
		op.Pins = []store.PinChange{sessionPin(&ws, req.Session)}
	}
	slot, err := d.take(ctx, fmt.Sprintf("fork %s into %q", rev, name), op)
	if errors.Is(err, syscall.EEXIST) { // another run was faster
		have, err := d.workspace(ctx, name)
		return have, false, err
	}
	if err == nil {
		err = d.st.Wait(slot)
	}
	d.log.Info("forked for a run", "workspace", name, "parent", base.Name, "session", req.Session)
	return &ws, true, err
}

func sessionPin(ws *store.Workspace, session string) store.PinChange {
	return store.PinChange{Pin: store.Pin{
		Timeline: ws.Base, Seq: ws.BaseSeq, Kind: store.PinSession, Ref: strconv.FormatInt(int64(ws.ID), 10) + " " + session,
	}}
}

// boundFork is the fork of base that a session works in, nil if it has none.
func (d *Daemon) boundFork(ctx context.Context, base *store.Workspace, session string) (*store.Workspace, error) {
	pins, err := d.st.Pins(ctx, store.PinSession)
	if err != nil {
		return nil, err
	}
	for _, p := range pins {
		id, name, _ := strings.Cut(p.Ref, " ")
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil || name != session {
			continue
		}
		ws, err := d.st.WorkspaceByID(ctx, store.WorkspaceID(n))
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return nil, err
		}
		if err == nil && ws.DroppedAt == 0 && ws.Parent == base.ID {
			return ws, nil
		}
	}
	return nil, nil
}

// forkName names a fork after its session.
func forkName(base, session string) string {
	clean := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/:@ \t\n", r) {
			return '-'
		}
		return r
	}, session)
	name := base + "-" + clean
	if versions.CheckWorkspaceName(name) != nil {
		name = fmt.Sprintf("%.80s-%d", base, time.Now().UnixNano())
	}
	return name
}
