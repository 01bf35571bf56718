package store

import (
	"context"
	"fmt"
)

// Slot is the place of one op in the order of appends since the store was opened: 1, 2, 3, ...
// It is also the op's position in this start's journal.
type Slot int64

// Append puts op into the order of all changes and returns its slot. It copies what it must keep outside op into
// memory and returns: no disk, no database. After it nobody may change op or what op points to.
// The op is acknowledged to nobody yet: that takes Wait.
//
// Errors: the store has failed or is closed (what every later call returns too), or ENOSPC because the journal has no
// reserved room left for it, or the database none for its content; then nothing has happened and the caller's state must stay as it was.
func (s *Store) Append(op *Op) (Slot, error) {
	if s.pipe == nil {
		return 0, errReadOnly("append")
	}
	return s.pipe.append(op)
}

// Wait returns when the op at slot, and every one before it, survives a kill of this process. It also is the brake:
// it blocks while ops that take more than Options.MaxPending bytes wait for the database.
func (s *Store) Wait(slot Slot) error {
	if s.pipe == nil {
		return errReadOnly("wait")
	}
	return s.pipe.wait(slot)
}

// Sync returns when the op at slot, every one before it, and the content they name survive a power cut. Callers that
// come while a flush runs share the next one.
func (s *Store) Sync(slot Slot) error {
	if s.pipe == nil {
		return errReadOnly("sync")
	}
	return s.pipe.sync(slot)
}

// Apply returns when the op at slot is visible in the database.
func (s *Store) Apply(ctx context.Context, slot Slot) error {
	if s.pipe == nil {
		return nil
	}
	return s.pipe.apply(ctx, slot)
}

// Applied is the highest slot that the database has.
func (s *Store) Applied() Slot {
	if s.pipe == nil {
		return 0
	}
	return Slot(s.pipe.applied.Load())
}

// Last is the highest slot given out.
func (s *Store) Last() Slot {
	if s.pipe == nil {
		return 0
	}
	return Slot(s.pipe.last.Load())
}

// QueueStats says how the write path is doing.
func (s *Store) QueueStats() QueueStats {
	if s.pipe == nil {
		return QueueStats{}
	}
	return s.pipe.stats()
}

// QueueStats are figures of the write path since the store was opened.
type QueueStats struct {
	Last, Written, Durable, Applied Slot  // highest slot that reached each state
	PendingBytes                    int64 // encoded size of the ops that the database does not have yet
	Groups                          int64 // transactions
	Flushes, Syncs                  int64 // writes to and fdatasync rounds of the journal
	Segments                        int   // journal files
	Stalled                         error // why the database takes no changes at the moment (disk full, locked), or nil
	Stopped                         error // why nothing is acknowledged any more until the store is opened again, or nil
}

func errReadOnly(what string) error { return fmt.Errorf("%s: %w", what, ErrReadOnly) }
