package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"wsfs/blob"
)

// applier turns groups of ops into transactions. It is used by one goroutine at a time, and keeps its buffers between
// groups. Applying is generic: an Op carries the rows it leads to.
//
// A group is worked off in batches, which end at every op that moves a pointer or marks a point: what a fork is based on must be in the
// tables, every directory version included, before the fork's own rows are looked at.
type applier struct {
	s         *Store
	w         *writer
	timelines map[TimelineID]*timelineState
	// commands are those of the group, with the order in which they came.
	commands     map[commandTimeline]*commandSpan
	commandOrder []commandTimeline
	names        nameBatch
	versions     versionBatch
	changes      bulk
	items        bulk
	blobs        bulk
	// nextCheckpoint is the size of the database's log at which it is folded in.
	nextCheckpoint int64
	lastOp         int64 // id of the op being applied
	pend           []pendingChange
	stored         []storedChange // what earlier batches brought of temporaries
	deep           []TimelineID   // made in this group, with a chain that may be merged
}

// timelineState is what a group needs to know of a timeline, and what it does to it.
type timelineState struct {
	head    Seq
	gc      Seq
	stored  Seq // head before the group
	chain   []Segment
	changes int64
	pend    []int32 // its changes in the batch, in order; indices into applier.pend
}

// commandSpan is what a group adds to a command's row.
type commandSpan struct {
	before, end Seq
}

type commandTimeline struct {
	command  CommandID
	timeline TimelineID
}

func newApplier(s *Store) *applier {
	return &applier{
		s: s, w: s.w, nextCheckpoint: CheckpointBytes,
		timelines: make(map[TimelineID]*timelineState),
		commands:  make(map[commandTimeline]*commandSpan),
		names:     newNameBatch(&s.drv),
		versions:  newVersionBatch(&s.drv),
		changes: newInsert(&s.drv, `change (timeline_id, seq, op_id, kind, undoes_change, session_id, command_id, process_id, host, at,
			merged_timeline_id, merged_seq)`, `(?,?,?,?,0,?,?,?,NULL,?,?,?)`, ``),
		items: newInsert(&s.drv, `change_item (timeline_id, seq, n, op, ino, parent_ino, name, from_parent_ino, from_name)`,
			`(?,?,?,?,?,?,?,?,?)`, ``),
		blobs: newInsert(&s.drv, `blob (hash, size, encoding, data, pack, pack_offset, pack_length)`, `(?,?,?,?,?,?,?)`,
			` ON CONFLICT (hash) DO NOTHING`),
	}
}

// applyGroup commits g in one transaction: all of it or nothing. One goroutine calls it at a time. An error that wraps
// EBUSY or ENOSPC may be tried again with the same group.
func (s *Store) applyGroup(ctx context.Context, g *group) error {
	if s.a == nil {
		return ErrReadOnly
	}
	if err := s.w.tx(ctx, func(ctx context.Context) error { return s.a.apply(ctx, g) }); err != nil {
		return s.dbError(fmt.Sprintf("apply %d ops", len(g.ops)), err)
	}
	if slices.ContainsFunc(g.ops, func(op *Op) bool { return op.Amend || op.Elide != nil }) {
		s.amends.Add(1)
	}
	s.merge.add(s.a.deep)
	s.merge.keepUp(ctx)
	return s.a.maybeCheckpoint(ctx, g.behind)
}

