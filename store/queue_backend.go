package store

import (
	"context"
	"errors"
	"time"
)

// startJournal replays what earlier starts left in the journal, then starts a new journal and the applier. Open calls
// it last, with the lock held, the schema migrated and the blob store open. On failure nothing runs.
func (s *Store) startJournal(ctx context.Context) error {
	o := pipelineOptions{
		log: s.o.Log, groupOps: s.o.GroupOps, groupDelay: s.o.GroupDelay, maxPending: s.o.MaxPending,
		segment: s.o.SegmentBytes, at: s.o.crashPoint, syncEvery: syncEvery, rest: restAfter,
	}
	o.fill()
	brk := newBreaker(func(err error) {
		o.log.Error("the store stops: nothing is acknowledged any more", "store", s.dir, "err", err)
	})
	if err := s.ids.open(ctx, s, brk, o.log); err != nil {
		return err
	}
	p, err := openPipeline(ctx, journalDir(s.dir), s, s.blobs, brk, o)
	if err != nil {
		_ = s.ids.close(context.WithoutCancel(ctx), true) // none was used; it wastes a block if that fails
		return err
	}
	s.pipe = p
	return nil
}

// stopJournal applies everything queued, makes it durable, deletes the journal and stops. Close calls it first, once.
// It returns the error that stopped the store earlier, or that keeps the last changes in the journal.
func (s *Store) stopJournal() error {
	if s.pipe == nil {
		return nil
	}
	ctx := context.Background()
	err := s.pipe.stop()
	return errors.Join(err, s.ids.close(ctx, err == nil), s.pipe.close(ctx, err == nil))
}

// compact empties the database's log.
func (s *Store) compact(ctx context.Context) error {
	_, err := s.checkpoint(ctx, checkpointWait)
	return err
}

const (
	// restAfter is how long nothing has come when the applier rests.
	restAfter = time.Second
	// restBytes of the database's log are worth it: saving a file now and then is not.
	restBytes = 1 << 20
)

// rest folds the database's log in. It takes no time of anybody's: what is appended meanwhile is acknowledged by the journal.
func (s *Store) rest(ctx context.Context) error {
	if s.drv.LogSize(s.dir) < restBytes {
		return nil
	}
	left, err := s.checkpoint(ctx, 0)
	if left > 0 || err != nil {
		return err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.dbError("empty the database's log", s.drv.EmptyLog(context.WithoutCancel(ctx), s.w.conn))
}

var (
	_ backend  = (*Store)(nil)
	_ counters = (*Store)(nil)
)
