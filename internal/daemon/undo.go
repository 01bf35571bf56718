package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// UndoRequest asks to take changes back. Without Commands, Session and Since it is the last command that changed something:
// of the caller's session if somebody gave it a name, else of anybody.
type UndoRequest struct {
	Workspace string  `json:"workspace"`
	Commands  []int64 `json:"commands,omitempty"`
	Session   string  `json:"session,omitempty"`
	Since     string  `json:"since,omitempty"` // a point as versions.ParseHere reads it; times in UTC
	// Paths keeps what is at or below one of these, Except leaves out what is; from the root of the workspace.
	Paths      []Path `json:"paths,omitempty"`
	Except     []Path `json:"except,omitempty"`
	ExactTimes bool   `json:"exact_times,omitempty"` // recorded times even where bytes change
	Yes        bool   `json:"yes,omitempty"`         // although it removes much
	DryRun     bool   `json:"dry_run,omitempty"`
	List       bool   `json:"list,omitempty"`  // the reply has the paths
	Hunks      bool   `json:"hunks,omitempty"` // and the hunks of texts
	// Picks keeps only these hunks of these paths. They are those of a dry run at At: if the workspace has moved on, it is
	// refused.
	Picks []UndoPick `json:"picks,omitempty"`
	At    *UndoPlace `json:"at,omitempty"`
}

// UndoPick is what to take back of one path.
type UndoPick struct {
	Path  Path  `json:"path"`
	Hunks []int `json:"hunks"` // counted from 0; of what has none, [0] is all of it
}

// UndoPlace is the state that a plan was made for.
type UndoPlace struct {
	Timeline int64 `json:"timeline"`
	Seq      int64 `json:"seq"`
}

// RedoRequest asks to take the last undo back.
type RedoRequest struct {
	Workspace string `json:"workspace"`
	Yes       bool   `json:"yes,omitempty"`
	DryRun    bool   `json:"dry_run,omitempty"`
	List      bool   `json:"list,omitempty"`
}

// UndoReply says what was taken back, or would be.
type UndoReply struct {
	Workspace string     `json:"workspace"`
	Commands  []int64    `json:"commands"` // those that were taken back; none if nobody is known
	Seq       int64      `json:"seq"`      // of the change that did it; 0 if the pointer was moved, or nothing was done
	Moved     bool       `json:"moved,omitempty"`
	Created   int        `json:"created"`
	Changed   int        `json:"changed"`
	Removed   int        `json:"removed"`
	Renamed   int        `json:"renamed"`
	DryRun    bool       `json:"dry_run,omitempty"`
	Paths     []UndoLine `json:"paths,omitempty"`
	Missing   []Path     `json:"missing,omitempty"` // files that a rollback left as they are, because their bytes are not kept any more
	At        UndoPlace  `json:"at"`
}

// UndoLine is one path.
type UndoLine struct {
	What  string     `json:"what"` // created, changed, removed, renamed
	Path  Path       `json:"path"`
	From  Path       `json:"from,omitempty"`
	Dir   bool       `json:"dir,omitempty"`
	Hunks []UndoHunk `json:"hunks,omitempty"`
}

// UndoHunk is one place of a text.
type UndoHunk struct {
	Line int    `json:"line"` // from 1
	Old  []Path `json:"old"`  // lines with their ends
	New  []Path `json:"new"`
}

// undoing is one request on its way.
type undoing struct {
	d    *Daemon
	what string // for messages
	s    *slot
	f    *fs.FS
	who  store.Attribution
	plan func(ctx context.Context, at versions.Place) (*versions.UndoPlan, error)
	kind store.OpKind
	why  string // of a move
	ask  bool   // a plan that removes much needs a yes
	dry  bool
	say  func(UndoReply) // is told the plan before anything happens
	list bool
	at   *UndoPlace
	// queued: try it with the database behind (undoqueued.go). warm: if it is not, read what the last command did beside the applier.
	queued, warm bool
}

func (d *Daemon) undoSaying(ctx context.Context, req UndoRequest, say func(UndoReply)) (UndoReply, error) {
	s, f, release, err := d.acquireWritable(ctx, "undo", req.Workspace, req.DryRun)
	if err != nil {
		return UndoReply{}, err
	}
	defer release()
	ctx, cool := d.warm(ctx, f)
	defer cool()
	u := &undoing{
		d: d, what: "undo", s: s, f: f, who: d.caller(ctx, s), kind: store.OpUndo, why: versions.WhyUndo, dry: req.DryRun, say: say,
		list: req.List || req.Hunks, at: req.At, ask: !req.Yes && !req.DryRun && (req.Session != "" || req.Since != ""),
	}
	sel := versions.UndoSelect{ExactTimes: req.ExactTimes, Hunks: req.Hunks, List: u.list, Paths: texts(req.Paths), Except: texts(req.Except)}
	for _, c := range req.Commands {
		sel.Commands = append(sel.Commands, store.CommandID(c))
	}
	if req.Picks != nil {
		sel.Picks = map[string][]int{}
		for _, p := range req.Picks {
			sel.Picks[string(p.Path)] = p.Hunks
		}
	}
	if err := d.undoSessions(ctx, &sel, req, u.who); err != nil {
		return UndoReply{}, err
	}
	u.plan = func(ctx context.Context, at versions.Place) (*versions.UndoPlan, error) {
		sel.Now = d.o.Now()
		return versions.PlanUndo(ctx, d.st, f.Workspace(), at, sel)
	}
	return u.run(ctx)
}

