package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// idKind is one kind of number that a store hands out.
type idKind int

const (
	idIno idKind = iota
	idVersion
	idSession
	idProcess
	idCommand
	idTimeline
	idWorkspace
	idConflict
	idKinds
)

// counterNames are the rows of table counter, by kind.
func counterNames() []string {
	return []string{"ino", "version", "session", "process", "command", "timeline", "workspace", "conflict"}
}

func (k idKind) counterName() string { return counterNames()[k] }

// first is the first number of a fresh store.
func (k idKind) first() int64 {
	if k == idIno {
		return int64(RootIno) + 1
	}
	return 1
}

// limit is the first number that is too large.
func (k idKind) limit() int64 {
	if k == idIno {
		return 1 << 40 // see Ino
	}
	return 1 << 62
}

// idBlock is how many numbers are reserved at once.
const idBlock = 1 << 18

// counters is where blocks come from.
type counters interface {
	// reserveIDs durably adds n to each of the counters and returns their values before that: 1 where there was none.
	reserveIDs(ctx context.Context, names []string, n int64) ([]int64, error)
	// returnIDs sets counters back to next: nothing from there on was used.
	returnIDs(ctx context.Context, names []string, next []int64) error
}

// idAlloc hands out the store's numbers from durably reserved blocks, so that a number taken costs an addition and no
// number is ever given twice, whatever happens in between. When half a block is left the next one is reserved in the
// background.
type idAlloc struct {
	from  counters
	log   *slog.Logger
	brk   *breaker
	kinds [idKinds]struct {
		next, limit atomic.Int64
		mu          sync.Mutex // held to reserve
	}
	refills sync.WaitGroup
	closed  atomic.Bool
}

// open reserves the first block of every kind.
func (a *idAlloc) open(ctx context.Context, from counters, brk *breaker, log *slog.Logger) error {
	a.from, a.brk, a.log = from, brk, log
	starts, err := from.reserveIDs(ctx, counterNames(), idBlock)
	if err != nil {
		return fmt.Errorf("reserve ids: %w", err)
	}
	for k, start := range starts {
		if start < 1 || start > idKind(k).limit()-idBlock {
			return fmt.Errorf("reserve ids: counter %q stands at %d: %w", idKind(k).counterName(), start, ErrCorrupt)
		}
		a.kinds[k].next.Store(max(start, idKind(k).first()))
		a.kinds[k].limit.Store(start + idBlock)
	}
	return nil
}

// close gives back what was not used. clean: everything that used a number is in the database.
func (a *idAlloc) close(ctx context.Context, clean bool) error {
	if a.from == nil || a.closed.Swap(true) {
		return nil
	}
	a.refills.Wait()
	if !clean {
		return nil
	}
	next := make([]int64, idKinds)
	for k := range next {
		next[k] = a.kinds[k].next.Load()
		if next[k] > a.kinds[k].limit.Load() {
			return nil // a reservation has failed: leave the counters as they are
		}
	}
	return a.from.returnIDs(ctx, counterNames(), next)
}

func (a *idAlloc) take(k idKind) int64 {
	c := &a.kinds[k]
	n := c.next.Add(1) - 1
	left := c.limit.Load() - n
	if left > idBlock/2 {
		return n
	}
	if left <= 0 {
		return a.takeSlowly(k, n)
	}
	// At half a block, and now and then after that should it have failed.
	if left%(idBlock/16) == 0 && !a.closed.Load() {
		a.refills.Go(func() {
			if err := a.refill(k, n+idBlock/2); err != nil {
				a.log.Warn("could not reserve ids ahead; trying again before they are used up", "kind", k.counterName(), "err", err)
			}
		})
	}
	return n
}

// takeSlowly waits for the block that n is in.
func (a *idAlloc) takeSlowly(k idKind, n int64) int64 {
	if a.from == nil {
		return 0
	}
	if err := a.refill(k, n+1); err != nil {
		_ = a.brk.trip(fmt.Errorf("reserve ids of kind %q: %w", k.counterName(), err)) // Append reports it
		return 0
	}
	return n
}

// refill reserves blocks until the kind's limit is at least least.
func (a *idAlloc) refill(k idKind, least int64) error {
	c := &a.kinds[k]
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.limit.Load() < least {
		if c.limit.Load() > k.limit()-idBlock {
			return errors.New("all numbers are used up")
		}
		start, err := a.from.reserveIDs(context.Background(), []string{k.counterName()}, idBlock)
		if err != nil {
			return err
		}
		if start[0] != c.limit.Load() {
			return fmt.Errorf("counter stands at %d, %d was left there: %w", start[0], c.limit.Load(), ErrCorrupt)
		}
		c.limit.Store(start[0] + idBlock)
	}
	return nil
}

// NewIno returns an inode number that was never used in this store. Like its sisters it costs no I/O; it returns 0 on a
// store that is read-only or has stopped, where Append says why.
func (s *Store) NewIno() Ino { return Ino(s.ids.take(idIno)) }

// NewVersionID returns a version id that was never used in this store.
func (s *Store) NewVersionID() VersionID { return VersionID(s.ids.take(idVersion)) }

// NewSessionID returns a session id that was never used in this store.
func (s *Store) NewSessionID() SessionID { return SessionID(s.ids.take(idSession)) }

// NewProcessID returns a process id (not a pid) that was never used in this store.
func (s *Store) NewProcessID() ProcessID { return ProcessID(s.ids.take(idProcess)) }

// NewCommandID returns a command id that was never used in this store.
func (s *Store) NewCommandID() CommandID { return CommandID(s.ids.take(idCommand)) }

// NewTimelineID returns a timeline id that was never used in this store.
func (s *Store) NewTimelineID() TimelineID { return TimelineID(s.ids.take(idTimeline)) }

// NewWorkspaceID returns a workspace id that was never used in this store.
func (s *Store) NewWorkspaceID() WorkspaceID { return WorkspaceID(s.ids.take(idWorkspace)) }
