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
		ops := p.collect()
		if len(ops) == 0 || !p.commit(ops) {
			break
		}
	}
	// Ops that nobody waited for are acknowledged to nobody, but keeping them costs one write.
	_ = p.j.flush(p.last.Load()) // it fails only where the breaker has tripped already
}

// syncEvery is how much a power cut takes of what nobody synced, in time.
const syncEvery = 40 * time.Millisecond

// syncOften syncs the journal while there are changes that the database does not have, so that a power cut takes no more
// than the last moment however long the applier waits for more of them.
func (p *pipeline) syncOften() {
	defer p.syncs.Done()
	tick := time.NewTicker(p.o.syncEvery)
	defer tick.Stop()
	for {
		tick.Stop()
		select {
		case <-p.dirty:
		case <-p.done:
			return
		}
		for tick.Reset(p.o.syncEvery); p.applied.Load() < p.last.Load(); {
			select {
			case <-tick.C:
			case <-p.done:
				return
			}
			if p.j.sync(p.last.Load(), p.syncPacks) != nil { // the breaker has tripped
				return
			}
		}
	}
}

// collect returns the next group: at once if it is full, somebody waits or the store closes, else when no more ops come for
// groupDelay, at the latest after groupAge. Programs that make many changes would only lose processor time to an applier
// that works beside them, and many ops together cost less: pages of the database are written once, and what came and
// went leaves nothing. It returns nothing at the end.
func (p *pipeline) collect() []queued {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 {
		if p.closing || p.brk.err() != nil {
			return nil
		}
		p.idle = true
		p.mu.Unlock()
		var look <-chan time.Time
		switch {
		case p.tight:
			look = time.After(p.o.retry)
		case p.restless && p.o.rest > 0:
			look = time.After(p.o.rest)
		}
		select {
		case <-p.wake:
		case <-p.brk.tripped:
		case <-look:
			if p.loosen(context.Background()); !p.tight {
				p.rest(context.Background())
			}
		}
		p.mu.Lock()
		p.idle = false
	}
	p.linger()
	if p.brk.err() != nil {
		return nil
	}
	bytes, n := p.o.groupBytes, p.o.groupMost
	if p.tight {
		bytes, n = min(bytes, tightBytes), p.tightOps
	}
	todo := p.queue[:min(len(p.queue), n)]
	return append([]queued(nil), todo[:fitting(todo, bytes)]...)
}

// rest makes the store small once nothing comes any more: what the database's log has twice, and segments that were there for a
// stream of changes. What fails is tried again after the next changes.
func (p *pipeline) rest(ctx context.Context) {
	p.restless = false
	if err := p.be.rest(ctx); err != nil {
		p.o.log.Warn("could not fold the database's log in", "err", err)
	}
	p.j.trim()
}

// linger waits for the group to become complete. mu is held, and released meanwhile.
func (p *pipeline) linger() {
	end := time.Now().Add(p.o.groupAge)
	tick := time.NewTicker(p.o.groupDelay)
	defer tick.Stop()
	for seen := len(p.queue); ; {
		if len(p.queue) >= p.o.groupOps || p.pending.Load() >= p.o.groupBytes || p.waiters > 0 || p.closing || p.brk.err() != nil {
			return
		}
		p.mu.Unlock()
		ticked := false
		select {
		case <-p.wake:
		case <-tick.C:
			ticked = true
		case <-p.brk.tripped:
		}
		p.mu.Lock()
		if ticked && (len(p.queue) == seen || !time.Now().Before(end)) {
			return
		}
		if ticked {
			seen = len(p.queue)
		}
	}
}

// fitting is how many of the first ops have most bytes together, and at least 1.
func fitting(ops []queued, most int64) int {
	n, size := 0, int64(0)
	for n < len(ops) && (n == 0 || size+ops[n].size <= most) {
		size += ops[n].size
		n++
	}
	return n
}

// tightBytes is the size of a group on a full disk. Contents take their room before the commit that names them can free
// a segment of the journal: in large steps they would take what the commit itself needs.
const tightBytes = 256 << 10

