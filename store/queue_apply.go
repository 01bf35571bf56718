package store

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"wsfs/blob"
)

// run is the applier. A panic in it ends the process: with the applier gone nothing would ever be applied again, and
// what was acknowledged is in the journal.
func (p *pipeline) run() {
	defer close(p.done)
	for {
		ops, size := p.collect()
		if len(ops) == 0 || !p.commit(ops, size) {
			break
		}
	}
	// Ops that nobody waited for are acknowledged to nobody, but keeping them costs one write.
	_ = p.j.flush(p.last.Load()) // it fails only where the breaker has tripped already
}

// collect returns the next group and its size in bytes: at once if it is full, somebody waits or the store closes, else
// after groupDelay. It returns nothing at the end.
func (p *pipeline) collect() ([]*Op, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 {
		if p.closing || p.brk.err() != nil {
			return nil, 0
		}
		p.idle = true
		p.mu.Unlock()
		select {
		case <-p.wake:
		case <-p.brk.tripped:
		}
		p.mu.Lock()
		p.idle = false
	}
	if end := time.Now().Add(p.o.groupDelay); len(p.queue) < p.o.groupOps {
		timer := time.NewTimer(p.o.groupDelay)
		for len(p.queue) < p.o.groupOps && p.waiters == 0 && !p.closing && time.Now().Before(end) {
			p.mu.Unlock()
			select {
			case <-p.wake:
			case <-timer.C:
			case <-p.brk.tripped:
			}
			p.mu.Lock()
			if p.brk.err() != nil {
				break
			}
		}
		timer.Stop()
	}
	if p.brk.err() != nil {
		return nil, 0
	}
	ops := make([]*Op, 0, min(len(p.queue), p.o.groupOps))
	var size int64
	for _, q := range p.queue {
		if len(ops) == p.o.groupOps || len(ops) > 0 && size+q.size > p.o.groupBytes {
			break
		}
		ops = append(ops, q.op)
		size += q.size
	}
	return ops, size
}

// commit puts ops, the head of the queue, into the database and reports whether the applier may go on. It tries again
// as long as the failure may pass.
func (p *pipeline) commit(ops []*Op, size int64) bool {
	ctx := context.Background()
	last := p.applied.Load() + int64(len(ops))
	var staged []blob.Staged
	for _, op := range ops {
		staged = append(staged, op.Contents...)
	}
	pause := 10 * time.Millisecond
	for tries := 1; ; tries++ {
		err := p.applyOnce(ctx, ops, staged, last)
		if err == nil {
			break
		}
		if p.brk.err() != nil {
			return false
		}
		err = fmt.Errorf("apply changes %d to %d: %w", last-int64(len(ops))+1, last, err)
		if !transient(err) {
			_ = p.brk.trip(err)
			return false
		}
		if !p.stall(err, pause, tries) {
			return false
		}
		// A failure may also have come after the commit.
		if applied, err := p.be.journalApplied(ctx); err == nil && applied[p.j.head.journal] >= last {
			break
		}
		pause = min(2*pause, p.o.retry)
	}
	p.cs.Applied(staged)
	p.groups.Add(1)
	p.mu.Lock()
	clear(p.queue[:len(ops)])
	p.queue = p.queue[len(ops):]
	if p.stalled != nil {
		p.o.log.Info("the database takes changes again", "slot", last)
		p.stalled = nil
	}
	p.pending.Add(-size)
	p.applied.Store(last)
	close(p.turn)
	p.turn = make(chan struct{})
	p.mu.Unlock()
	return p.retire(ctx)
}

// applyOnce is one attempt: contents first, then the journal, then the rows that name both, so that whatever of the
// database a power cut leaves, what it names is there.
func (p *pipeline) applyOnce(ctx context.Context, ops []*Op, staged []blob.Staged, last int64) error {
	if err := p.j.flush(last); err != nil {
		return err
	}
	locs, err := p.cs.Settle(ctx, staged)
	if err != nil {
		return err
	}
	p.o.at("settled")
	if err := p.cs.Sync(); err != nil {
		return p.brk.trip(err)
	}
	if err := p.j.sync(last, p.syncPacks); err != nil {
		return err
	}
	p.o.at("synced")
	err = p.be.applyGroup(ctx, &group{ops: ops, blobs: locs, journalID: p.j.head.journal, applied: last})
	if err == nil {
		p.o.at("committed")
	}
	return err
}

// closingTries is how often a group is tried while the store closes: what is in the way may be the store's own work in
// the background.
const closingTries = 5

// stall waits before another attempt and reports whether there shall be one: a store that closes gives up soon. Space that the journal holds in reserve is
// given up first: what was acknowledged goes before what may come.
func (p *pipeline) stall(err error, pause time.Duration, tries int) bool {
	if isFull(err) && p.j.giveBack() {
		p.o.log.Warn("disk full: gave up the journal's reserve", "err", err)
		return true
	}
	p.mu.Lock()
	if p.stalled == nil {
		p.o.log.Error("the database takes no changes; they stay in the journal, trying again", "err", err)
	}
	p.stalled = err
	closing := p.closing
	close(p.turn)
	p.turn = make(chan struct{})
	p.mu.Unlock()
	if closing && tries >= closingTries {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.brk.tripped:
		return false
	}
}

// retire deletes the segments that the database has made unneeded. A segment may go only when the commit that covers it
// would survive a power cut.
func (p *pipeline) retire(ctx context.Context) bool {
	applied := p.applied.Load()
	if !p.j.covered(applied) {
		return true
	}
	if err := p.be.commitDurably(ctx); err != nil {
		if transient(err) {
			p.o.log.Warn("could not sync the database; keeping the journal until it works", "err", err)
			return true
		}
		_ = p.brk.trip(fmt.Errorf("sync the database: %w", err))
		return false
	}
	p.o.at("durable")
	if err := p.j.drop(applied); err != nil {
		// A segment too many is read again at the next start and found to be applied.
		p.o.log.Warn("could not delete a journal segment that is no longer needed", "err", err)
	}
	return true
}

func transient(err error) bool {
	return isFull(err) || errors.Is(err, syscall.EBUSY)
}
