package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"wsfs/blob"
)

// backend is what the write path needs of the database. *Store is the real one; tests use a fake.
type backend interface {
	// applyGroup commits all ops of g, their blobs and journal(g.journalID, g.applied) in one transaction. It is
	// called by one goroutine at a time. An error that wraps ENOSPC, EDQUOT or EBUSY means that nothing was committed
	// and trying the same group again makes sense; any other error stops the store.
	applyGroup(ctx context.Context, g *group) error
	// journalApplied returns the rows of table journal: the last position applied of each journal.
	journalApplied(ctx context.Context) (map[int64]int64, error)
	// commitDurably returns when everything committed so far survives a power cut.
	commitDurably(ctx context.Context) error
	// compact makes the database as small on the disk as it can be made quickly: a checkpoint that empties its log.
	compact(ctx context.Context) error
	// rest folds the database's log in and gives its room back, as far as nobody reads: it waits for nobody.
	rest(ctx context.Context) error
}

// contents is what the write path needs of package blob.
type contents interface {
	Settle(ctx context.Context, items []blob.Staged) ([]blob.Location, error)
	Settled(c blob.Content) (blob.Content, bool)
	Applied(items []blob.Staged)
	Restage(st blob.Staged)
	Verify(ctx context.Context, loc blob.Location) error
	Sync() error
}

// ErrClosed is what a call on a closed store returns. It wraps EIO.
var ErrClosed = fmt.Errorf("the store is closed: %w", syscall.EIO)

// pipelineOptions are those of Options that matter here, defaults filled in.
type pipelineOptions struct {
	log        *slog.Logger
	groupOps   int           // the applier waits for that many
	groupMost  int           // and takes that many at once, if they are there
	groupDelay time.Duration // a group begins when none came for so long
	groupAge   time.Duration // or the first op of the group is so old
	syncEvery  time.Duration // 0: no syncs but those that somebody waits for, and those of groups
	groupBytes int64         // of one group at most, unless one op is larger
	maxPending int64
	segment    int64
	rest       time.Duration // nothing has come for so long: time to fold the database's log in; 0: never
	retry      time.Duration // the longest pause between attempts to apply a group that met a full disk
	// at is called at named points of the applier; crash tests stop the process there.
	at func(point string)
}

func (o *pipelineOptions) fill() {
	if o.log == nil {
		o.log = slog.New(slog.DiscardHandler)
	}
	if o.groupOps <= 0 {
		o.groupOps, o.groupMost = 8192, 8192
	}
	o.groupMost = max(o.groupMost, o.groupOps)
	if o.groupDelay <= 0 {
		o.groupDelay = 20 * time.Millisecond
	}
	if o.groupAge <= 0 {
		o.groupAge = 50 * o.groupDelay
	}
	if o.groupBytes <= 0 {
		o.groupBytes = 32 << 20
	}
	if o.maxPending <= 0 {
		o.maxPending = 128 << 20
	}
	if o.segment <= 0 {
		o.segment = 16 << 20
	}
	if o.retry <= 0 {
		o.retry = time.Second
	}
	if o.at == nil {
		o.at = func(string) {}
	}
}

// pipeline is the write path. An op goes through it like this:
//
//	append   encoded into the journal's buffer, put into the queue     (caller, under mu)
//	wait     in the page cache, one pwrite for all who wait            (caller)
//	sync     on the disk, one fdatasync for all who wait               (caller)
//	apply    contents settled and synced, journal synced, committed    (the applier's goroutine, in groups)
//
// The applier is also what writes the journal for ops that nobody waits for. Locks: mu, then those of journal.
type pipeline struct {
	be  backend
	cs  contents
	o   pipelineOptions
	j   *journal
	brk *breaker

	last    atomic.Int64 // slot of the last op appended
	applied atomic.Int64 // highest slot in the database
	pending atomic.Int64 // bytes of memory between the two
	waiting atomic.Int64 // and of the journal: about what they take in the database and packs
	packed  atomic.Int64 // highest slot of an op with content in packs: what its sync must flush as well
	groups  atomic.Int64

	mu      sync.Mutex
	queue   []queued      // what the database does not have yet, in order
	rows    emitted       // attribution rows in this journal
	idle    bool          // the applier waits for the first op
	waiters int           // callers in apply: the applier does not wait for more ops
	seen    int64         // up to here somebody has asked for everything to be in the database, to read it
	turn    chan struct{} // closed and made anew whenever applied or stalled changes
	stalled error         // why the applier cannot go on at the moment
	closing bool

	tight    bool // the disk is full or nearly so; the applier's
	tightOps int  // ops of a group while tight; the applier's
	restless bool // something was committed since the last rest; the applier's

	wake  chan struct{} // capacity 1: look at the queue
	dirty chan struct{} // capacity 1: the journal has something to sync
	done  chan struct{} // closed when the applier has ended
	syncs sync.WaitGroup
}