func (a *applier) apply(ctx context.Context, g *group) error {
	a.reset() // an earlier group may have failed half way
	a.versions.settled = g.settled
	for i := range g.blobs {
		a.addBlob(&g.blobs[i])
		a.versions.place(&g.blobs[i])
	}
	for i, op := range g.ops {
		a.lastOp = opID(g, i)
		if err := a.add(ctx, op); err != nil {
			return fmt.Errorf("op of kind %d at seq %d of timeline %d: %w", op.Kind, op.Seq, op.Timeline, err)
		}
	}
	if err := a.flush(ctx); err != nil {
		return err
	}
	for id, t := range a.timelines {
		if t.changes == 0 && t.head == t.stored {
			continue
		}
		if _, err := a.w.exec(ctx, `UPDATE timeline SET head_seq = ?, change_count = change_count + ? WHERE id = ?`,
			int64(t.head), t.changes, int64(id)); err != nil {
			return err
		}
	}
	if err := a.writeCommands(ctx); err != nil {
		return err
	}
	if g.journalID == 0 {
		return nil
	}
	_, err := a.w.exec(ctx, `INSERT INTO journal (id, applied) VALUES (?, ?)
		ON CONFLICT (id) DO UPDATE SET applied = excluded.applied`, g.journalID, g.applied)
	return err
}

// opID is unique in the store and the same when the op is applied again from the journal: journal and place in it.
func opID(g *group, i int) int64 {
	pos := g.applied - int64(len(g.ops)) + 1 + int64(i)
	if g.journalID <= 0 || g.journalID >= 1<<31 || pos <= 0 || pos >= 1<<32 {
		return 0 // unknown
	}
	return g.journalID<<32 | pos
}

func (a *applier) reset() {
	clear(a.timelines)
	clear(a.commands)
	a.commandOrder, a.deep = a.commandOrder[:0], a.deep[:0]
	clear(a.pend)
	a.pend, a.stored = a.pend[:0], a.stored[:0]
	a.names.reset()
	a.versions.reset()
	a.changes.reset()
	a.items.reset()
	a.blobs.reset()
}

func (a *applier) add(ctx context.Context, op *Op) error {
	if err := a.attribution(ctx, op); err != nil {
		return err
	}
	if err := a.ended(ctx, op); err != nil {
		return err
	}
	if op.conflicting() {
		if err := a.conflicts(ctx, op); err != nil {
			return err
		}
	}
	if err := a.reviews(ctx, op); err != nil {
		return err
	}
	if op.Pointer != nil || len(op.Tags) > 0 || len(op.Pins) > 0 {
		if err := a.flush(ctx); err != nil {
			return err
		}
	}
	if op.Pointer != nil {
		if err := a.movePointer(ctx, op); err != nil {
			return err
		}
	}
	if err := a.marks(ctx, op); err != nil {
		return err
	}
	if op.Timeline == 0 {
		if len(op.Names)+len(op.Versions) > 0 {
			return fmt.Errorf("the op changes the tree but names no timeline: %w", syscall.EINVAL)
		}
		return nil
	}
	t, err := a.timeline(ctx, op.Timeline)
	if err != nil {
		return err
	}
	if op.Amend {
		a.versions.add(op)
		return nil
	}
	if op.Seq <= t.head {
		return fmt.Errorf("the head of the timeline is already at %d: %w", t.head, syscall.EINVAL)
	}
	a.span(op, t.head)
	t.head = op.Seq
	void := false
	if op.Elide != nil && len(op.Elide.Seqs) > 0 {
		void = op.Kind == OpUnlink
		op = a.elide(op, t)
	}
	t.pend = append(t.pend, int32(len(a.pend)))
	a.pend = append(a.pend, pendingChange{op, a.lastOp, void})
	if err := a.undone(ctx, op); err != nil {
		return err
	}
	a.names.add(op)
	a.versions.add(op)
	return nil
}

func (a *applier) flush(ctx context.Context) error {
	a.flushChanges()
	if err := a.names.flush(ctx, a); err != nil {
		return fmt.Errorf("names: %w", err)
	}
	if err := a.versions.flush(ctx, a.w); err != nil {
		return fmt.Errorf("versions: %w", err)
	}
	if err := a.changes.flush(ctx, a.w); err != nil {
		return err
	}
	if err := a.items.flush(ctx, a.w); err != nil {
		return err
	}
	if err := a.flushStored(ctx); err != nil {
		return fmt.Errorf("temporaries: %w", err)
	}
	return a.blobs.flush(ctx, a.w)
}

