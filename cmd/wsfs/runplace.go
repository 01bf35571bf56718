package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"wsfs/internal/daemon"
	"wsfs/versions"
)

// runPlace is where a command runs.
type runPlace struct {
	daemon.RunReply
	store   string
	target  string // the directory that the workspace is on
	dir     string // the command's working directory
	mounted bool   // it is there already
}

// runPlace decides which workspace a run works on and where it appears.
func (a *app) runPlace(ctx context.Context, o *runOptions, named bool) (*runPlace, error) {
	mounts, err := daemon.Mounts()
	if err != nil {
		return nil, err
	}
	cwd, err := getwd()
	if err != nil {
		return nil, err
	}
	at := ""
	if o.at != "" {
		if at, err = a.realPath(mounts, o.at); err != nil {
			return nil, err
		}
	}
	w, err := a.here()
	if err != nil {
		return nil, err
	}
	if w.mount != nil && (w.mount.Seq() != "" || w.past != "") && a.workspaceFlag == "" {
		return nil, daemon.Fail(daemon.ExitUsage, "run: you are in a state of the past (%s); name a workspace with -w", w.now())
	}
	if w.mount != nil && w.workspace == "" && a.workspaceFlag == "" {
		return nil, daemon.Fail(daemon.ExitUsage, "run: the mount you are in shows all workspaces; go into one, or name it with -w")
	}
	base := a.workspaceFlag
	if base == "" {
		base = w.workspace
	}
	if base == "" {
		var root string
		if base, root, err = a.project(ctx, w.store, cwd, at, o.keep); err != nil {
			return nil, err
		}
		if at == "" {
			at = root
		}
	} else if err := versions.CheckWorkspaceName(base); err != nil {
		return nil, &daemon.Error{Exit: daemon.ExitUsage, Err: err}
	}
	p := &runPlace{store: w.store, dir: cwd}
	if err := peek(ctx, w.store); err != nil {
		return nil, err
	}
	if a.workspaceFlag != "" {
		if err := a.takeInNamed(ctx, mounts, w.store, base, at, o.keep); err != nil {
			return nil, err
		}
	}
	err = a.withDaemon(ctx, w.store, func(c *daemon.Client) (err error) {
		p.RunReply, err = c.Run(ctx, daemon.RunRequest{Workspace: base, Fork: o.fork, Session: o.session,
			Named: named && (a.workspaceFlag == "" || o.fork != nil)}) // who names a workspace means it
		if err == nil && o.atomic {
			name := atomicName(p.Workspace)
			p.RunReply, err = c.Run(ctx, daemon.RunRequest{Workspace: p.Workspace, Fork: &name, Session: o.session})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if p.Bound {
		a.note("session %s works in its fork %s", o.session, p.Workspace)
	}
	switch {
	case at != "":
		p.target = at
	case w.workspace != "" && (p.Workspace == w.workspace || p.Parent == w.workspace):
		p.target = w.root()
	case p.Origin != "":
		p.target = string(p.Origin)
	default:
		return nil, daemon.Fail(daemon.ExitUsage, "run in %s: it did not come from a directory; say with --at where it shall appear", p.Workspace)
	}
	m := daemon.MountAt(mounts, p.target)
	p.mounted = m != nil && m.Ours() && m.Store() == w.store && m.Label() == p.Workspace && m.Root == "/" ||
		w.workspace == p.Workspace && w.mount.All() && p.target == w.root()
	if !p.mounted {
		if err := checkTarget(p.target, p.store); err != nil {
			return nil, err
		}
	}
	if !below(p.dir, p.target) {
		p.dir = p.target
	}
	return p, nil
}

// root is the directory on which the workspace's root is. The place must be on a mount.
func (w where) root() string {
	if w.mount.All() {
		return filepath.Join(w.mount.Point, w.workspace)
	}
	return w.mount.Point
}

// checkTarget refuses directories on which a workspace cannot be shown.
func checkTarget(target, store string) error {
	var st syscall.Stat_t
	err := syscall.Lstat(target, &st)
	switch {
	case err != nil:
		return fmt.Errorf("show the workspace on %s: %w; --at DIR names another directory", target, err)
	case st.Mode&syscall.S_IFMT != syscall.S_IFDIR:
		return fmt.Errorf("show the workspace on %s: %w", target, syscall.ENOTDIR)
	case target == "/":
		return daemon.Fail(daemon.ExitUsage, "show the workspace on /: that would hide the whole system; choose another directory")
	case below(store, target):
		return daemon.Fail(daemon.ExitFailed, "show the workspace on %s: the store %s is inside it and would be hidden; move the store, or choose another directory: %w",
			target, store, syscall.EINVAL)
	}
	return nil
}

// below reports whether path is dir or in it. Both are clean and absolute.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// withDaemon calls fn with the store's daemon, which it starts if there is none. One that is just ending is waited for.
func (a *app) withDaemon(ctx context.Context, dir string, fn func(*daemon.Client) error) error {
	for deadline := time.Now().Add(lockPatience); ; {
		c, err := daemon.Dial(dir)
		if c == nil && err == nil {
			if err = a.startDaemon(ctx, dir); err == nil {
				continue
			}
			if again, _ := daemon.Dial(dir); again != nil {
				continue // another command started one in the same moment
			}
		}
		if err == nil {
			err = fn(c)
		}
		var gone *daemon.GoneError
		retry := errors.As(err, &gone) || errors.Is(err, syscall.EAGAIN) || c == nil && errors.Is(err, syscall.EBUSY)
		if err == nil || !retry || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