// queued is one op that waits for the database.
type queued struct {
	op   *Op
	size int64 // in the journal
	held int64 // in memory, about
}

// held is about how much memory an op takes whose record has size bytes. That is what bounds a queue: of small ops the
// record is a sixth of it.
func (op *Op) held(size int64) int64 {
	return size + int64(unsafe.Sizeof(*op)) + int64(cap(op.Names))*int64(unsafe.Sizeof(Name{})) +
		int64(cap(op.Versions))*int64(unsafe.Sizeof(Version{})) + int64(cap(op.Items))*int64(unsafe.Sizeof(Item{})) +
		int64(cap(op.Contents))*int64(unsafe.Sizeof(blob.Staged{}))
}

// openPipeline replays the journals in dir and starts the write path with a new one.
func openPipeline(ctx context.Context, dir string, be backend, cs contents, brk *breaker, o pipelineOptions) (*pipeline, error) {
	o.fill()
	id, num, err := replay(ctx, dir, be, cs, &o)
	if err != nil {
		return nil, err
	}
	p := &pipeline{
		be: be, cs: cs, o: o, j: newJournal(dir, id, num, o.segment, brk), brk: brk,
		turn: make(chan struct{}), wake: make(chan struct{}, 1), dirty: make(chan struct{}, 1), done: make(chan struct{}),
	}
	p.j.at = o.at
	p.j.prepareAhead()
	go p.run()
	if o.syncEvery > 0 {
		p.syncs.Add(1)
		go p.syncOften()
	}
	return p, nil
}

func (p *pipeline) append(op *Op) (Slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.brk.err(); err != nil {
		return 0, err
	}
	if p.closing {
		return 0, fmt.Errorf("append a change: %w", ErrClosed)
	}
	// While the database finds no room, what it would need more room for is refused here, where the caller can still
	// say so; what only moves or removes names may use up the journal's reserve.
	if p.stalled != nil && len(op.Contents) > 0 && isFull(p.stalled) {
		return 0, fmt.Errorf("append a change with content: %w", p.stalled)
	}
	for i := range op.Contents {
		if len(op.Contents[i].Packed) > 0 {
			p.packed.Store(p.last.Load() + 1) // before a round of sync can see the op
			break
		}
	}
	if op.Elide != nil && (int64(op.Elide.Slot) <= p.seen || len(op.Elide.Seqs) == 0) {
		op.Elide = nil
	}
	fresh := p.rows.missing(op.Who)
	pos, size, err := p.j.append(op, fresh)
	if err != nil {
		return 0, fmt.Errorf("append a change: %w", err)
	}
	p.rows.note(op.Who, fresh)
	op.fresh = fresh
	held := op.held(size)
	p.queue = append(p.queue, queued{op, size, held})
	p.last.Store(pos)
	p.pending.Add(held)
	p.waiting.Add(size)
	if p.idle || len(p.queue) == p.o.groupOps {
		p.nudge()
	}
	if len(p.queue) == 1 {
		select {
		case p.dirty <- struct{}{}:
		default:
		}
	}
	return Slot(pos), nil
}

// behind reports whether somebody waits for the applier, or more than one group does. Its own group still counts.
func (p *pipeline) behind() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiters > 0 || len(p.queue) > p.o.groupMost
}