// warm begins to read what the last command did, if that is much: that is what is mostly taken back, and the applier may be at
// it still.
func (d *Daemon) warm(ctx context.Context, f *fs.FS) (context.Context, func()) {
	const much = 4096
	if sp := f.LastRun(); sp.UpTo-sp.After >= much {
		return d.st.WarmSteps(ctx, sp)
	}
	return ctx, func() {}
}

// undoSessions fills in whose changes are meant, and since when.
func (d *Daemon) undoSessions(ctx context.Context, sel *versions.UndoSelect, req UndoRequest, who store.Attribution) error {
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return err
	}
	var err error
	if req.Session != "" {
		if sel.Sessions, err = d.st.SessionsNamed(ctx, req.Session, true); err != nil {
			return err
		}
		if len(sel.Sessions) == 0 {
			return &versions.UnknownError{What: "session", Name: req.Session, Hint: "`wsfs sessions` lists them"}
		}
	}
	if who.Session != nil && who.Session.Agent != store.AgentLogin {
		if sel.Own, err = d.st.SessionsNamed(ctx, who.Session.Name, false); err != nil {
			return err
		}
		sel.Own = append(sel.Own, who.Session.ID)
	}
	if req.Since == "" {
		return nil
	}
	rev, err := versions.ParseHere(req.Since, time.UTC)
	if err != nil {
		return err
	}
	switch rev.Point.Kind {
	case versions.AtAge:
		sel.Since = d.o.Now().Add(-rev.Point.Age).UnixNano()
	case versions.AtTime:
		sel.Since = rev.Point.Time.UnixNano()
	default:
		rev.Workspace = req.Workspace
		at, err := versions.Resolve(ctx, d.st, rev, d.o.Now())
		if err != nil {
			return err
		}
		sel.After = at.Seq
	}
	return nil
}

func (d *Daemon) redoSaying(ctx context.Context, req RedoRequest, say func(UndoReply)) (UndoReply, error) {
	s, f, release, err := d.acquireWritable(ctx, "redo", req.Workspace, req.DryRun)
	if err != nil {
		return UndoReply{}, err
	}
	defer release()
	u := &undoing{
		d: d, what: "redo", s: s, f: f, who: d.caller(ctx, s), kind: store.OpRedo, why: versions.WhyRedo, dry: req.DryRun, say: say,
		list: req.List,
	}
	sel := versions.UndoSelect{Redo: true, List: u.list}
	if err := d.undoSessions(ctx, &sel, UndoRequest{}, u.who); err != nil {
		return UndoReply{}, err
	}
	u.plan = func(ctx context.Context, at versions.Place) (*versions.UndoPlan, error) {
		sel.Now = d.o.Now()
		return versions.PlanUndo(ctx, d.st, f.Workspace(), at, sel)
	}
	return u.run(ctx)
}

// acquireWritable is acquireLive for what changes a workspace, or, if dry, would.
func (d *Daemon) acquireWritable(ctx context.Context, what, name string, dry bool) (*slot, *fs.FS, func(), error) {
	s, f, release, err := d.acquireLive(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	if f.Workspace().ReadOnly {
		release()
		return nil, nil, nil, Fail(ExitFailed, "%s: workspace %q is read-only: %w", what, name, syscall.EROFS)
	}
	if dry {
		return s, f, release, nil
	}
	over := f.Foresee()
	return s, f, func() { over(); release() }, nil
}

func texts(paths []Path) []string {
	var out []string
	for _, p := range paths {
		out = append(out, string(p))
	}
	return out
}

// undoLock lets one undo, redo or rollback of a workspace run at a time: the next one works on what this one left.
type undoLock struct {
	mu  sync.Mutex
	all map[store.WorkspaceID]*sync.Mutex
}

func (l *undoLock) of(id store.WorkspaceID) *sync.Mutex {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[store.WorkspaceID]*sync.Mutex{}
	}
	if l.all[id] == nil {
		l.all[id] = &sync.Mutex{}
	}
	return l.all[id]
}

// undoError gives the errors of planning their exit codes.
func undoError(err error) error {
	switch {
	case errors.Is(err, versions.ErrNothing):
		return &Error{ExitNothing, err}
	case errors.Is(err, versions.ErrDecide):
		return &Error{ExitDecision, err}
	}
	var own *Error
	if errors.As(err, &own) || err == nil {
		return err
	}
	return fmt.Errorf("%w; nothing was changed", err)
}
