package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"wsfs/blob"
)

// replayer brings what earlier starts left in the journal into the database, exactly once: the database knows the
// position it has of each journal, and moves it in the transaction that applies the ops.
type replayer struct {
	dir     string
	be      backend
	cs      contents
	o       *pipelineOptions
	applied map[int64]int64
	place   place

	group group
	size  int64
	spent []spentSegment
	// reserve are spare segments. They go when the disk is full: contents that were settled may have taken all the room
	// that the commit needs.
	reserve []string
	tight   bool            // the disk is full or nearly so: small groups, see tightBytes
	step    int             // the most ops that were not too many
	cut     map[string]bool // segments to keep because readable records were cut off
}

// replay applies all journals in dir and deletes them. It returns the id and the segment number for the next journal.
func replay(ctx context.Context, dir string, be backend, cs contents, o *pipelineOptions) (id, num int64, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, 0, fmt.Errorf("make the journal's directory: %w", err)
	}
	r := &replayer{dir: dir, be: be, cs: cs, o: o, place: here(dir), cut: make(map[string]bool)}
	if r.applied, err = be.journalApplied(ctx); err != nil {
		return 0, 0, fmt.Errorf("read how far the journal was applied: %w", err)
	}
	used, unused, top, err := listSegments(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, sf := range unused {
		r.reserve = append(r.reserve, sf.path)
	}
	r.step = o.groupOps
	r.tight = r.nearlyFull(used)
	if len(used) > 0 && len(unused) == 0 {
		top++
		if seg, err := createSegment(dir, top, o.segment); err == nil { // else it has to go without
			_ = seg.f.Close()
			r.reserve = append(r.reserve, seg.path)
		}
	}
	for j := range r.applied {
		id = max(id, j)
	}
	for len(used) > 0 {
		n := 1
		for n < len(used) && (used[n].head == nil || used[0].head != nil && used[n].head.journal == used[0].head.journal) {
			n++
		}
		js := &journalScan{r: r, segs: used[:n], open: -1}
		if err := js.run(ctx); err != nil {
			return 0, 0, err
		}
		id = max(id, js.id)
		used = used[n:]
	}
	if err := r.finish(ctx); err != nil {
		return 0, 0, err
	}
	return id + 1, top + 1, nil
}

// nearlyFull reports whether the contents in the journal may not find room on the disk beside the journal. What is put
// there and then not committed, because the rows found no room, would be lost space.
func (r *replayer) nearlyFull(used []segmentFile) bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(r.dir, &fs); err != nil {
		return false // then it will be found out
	}
	var size int64
	for _, sf := range used {
		if st, err := os.Stat(sf.path); err == nil {
			size += st.Size()
		}
	}
	return int64(fs.Bavail)*fs.Bsize < 2*size
}

// add queues op, which came from position of journal id.
func (r *replayer) add(ctx context.Context, id, position int64, op *Op, size int) error {
	r.group.ops = append(r.group.ops, op)
	r.group.journalID = id
	r.group.applied = position
	r.size += int64(size)
	if r.tight && r.size >= tightBytes || len(r.group.ops) >= r.o.groupOps || r.size >= r.o.groupBytes {
		return r.flush(ctx)
	}
	return nil
}

// flush applies what add has queued. On a full disk it goes in small steps and deletes segments between them, so that a
// journal can be replayed without room for a second copy of all its contents.
func (r *replayer) flush(ctx context.Context) error {
	id, last, ops := r.group.journalID, r.group.applied, r.group.ops
	for _, op := range ops {
		for _, st := range op.Contents {
			r.cs.Restage(st)
		}
	}
	for len(ops) > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("replay the journal: %w", err)
		}
		n := min(len(ops), r.step)
		g := &group{ops: ops[:n], journalID: id, applied: last - int64(len(ops)-n)}
		err := r.applyGroup(ctx, g)
		if err == nil {
			ops = ops[n:]
			continue
		}
		freed := isFull(err) && r.free(ctx)
		if !freed && (!isFull(err) || n == 1) {
			return fmt.Errorf("replay positions %d to %d of journal %d (they stay in %s): %w",
				last-int64(len(ops))+1, last, id, r.dir, err)
		}
		r.step = max(1, n/2)
		if !r.tight {
			r.tight = true
			r.step = max(1, min(r.step, int(tightBytes/(r.size/int64(len(r.group.ops))+1))))
		}
	}
	r.group = group{}
	r.size = 0
	return nil
}

// applyGroup applies g, whose contents are staged.
func (r *replayer) applyGroup(ctx context.Context, g *group) error {
	var staged []blob.Staged
	for _, op := range g.ops {
		staged = append(staged, op.Contents...)
	}
	var err error
	if g.blobs, err = r.cs.Settle(ctx, worthSettling(g.ops)); err != nil {
		return err
	}
	g.settled = settled(r.cs, staged)
	if err := r.cs.Sync(); err != nil {
		return err
	}
	if err := r.be.applyGroup(ctx, g); err != nil {
		// It may also have failed after the commit.
		if applied, e := r.be.journalApplied(ctx); e != nil || applied[g.journalID] < g.applied {
			return err
		}
	}
	r.o.at("replayed")
	r.cs.Applied(staged)
	r.applied[g.journalID] = g.applied
	return nil
}

// spentSegment is a segment of a journal that was read to its end, at position last.
type spentSegment struct {
	path          string
	journal, last int64
}

// free deletes the segments that the database has made unneeded and reports whether there were any.
func (r *replayer) free(ctx context.Context) bool {
	freed := r.freeReserve() == nil && len(r.reserve) > 0
	r.reserve = nil
	_ = r.be.compact(ctx) // it helps or it does not
	if r.be.commitDurably(ctx) != nil {
		return freed // the caller has the better error
	}
	keep := r.spent[:0]
	for _, s := range r.spent {
		if s.last <= r.applied[s.journal] && os.Remove(s.path) == nil {
			freed = true
		} else {
			keep = append(keep, s)
		}
	}
	r.spent = keep
	return freed
}

func (r *replayer) freeReserve() error {
	for _, path := range r.reserve {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("delete a spare journal segment: %w", err)
		}
	}
	return nil
}

// finish deletes the journals, which the database must have durably before.
func (r *replayer) finish(ctx context.Context) error {
	if err := r.freeReserve(); err != nil {
		return err
	}
	used, _, _, err := listSegments(r.dir)
	if err != nil || len(used) == 0 {
		return err
	}
	if err := r.be.commitDurably(ctx); err != nil {
		return fmt.Errorf("sync the database after replaying the journal: %w", err)
	}
	r.o.at("replay durable")
	for _, sf := range used {
		if r.cut[sf.path] {
			err = os.Rename(sf.path, sf.path+cutSuffix)
		} else {
			err = os.Remove(sf.path)
		}
		if err != nil {
			return fmt.Errorf("put away a replayed journal segment: %w", err)
		}
	}
	return nil
}

func (r *replayer) log() *slog.Logger { return r.o.log }
