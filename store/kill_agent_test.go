package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// agent carries out, in a child, what a magent has thought up: the calls of package fs that a mount makes, and what the
// daemon does for forks, tags, rollbacks and undo.
type agent struct {
	st      *store.Store
	name    string
	session *store.Session
	cmd     string
	who     store.Attribution
	mu      sync.Mutex
	f       *fs.FS // set with mu held
	all     []*agent
	commits int
	tmp     string        // a directory outside of the store
	cut     time.Duration // how long what is dirty may stay so
	now     func() time.Time
	classes *store.Classes // collect by these, too; nil: by none
	still   atomic.Int64   // when the write began that is going on, 0 if there is none
}

// clock is that of the agent's workspace unless it has another. It stands still while a file is written, however slow the machine is: what is open and
// dirty for long becomes a version, and the model knows nothing of files that are half written.
func (a *agent) clock() time.Time {
	if began := a.still.Load(); began != 0 {
		return time.Unix(0, began)
	}
	return time.Now()
}

func (a *agent) open(ctx context.Context, ws string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.f != nil {
		if err := a.f.Close(); err != nil {
			return err
		}
	}
	row, err := a.st.Workspace(ctx, ws)
	if err != nil {
		return err
	}
	now := a.now
	if now == nil {
		now = a.clock
	}
	if a.f, err = fs.Open(ctx, a.st, row, fs.Options{CutAfter: a.cut, Now: now}); err != nil {
		return err
	}
	a.session = &store.Session{ID: a.st.NewSessionID(), Name: a.name, Workspace: row.ID}
	a.cmd = ""
	return nil
}

func (a *agent) call() *fs.Call {
	who := a.who
	return &fs.Call{UID: 1, GID: 1, PID: 7, Who: func() store.Attribution { return who }}
}

func (a *agent) find(p string) (fs.Attr, error) {
	c := a.call()
	at, err := a.f.GetAttr(c, store.RootIno, nil)
	for _, name := range strings.FieldsFunc(p, func(r rune) bool { return r == '/' }) {
		if err == nil {
			at, err = a.f.Lookup(c, at.ID, name)
		}
		if err == nil {
			a.f.Forget(at.ID, 1)
		}
	}
	return at, err
}

func (a *agent) parent(p string) (store.Ino, string, error) {
	dir, name := path.Split(p)
	at, err := a.find(dir)
	return at.ID, name, err
}

