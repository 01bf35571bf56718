package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"

	"wsfs/blob"
)

// backend is what the write path needs of the database. *Store is the real one; tests use a fake.
type backend interface {
	// applyGroup commits all ops of g, their blobs and journal(g.journalID, g.applied) in one transaction. It is
	// called by one goroutine at a time. An error that wraps ENOSPC or EBUSY means nothing was committed and trying
	// the same group again makes sense; any other error stops the store.
	applyGroup(ctx context.Context, g *group) error
	// journalApplied returns the rows of table journal: the last position applied of each journal.
	journalApplied(ctx context.Context) (map[int64]int64, error)
	// commitDurably returns when everything committed so far survives a power cut (a checkpoint that syncs).
	commitDurably(ctx context.Context) error
	// reserveIDs durably adds n to counter(name) and returns its value before that (1 if there was no row).
	reserveIDs(ctx context.Context, name string, n int64) (int64, error)
	// returnIDs durably sets counter(name) back to next; nothing from next on was used.
	returnIDs(ctx context.Context, name string, next int64) error
}

// contents is what the write path needs of package blob.
type contents interface {
	Settle(ctx context.Context, items []blob.Staged) ([]blob.Location, error)
	Applied(items []blob.Staged)
	Restage(st blob.Staged)
	Sync() error
}

// QueueStats are figures of the write path since the store was opened.
type QueueStats struct {
	Last, Written, Durable, Applied Slot  // highest slot that reached each state
	PendingBytes                    int64 // encoded size of the ops that the database does not have yet
	Groups                          int64 // transactions
	Flushes, Syncs                  int64 // writes to and fdatasync rounds of the journal
	Segments                        int   // journal files
	Stalled                         error // why the applier is waiting for better times (disk full, database locked), or nil
}

// pipeline is the write path: journal, queue and applier.
type pipeline struct {
	last    atomic.Int64
	applied atomic.Int64
}

func (p *pipeline) append(op *Op) (Slot, error)               { return 0, syscall.ENOSYS }
func (p *pipeline) wait(slot Slot) error                      { return syscall.ENOSYS }
func (p *pipeline) sync(slot Slot) error                      { return syscall.ENOSYS }
func (p *pipeline) apply(ctx context.Context, slot Slot) error { return syscall.ENOSYS }
func (p *pipeline) stats() QueueStats                         { return QueueStats{} }

func errReadOnly(what string) error {
	return fmt.Errorf("%s: the store was opened read-only: %w", what, syscall.EROFS)
}

// startJournal replays what earlier starts left in the journal, then starts a new journal and the applier. Open calls
// it last, with the lock held, the schema migrated and the blob store open.
func (s *Store) startJournal(ctx context.Context) error { return nil }

// stopJournal applies everything queued, makes it durable, and stops. Close calls it first. It returns the error that
// stopped the store earlier, if one did.
func (s *Store) stopJournal() error { return nil }