// nudge makes the applier look at the queue.
func (p *pipeline) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pipeline) check(slot Slot, what string) error {
	if int64(slot) > p.last.Load() {
		return fmt.Errorf("%s for slot %d: the last one is %d: %w", what, slot, p.last.Load(), syscall.EINVAL)
	}
	return nil
}

func (p *pipeline) wait(slot Slot) error {
	if err := p.check(slot, "wait"); err != nil {
		return err
	}
	if err := p.j.flush(int64(slot)); err != nil {
		return err
	}
	if p.pending.Load() > p.o.maxPending {
		return p.brake(slot)
	}
	return nil
}

// brake returns when the queue is short again. An op that waits for room in the database does not count: it is safe in
// the journal, and append takes no more of its kind.
func (p *pipeline) brake(slot Slot) error {
	for {
		p.mu.Lock()
		turn, stalled := p.turn, p.stalled
		p.mu.Unlock()
		if p.applied.Load() >= int64(slot) || p.pending.Load() <= p.o.maxPending || isFull(stalled) {
			return p.brk.err()
		}
		select {
		case <-turn:
		case <-p.done:
			return p.ended(slot)
		}
	}
}

// ended is the error of a wait for slot that the applier will not fulfil any more, or nil if it has.
func (p *pipeline) ended(slot Slot) error {
	if err := p.brk.err(); err != nil {
		return err
	}
	if p.applied.Load() >= int64(slot) {
		return nil
	}
	return ErrClosed
}

func (p *pipeline) sync(slot Slot) error {
	if err := p.check(slot, "sync"); err != nil {
		return err
	}
	return p.j.sync(int64(slot), p.syncPacks)
}

// syncPacks makes durable what the ops that are not durable yet name in packs. That is little: small contents ride in the
// journal, and where the applier puts them is of no concern before its commit.
func (p *pipeline) syncPacks() error {
	if p.packed.Load() <= p.j.durable.Load() {
		return nil
	}
	return p.cs.Sync()
}

func (p *pipeline) apply(ctx context.Context, slot Slot) error {
	if err := p.check(slot, "apply"); err != nil {
		return err
	}
	p.mu.Lock()
	p.seen = max(p.seen, int64(slot))
	if p.applied.Load() >= int64(slot) {
		p.mu.Unlock()
		return nil
	}
	p.waiters++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.waiters--
		p.mu.Unlock()
	}()
	p.nudge()
	for {
		p.mu.Lock()
		turn, stalled := p.turn, p.stalled
		p.mu.Unlock()
		if p.applied.Load() >= int64(slot) {
			return nil
		}
		if isFull(stalled) {
			return fmt.Errorf("apply %d changes to the database: %w", int64(slot)-p.applied.Load(), stalled)
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return fmt.Errorf("wait for the database: %w", ctx.Err())
		case <-p.done:
			return p.ended(slot)
		}
	}
}

// stop applies what is queued and ends the applier. With an error from here the journal must be kept.
func (p *pipeline) stop() error {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.nudge()
	<-p.done
	p.syncs.Wait()
	if err := p.brk.err(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) > 0 {
		return fmt.Errorf("%d changes stay in the journal for the next start: %w", len(p.queue), p.stalled)
	}
	return nil
}

// close releases the journal after stop. applied: everything is in the database, so that the files can go.
func (p *pipeline) close(ctx context.Context, applied bool) error {
	var err error
	if applied {
		err = p.be.commitDurably(ctx)
	}
	return errors.Join(err, p.j.close(applied && err == nil))
}

func (p *pipeline) stats() QueueStats {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	return QueueStats{
		Last: Slot(p.last.Load()), Written: Slot(p.j.written.Load()),
		Durable: Slot(p.j.durable.Load()), Applied: Slot(p.applied.Load()),
		PendingBytes: p.pending.Load(), Groups: p.groups.Load(),
		Flushes: p.j.flushes.Load(), Syncs: p.j.syncs.Load(), Segments: p.j.segments(), Stalled: stalled, Stopped: p.brk.err(),
	}
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