// do carries out op and returns when it is acknowledged.
func (a *agent) do(ctx context.Context, op mop) error {
	if op.Cmd != "" && op.Cmd != a.cmd {
		a.commits++
		a.cmd = op.Cmd
		a.who = store.Attribution{
			Session: a.session,
			Command: &store.Command{ID: a.st.NewCommandID(), Session: a.session.ID, N: a.commits, Argv: op.Cmd, StartedAt: time.Now().UnixNano()},
			Process: &store.Process{ID: a.st.NewProcessID(), Session: a.session.ID, PID: 7, Comm: "sh"},
		}
	}
	c := a.call()
	switch op.Kind {
	case "gc":
		return a.collect(ctx, store.Retention{})
	case "fork", "tag", "drop", "undo", "redo", "rollback", "try undo", "try redo": // as the daemon does
		defer a.st.UseHistory()()
	}
	switch op.Kind {
	case "use":
		return a.open(ctx, op.Name)
	case "sync":
		return a.f.Sync(ctx)
	case "checkpoint":
		_, err := a.st.Checkpoint(ctx, op.Cmd == "")
		return err
	case "fork":
		return a.point(func(ws *store.Workspace, p versions.Place, now int64) *store.Op {
			return versions.ForkOp(a.st, ws, p, op.Name, now, a.who)
		})
	case "tag":
		return a.point(func(ws *store.Workspace, p versions.Place, now int64) *store.Op {
			return versions.TagOp(ws, op.Name, p, now, a.who)
		})
	case "drop":
		if err := a.st.Apply(ctx, a.st.Last()); err != nil {
			return err
		}
		ws, err := a.st.Workspace(ctx, op.Name)
		if err != nil {
			return err
		}
		return a.append(versions.DropOp(*ws, time.Now().UnixNano(), a.who))
	case "undo", "redo", "rollback", "try undo", "try redo":
		return a.back(ctx, op)
	case "import":
		return a.imports(ctx, op)
	}
	dir, name, err := a.parent(op.Path)
	if err != nil {
		return err
	}
	switch op.Kind {
	case "write", "writesync", "append":
		return a.write(c, dir, name, op)
	case "mkdir":
		at, err := a.f.Mkdir(c, dir, name, op.Mode)
		a.f.Forget(at.ID, 1)
		return err
	case "symlink":
		at, err := a.f.Symlink(c, dir, name, op.Data)
		a.f.Forget(at.ID, 1)
		return err
	case "unlink":
		return a.f.Unlink(c, dir, name)
	case "rmdir":
		return a.f.Rmdir(c, dir, name)
	}
	at, err := a.find(op.Path)
	if err != nil {
		return err
	}
	to, toName, err := a.parent(op.To)
	if err != nil {
		return err
	}
	switch op.Kind {
	case "rename":
		return a.f.Rename(c, dir, name, to, toName, 0)
	case "link":
		_, err = a.f.Link(c, at.ID, to, toName)
		a.f.Forget(at.ID, 1)
	case "chmod":
		_, err = a.f.SetAttr(c, at.ID, nil, fs.SetAttr{Mode: &op.Mode})
	case "truncate":
		size := int64(len(op.Data))
		_, err = a.f.SetAttr(c, at.ID, nil, fs.SetAttr{Size: &size})
	case "xattr":
		err = a.f.SetXattr(c, at.ID, "user.k", []byte(op.Data), 0)
	default:
		err = fmt.Errorf("what is %q?", op.Kind)
	}
	return err
}

// collect removes dropped workspaces, and what keep and the classes say.
func (a *agent) collect(ctx context.Context, keep store.Retention) error {
	keep.Dropped = time.Nanosecond
	_, err := a.st.Collect(ctx, store.GCOptions{Keep: &keep, Classes: a.classes, Roots: a.contents})
	if errors.Is(err, blob.ErrCollecting) {
		return nil // another agent is at it
	}
	return err
}

// contents are those of all agents' open files.
func (a *agent) contents() []blob.Content {
	var list []blob.Content
	for _, b := range a.all {
		b.mu.Lock()
		list = append(list, b.f.Contents()...)
		b.mu.Unlock()
	}
	return list
}

func (a *agent) write(c *fs.Call, dir store.Ino, name string, op mop) error {
	a.still.Store(time.Now().UnixNano())
	defer a.still.Store(0)
	flags := uint32(syscall.O_WRONLY | syscall.O_TRUNC)
	if op.Kind == "append" {
		flags = syscall.O_WRONLY | syscall.O_APPEND
	}
	at, h, err := a.f.Create(c, dir, name, 0o644, flags)
	if err != nil {
		return err
	}
	off := int64(0)
	if op.Kind == "append" {
		off = at.Size
	}
	for data := []byte(op.Data); len(data) > 0 && err == nil; {
		n := min(len(data), 50_000)
		_, err = h.WriteAt(c, data[:n], off, false)
		data, off = data[n:], off+int64(n)
	}
	if err == nil {
		err = h.Flush(c, 1)
	}
	if err == nil && op.Kind == "writesync" {
		err = h.Fsync(c, true)
	}
	h.Release(c, 1)
	a.f.Forget(at.ID, 1)
	return err
}

func (a *agent) append(op *store.Op) error {
	slot, err := a.st.Append(op)
	if err == nil {
		err = a.st.Wait(slot)
	}
	return err
}

// imports makes the workspace equal to a directory with the files of op.
func (a *agent) imports(ctx context.Context, op mop) error {
	dir, err := os.MkdirTemp(a.tmp, "import")
	if err != nil {
		return err
	}
	for p, data := range op.Files {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
			return err
		}
	}
	if _, err = a.f.Import(ctx, dir, a.who, nil, nil); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// point appends an op that names where the workspace stands.
