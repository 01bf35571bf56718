package daemon

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"wsfs/store"
)

// names are the live workspaces of the store. Everything that makes, drops or renames one does so with the lock held
// from the look at the name to the op's place in the journal: two that want the same name cannot both have it, though
// neither waits for the database.
type names struct {
	undrop sync.Mutex // held by undrop: two cannot bring back the same workspace under two names
	tags   sync.Mutex // held by tag, from the look at the name to the op's place in the journal
	mu     sync.Mutex
	live   map[string]store.WorkspaceID // guarded by mu; nil: not read yet
}

// take gives a free name to the workspace that op makes live and appends op. what says what it is for.
func (d *Daemon) take(ctx context.Context, what string, op *store.Op) (store.Slot, error) {
	ws := &op.Pointer.Workspace
	d.names.mu.Lock()
	defer d.names.mu.Unlock()
	if err := d.readNames(ctx); err != nil {
		return 0, err
	}
	if _, ok := d.names.live[ws.Name]; ok {
		return 0, Fail(ExitFailed, "%s: there is one of that name; choose another: %w", what, syscall.EEXIST)
	}
	slot, err := d.st.Append(op)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	d.names.live[ws.Name] = ws.ID
	return slot, nil
}

// give appends the op that drops its workspace, whose name is free after it.
func (d *Daemon) give(ctx context.Context, op *store.Op) (store.Slot, error) {
	ws := &op.Pointer.Workspace
	d.names.mu.Lock()
	defer d.names.mu.Unlock()
	if err := d.readNames(ctx); err != nil {
		return 0, err
	}
	slot, err := d.st.Append(op)
	if err != nil {
		return 0, fmt.Errorf("drop workspace %q: %w", ws.Name, err)
	}
	delete(d.names.live, ws.Name)
	return slot, nil
}

// named is the live workspace of that name, 0 if there is none.
func (d *Daemon) named(ctx context.Context, name string) (store.WorkspaceID, error) {
	d.names.mu.Lock()
	defer d.names.mu.Unlock()
	err := d.readNames(ctx)
	return d.names.live[name], err
}

// readNames fills the table at its first use. names.mu is held.
func (d *Daemon) readNames(ctx context.Context) error {
	if d.names.live != nil {
		return nil
	}
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return err
	}
	all, err := d.st.Workspaces(ctx)
	if err != nil {
		return err
	}
	d.names.live = make(map[string]store.WorkspaceID, len(all))
	for _, ws := range all {
		d.names.live[ws.Name] = ws.ID
	}
	return nil
}