// commit puts ops, the head of the queue, into the database and reports whether the applier may go on. It tries again as
// long as the failure may pass, on a full disk with fewer ops.
func (p *pipeline) commit(todo []queued) bool {
	ctx := context.Background()
	pause := 10 * time.Millisecond
	for tries := 1; ; tries++ {
		ops, staged := unpack(todo)
		last := p.applied.Load() + int64(len(ops))
		err := p.applyOnce(ctx, ops, worthSettling(ops), last)
		if p.brk.err() != nil {
			return false
		}
		if err == nil || transient(err) && p.has(ctx, last) { // it may also have failed after the commit
			p.committed(last, staged)
			return p.retire(ctx) && p.loosen(ctx)
		}
		err = fmt.Errorf("apply changes %d to %d: %w", last-int64(len(ops))+1, last, err)
		if !transient(err) {
			_ = p.brk.trip(err)
			return false
		}
		if isFull(err) {
			if n := fitting(todo, tightBytes); n < len(todo) {
				todo = todo[:n]
			} else {
				todo = todo[:(len(todo)+1)/2]
			}
			p.tightOps = len(todo)
		}
		if !p.stall(ctx, err, pause, tries) {
			return false
		}
		pause = min(2*pause, p.o.retry)
	}
}

func unpack(todo []queued) (ops []*Op, staged []blob.Staged) {
	ops = make([]*Op, len(todo))
	for i, q := range todo {
		ops[i] = q.op
		staged = append(staged, q.op.Contents...)
	}
	return ops, staged
}

// has reports whether the database has the op at slot.
func (p *pipeline) has(ctx context.Context, slot int64) bool {
	applied, err := p.be.journalApplied(ctx)
	return err == nil && applied[p.j.head.journal] >= slot
}

// committed takes the ops up to slot last off the queue.
func (p *pipeline) committed(last int64, staged []blob.Staged) {
	p.cs.Applied(staged)
	p.groups.Add(1)
	p.restless = true
	p.mu.Lock()
	defer p.mu.Unlock()
	n := last - p.applied.Load()
	for _, q := range p.queue[:n] {
		p.pending.Add(-q.held)
		p.waiting.Add(-q.size)
	}
	clear(p.queue[:n])
	p.queue = p.queue[n:]
	if p.stalled != nil && !p.tight {
		p.o.log.Info("the database takes changes again", "slot", last)
		p.stalled = nil
	}
	p.applied.Store(last)
	close(p.turn)
	p.turn = make(chan struct{})
}

// loosen ends the time of a full disk when the journal can have a reserve again: until then what wants more room is
// refused, and groups stay small. It always returns true.
func (p *pipeline) loosen(ctx context.Context) bool {
	if !p.tight {
		return true
	}
	if !p.j.relax() {
		_ = p.be.compact(ctx) // it helps or it does not
		return true
	}
	p.tight = false
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		p.o.log.Info("there is room on the disk again")
		p.stalled = nil
		close(p.turn)
		p.turn = make(chan struct{})
	}
	return true
}

// applyOnce is one attempt: contents first, then the journal, then the rows that name both, so that whatever of the
// database a power cut leaves, what it names is there.
func (p *pipeline) applyOnce(ctx context.Context, ops []*Op, staged []blob.Staged, last int64) error {
	if err := p.j.flush(last); err != nil {
		return err
	}
	p.o.at("apply")
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
	g := &group{ops: ops, blobs: locs, settled: settled(p.cs, staged), journalID: p.j.head.journal, applied: last, behind: p.behind}
	err = p.be.applyGroup(ctx, g)
	if err == nil {
		p.o.at("committed")
	}
	return err
}

// settled is what the provisional contents of staged are in truth, after they were settled.
func settled(cs contents, staged []blob.Staged) map[blob.Ref]blob.Ref {
	var out map[blob.Ref]blob.Ref
	for i := range staged {
		if !staged[i].Patch {
			continue
		}
		if c, ok := cs.Settled(staged[i].Content); ok {
			if out == nil {
				out = make(map[blob.Ref]blob.Ref)
			}
			out[staged[i].Content.Ref] = c.Ref
		}
	}
	return out
}

// closingTries is how often a group is tried while the store closes: what is in the way may be the store's own work in
// the background.
const closingTries = 5

// stall waits before another attempt and reports whether there shall be one: a store that closes gives up soon. Space
// that the journal holds in reserve is given up first: what was acknowledged goes before what may come.
func (p *pipeline) stall(ctx context.Context, err error, pause time.Duration, tries int) bool {
	if isFull(err) {
		p.tight = true
		freed := p.j.giveBack()
		_ = p.be.compact(ctx) // it helps or it does not
		if freed {
			p.o.log.Warn("disk full: gave up the journal's reserve", "err", err)
			return true
		}
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
