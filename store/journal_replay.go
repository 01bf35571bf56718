package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"

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
	cut   map[string]bool // segments to keep because readable records were cut off
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
	// First, so that on a full disk their space is there for the database.
	for _, sf := range unused {
		if err := os.Remove(sf.path); err != nil {
			return 0, 0, fmt.Errorf("delete an unused journal segment: %w", err)
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

// add queues op, which came from position of journal id.
func (r *replayer) add(ctx context.Context, id, position int64, op *Op, size int) error {
	r.group.ops = append(r.group.ops, op)
	r.group.journalID = id
	r.group.applied = position
	r.size += int64(size)
	if len(r.group.ops) < r.o.groupOps && r.size < r.o.groupBytes {
		return nil
	}
	return r.flush(ctx)
}

// flush applies what add has queued.
func (r *replayer) flush(ctx context.Context) error {
	if len(r.group.ops) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("replay the journal: %w", err)
	}
	var staged []blob.Staged
	for _, op := range r.group.ops {
		for _, st := range op.Contents {
			r.cs.Restage(st)
			staged = append(staged, st)
		}
	}
	g := &r.group
	var err error
	if g.blobs, err = r.cs.Settle(ctx, staged); err == nil {
		if err = r.cs.Sync(); err == nil {
			err = r.be.applyGroup(ctx, g)
		}
	}
	if err != nil {
		return fmt.Errorf("replay positions %d to %d of journal %d (they stay in %s): %w",
			g.applied-int64(len(g.ops))+1, g.applied, g.journalID, r.dir, err)
	}
	r.o.at("replayed")
	r.cs.Applied(staged)
	r.applied[g.journalID] = g.applied
	r.group = group{}
	r.size = 0
	return nil
}

// finish deletes the journals, which the database must have durably before.
func (r *replayer) finish(ctx context.Context) error {
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