func (a *applier) timeline(ctx context.Context, id TimelineID) (*timelineState, error) {
	if t := a.timelines[id]; t != nil {
		return t, nil
	}
	row, err := timelineRow(ctx, a.w, id)
	if err != nil {
		return nil, err
	}
	t := &timelineState{head: row.Head, gc: row.GCSeq, stored: row.Head, chain: row.Chain}
	a.timelines[id] = t
	return t, nil
}

func (a *applier) addChange(op *Op, id int64) {
	session, command, process := op.Who.ids()
	merged, mergedSeq := op.Merged.ids()
	a.changes.add(int64(op.Timeline), int64(op.Seq), id, int64(op.Kind), session, command, process, op.At, merged, mergedSeq)
	for n := range op.Items {
		it := &op.Items[n]
		var from any
		if it.FromParent != 0 {
			from = []byte(it.FromName)
		}
		a.items.add(int64(op.Timeline), int64(op.Seq), int64(n), int64(it.Op), int64(it.Ino), int64(it.Parent),
			[]byte(it.Name), int64(it.FromParent), from)
	}
}

func (a *applier) addBlob(l *blob.Location) {
	var data any
	if l.Data != nil {
		data = l.Data
	}
	a.blobs.add(l.Ref[:], l.Size, int64(l.Encoding), data, int64(l.Pack), l.Offset, l.Length)
}

// journalApplied says for each journal how far it was applied.
func (s *Store) journalApplied(ctx context.Context) (map[int64]int64, error) {
	out := make(map[int64]int64)
	_, err := scanAll(ctx, s.r, 2, `SELECT id, applied FROM journal`, nil, func(c *cells) error {
		out[c.int(0)] = c.int(1)
		return nil
	})
	return out, s.dbError("read how far the journal is applied", err)
}

// Checkpoints run between groups, by the goroutine that applies, so that they never delay a commit of somebody else.
const (
	// CheckpointBytes of log are folded into the database at once. A driver keeps less than that of the log's file.
	CheckpointBytes = 64 << 20
	// Beyond checkpointForce readers have to be waited for: ours, of which there is always some one, end within checkpointWait. A reader of
	// somebody else's may stay for hours, and is asked again when the log has grown by CheckpointBytes.
	checkpointForce = 8 * CheckpointBytes
	checkpointWait  = 100 * time.Millisecond
	// patience is for checkpoints that must empty the log, if that can be had.
	patience = 10 * time.Second
)

// maybeCheckpoint folds the log in when it is long. While somebody waits for what is queued it may get twice as long first.
func (a *applier) maybeCheckpoint(ctx context.Context, behind func() bool) error {
	size := a.s.drv.LogSize(a.s.dir)
	if size < a.nextCheckpoint || size < a.nextCheckpoint+CheckpointBytes && behind != nil && behind() {
		return nil
	}
	wait := time.Duration(0)
	if size > checkpointForce {
		wait = checkpointWait
	}
	left, err := a.s.checkpoint(ctx, wait)
	a.nextCheckpoint = CheckpointBytes
	if left > 0 || err != nil { // readers, or no room: the log goes on growing from where it is
		a.nextCheckpoint += size
	}
	if errors.Is(err, syscall.ENOSPC) {
		// The group is committed, and the log has it: nothing is lost, and the next commit says so if it finds no room.
		a.s.o.Log.WarnContext(ctx, "no room to fold the database's log in", "store", a.s.dir, "bytes", size, "err", err)
		return nil
	}
	return err
}

// checkpoint folds the database's log into it, and waits for readers as Driver.Checkpoint does. That it could not go on because somebody
// reads is no error.
func (s *Store) checkpoint(ctx context.Context, wait time.Duration) (left int64, err error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.at("checkpoint")
	defer s.at("checkpointed")
	left, err = s.drv.Checkpoint(context.WithoutCancel(ctx), s.w.conn, wait)
	if err != nil && s.drv.Classify(err) == ClassBusy {
		return s.drv.LogSize(s.dir), nil
	}
	return left, s.dbError("checkpoint", err)
}