func (a *agent) point(op func(*store.Workspace, versions.Place, int64) *store.Op) error {
	timeline, seq, err := a.f.Freeze(nil)
	if err != nil {
		return err
	}
	p := versions.Place{Timeline: timeline, Seq: seq}
	if a.commits%4 == 0 { // else it is named before it is in the database
		ctx := context.Background()
		if err := a.st.Apply(ctx, a.st.Last()); err != nil {
			return err
		}
		if err := p.Whole(ctx, a.st); err != nil {
			return fmt.Errorf("a present lacks something: %w", err)
		}
	}
	return a.append(op(a.f.Workspace(), p, time.Now().UnixNano()))
}

// back is an undo, a redo or a rollback, as the daemon does it. One that is only tried may be refused, as bytes are not kept any more;
// nothing is changed by it either way.
func (a *agent) back(ctx context.Context, op mop) error {
	h, err := a.f.Hold(ctx)
	if err != nil {
		return err
	}
	defer h.Release()
	at := versions.Place{}
	at.Timeline, at.Seq = h.At()
	var p *versions.UndoPlan
	kind, why := store.OpUndo, versions.WhyUndo
	if op.Kind == "rollback" {
		kind, why = store.OpRestore, versions.WhyRollback
		var r *versions.Resolved
		var to versions.Place
		r, err = versions.Resolve(ctx, a.st, versions.Revision{Workspace: a.f.Workspace().Name, Point: versions.Point{Kind: versions.AtTag, Tag: op.Name}}, time.Now())
		if err == nil {
			to, err = r.Place(ctx, a.st)
		}
		if err == nil {
			p, err = versions.PlanRollback(ctx, a.st, a.f.Workspace(), at, to, versions.UndoSelect{})
		}
	} else {
		sel := versions.UndoSelect{Now: time.Now(), Redo: op.Kind == "redo" || op.Kind == "try redo"}
		if sel.Redo {
			kind, why = store.OpRedo, versions.WhyRedo
		}
		if sel.Own, err = a.st.SessionsNamed(ctx, a.name, false); err != nil {
			return err
		}
		sel.Own = append(sel.Own, a.session.ID)
		p, err = versions.PlanUndo(ctx, a.st, a.f.Workspace(), at, sel)
	}
	try := strings.HasPrefix(op.Kind, "try ")
	var lack *versions.LackError
	if try && errors.As(err, &lack) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := a.means(ctx, p, op.Name); err != nil {
		return err
	}
	if try {
		return nil
	}
	if len(p.Conflicts) > 0 {
		return fmt.Errorf("conflicts of what was done alone: %v", p.Conflicts)
	}
	if p.Move != nil {
		return h.Move(ctx, fs.Move{Timeline: p.Move.Timeline, Seq: p.Move.Seq, Why: why, Who: a.who})
	}
	if p.Empty() {
		return errors.New("it changes nothing")
	}
	var contents []blob.Staged
	if contents, err = p.Contents(a.st); err != nil {
		return err
	}
	_, err = h.Edit(ctx, &fs.Edit{Kind: kind, Who: a.who, Undoes: p.Undoes, Names: p.Names, Versions: p.Versions, Contents: contents})
	return err
}

// means checks that an undo or redo takes back the command that the model expects.
func (a *agent) means(ctx context.Context, p *versions.UndoPlan, cmd string) error {
	if len(p.Commands) != 1 || cmd == "" {
		return nil // a rollback, or nobody knows
	}
	v, err := a.st.ViewOf(ctx, a.f.Workspace())
	if err != nil {
		return err
	}
	return a.st.Changes(ctx, store.ChangeQuery{View: v, Command: p.Commands[0]}, func(c *store.ChangeRow) error {
		if c.Command.Argv != cmd {
			return fmt.Errorf("it means %s, the model %s", c.Command.Argv, cmd)
		}
		return nil
	})
}
