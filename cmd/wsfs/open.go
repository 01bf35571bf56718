package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"wsfs/internal/daemon"
	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/versions"
)

// lockPatience is how long a command waits for another command, or for a daemon that is ending.
const lockPatience = 20 * time.Second

func (a *app) options(dir string) daemon.Options {
	return daemon.Options{Store: dir, Driver: sqlite.Driver(), Version: version(), EchoHelper: []string{a.exe, echoHelperName}}
}

// checkStore says what is wrong with a store's directory before anything is opened.
func checkStore(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return daemon.Fail(daemon.ExitFailed, "open store %s: there is none; `wsfs init` makes one, --store or $WSFS_STORE names another: %w", dir, syscall.ENOENT)
	case err != nil:
		return fmt.Errorf("open store: %w", err)
	case !st.IsDir():
		return daemon.Fail(daemon.ExitFailed, "open store %s: it is not a directory: %w", dir, syscall.ENOTDIR)
	}
	if _, err := os.Stat(filepath.Join(dir, sqlite.File)); errors.Is(err, os.ErrNotExist) {
		if m, err := store.ReadBackup(dir); err == nil && !m.Complete {
			return daemon.Fail(daemon.ExitFailed, "open store %s: it is a backup that was never completed; run `wsfs backup` again, or use another one: %w", dir, syscall.ENOENT)
		}
		return daemon.Fail(daemon.ExitFailed, "open store %s: the directory holds no store (no %s); `wsfs init --store %s` makes one: %w", dir, sqlite.File, dir, syscall.ENOENT)
	}
	return nil
}

// peek opens the store for reading and closes it again: what is not ours, damaged or too new is refused before a daemon
// writes as much as a line of its log there.
func peek(ctx context.Context, dir string) error {
	if err := checkStore(dir); err != nil {
		return err
	}
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{ReadOnly: true})
	if errors.Is(err, store.ErrOlderSchema) {
		return nil // the daemon brings it up to date
	}
	if err != nil {
		return err
	}
	return st.Close()
}

// connect returns a client that can write: of the running daemon, or of this process when there is none. Another
// command that has the store, or a daemon that is just ending, is waited for.
func (a *app) connect(ctx context.Context, dir string) (*daemon.Client, error) {
	if err := checkStore(dir); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockPatience); ; {
		c, err := daemon.Dial(dir)
		if c != nil {
			c.OrElse(func(ctx context.Context) (*daemon.Client, error) { return a.connect(ctx, dir) })
		}
		if c != nil || err != nil {
			return c, err
		}
		c, err = daemon.InProcess(ctx, a.options(dir))
		var locked *store.LockedError
		if !errors.As(err, &locked) || time.Now().After(deadline) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// reading is a store opened for looking at it, with everything in it that was acknowledged before.
type reading struct {
	*store.Store
	close func() error
}

func (r *reading) Close() { _ = r.close() } // nothing was written

// openRead makes the daemon apply what it has and opens the store beside it. Without a daemon, what a killed one left
// in the journal is applied first; if the store may not be written, it is read as it is.
func (a *app) openRead(ctx context.Context, dir string) (*reading, error) {
	if err := checkStore(dir); err != nil {
		return nil, err
	}
	c, err := daemon.Dial(dir)
	if err != nil && !errors.Is(err, syscall.EACCES) {
		return nil, err
	}
	var gone *daemon.GoneError
	if c != nil {
		if _, err := c.Sync(ctx, daemon.SyncRequest{}); err != nil && !errors.As(err, &gone) {
			return nil, err
		}
	}
	if (c == nil || gone != nil) && leftovers(dir) {
		c, err := a.connect(ctx, dir)
		switch {
		case err == nil && c.Local() != nil:
			return &reading{c.Local(), c.Close}, nil
		case err == nil:
			if _, err := c.Sync(ctx, daemon.SyncRequest{}); err != nil {
				return nil, err
			}
		case !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EPERM):
			return nil, err
		default:
			a.note("the store %s may not be written: what a killed daemon left in its journal is not shown", dir)
		}
	}
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{ReadOnly: true})
	if errors.Is(err, store.ErrOlderSchema) && c == nil {
		if c, werr := a.connect(ctx, dir); werr == nil && c.Local() != nil {
			return &reading{c.Local(), c.Close}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return &reading{st, st.Close}, nil
}

// leftovers reports whether the journal holds anything, so that reading needs a replay first.
func leftovers(dir string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, "journal"))
	return err == nil && len(entries) > 0
}

// workspace decides which workspace a reading command means: --workspace, the mount, or the only one there is.
func (a *app) workspace(ctx context.Context, st *store.Store, w where) (*store.Workspace, error) {
	name := a.workspaceFlag
	if name == "" {
		name = w.workspace
	}
	if name != "" {
		if err := versions.CheckWorkspaceName(name); err != nil {
			return nil, &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
		return versions.FindWorkspace(ctx, st, name)
	}
	all, err := st.Workspaces(ctx)
	if err != nil {
		return nil, err
	}
	switch len(all) {
	case 0:
		return nil, daemon.Fail(daemon.ExitFailed, "the store %s has no workspace yet; `wsfs import DIR WS` makes one: %w", w.store, syscall.ENOENT)
	case 1:
		return all[0], nil
	}
	return nil, daemon.Fail(daemon.ExitUsage, "which workspace? You are in no mount and the store %s has %d; give --workspace, or go into a mount", w.store, len(all))
}
