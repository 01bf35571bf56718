package store

import (
	"context"
	"fmt"
	"slices"
)

// A change before the seq from which all of a timeline is kept goes when nothing that can be read needs it. It stays
//
//   - while a row of a version or name has its seq: so of what is there now, who made it is known however long ago that was;
//   - if it is the last of its stretch, between two states that are kept, to touch an inode that has versions: from items like that
//     diff, merge and rollback know where two states can differ (names have rows wherever they differ);
//   - beside a state that is kept, so that no time and no seq in between is taken for that state, and first on its timeline;
//   - if it is the last before that seq of a session or command that goes on after: who walks back over what they did meets a
//     change whose past is not kept, and is refused instead of taking a part for all of it;
//   - if it took in what another timeline that lives has (merge bases), or took that back, or a review names it;
//   - if it removed something and the policy keeps removals.
//
// Everything else would lead to states that are refused anyway.

// idSet is a set of numbers that lie near each other.
type idSet map[int64]uint64

func (s idSet) add(n int64)      { s[n>>6] |= 1 << (n & 63) }
func (s idSet) has(n int64) bool { return s[n>>6]&(1<<(n&63)) != 0 }

// thinner finds the changes of one timeline that may go.
type thinner struct {
	g    *collector
	t    *Timeline
	k    *kept
	rows idSet // seqs of rows
	inos idSet // that have versions
	tied tiedChanges
	last map[[2]int64]Seq // by session and command, one of them 0: of one that goes on, its last change before k.from, else 0
}

// changeHead is what decides about a change.
type changeHead struct {
	seq              Seq
	at               int64
	kind             OpKind
	session, command int64
}

// thinChanges removes changes of which nothing can be seen any more.
func (g *collector) thinChanges(ctx context.Context, t *Timeline, k *kept) error {
	if k.from <= t.ParentSeq+1 {
		return nil
	}
	th := &thinner{g: g, t: t, k: k, rows: idSet{}, inos: idSet{}, last: map[[2]int64]Seq{}}
	var err error
	if th.tied, err = g.tiedChanges(ctx); err != nil {
		return err
	}
	if err := th.shown(ctx); err != nil {
		return err
	}
	var gone []Seq
	prev := changeHead{seq: t.ParentSeq}
	first, beside := true, true // of prev: it is where the timeline begins; a state that is kept lies right before it
	judge := func(next changeHead) error {
		near := first || pointIn(k.points, prev.seq, next.seq)
		if !first && !beside && !near {
			stays, err := th.stays(ctx, prev)
			if err != nil {
				return err
			}
			if !stays {
				gone = append(gone, prev.seq)
			}
		}
		prev, first, beside = next, false, near
		return nil
	}
	for n := gcChunk; n == gcChunk; {
		var page []changeHead
		if _, err := scanAll(ctx, g.s.r, 5, `SELECT seq, at, kind, session_id, command_id FROM change WHERE timeline_id = ? AND seq > ? AND seq < ?
			ORDER BY seq LIMIT ?`, []any{int64(t.ID), int64(prev.seq), int64(k.from), int64(gcChunk)}, func(c *cells) error {
			page = append(page, changeHead{Seq(c.int(0)), c.int(1), OpKind(c.int(2)), c.int(3), c.int(4)})
			return nil
		}); err != nil {
			return err
		}
		n = len(page)
		for _, h := range page {
			if err := judge(h); err != nil {
				return err
			}
		}
		if n < gcChunk {
			if err := judge(changeHead{seq: k.from}); err != nil {
				return err
			}
		}
		if err := g.removeChanges(ctx, t.ID, k, gone); err != nil {
			return err
		}
		gone = gone[:0]
	}
	return nil
}

// shown notes the seqs of all rows that stay.
func (th *thinner) shown(ctx context.Context) error {
	g, id := th.g, int64(th.t.ID)
	row := func(seq Seq) {
		if seq < th.k.from {
			th.rows.add(int64(seq))
		}
	}
	var past, ino, seq int64
	if err := g.pages(ctx, func() (n int, err error) {
		_, err = scanAll(ctx, g.s.r, 4, `SELECT past, ino, seq, version_id FROM file_version WHERE timeline_id = ? AND (past, ino, seq) > (?, ?, ?)
			ORDER BY past, ino, seq LIMIT ?`, []any{id, past, ino, seq, int64(gcChunk)}, func(c *cells) error {
			n++
			past, ino, seq = c.int(0), c.int(1), c.int(2)
			if !g.dry.goes(th.t.ID, VersionID(c.int(3))) {
				row(Seq(seq))
				th.inos.add(ino)
			}
			return nil
		})
		return n, err
	}); err != nil {
		return err
	}
	// What is superseded meanwhile moves from the first to the second.
	for _, table := range []struct{ name, end string }{{"file_node", "NULL"}, {"file_node_history", "end_seq"}} {
		parent, name, seq := int64(0), []byte{}, int64(0)
		if err := g.pages(ctx, func() (n int, err error) {
			_, err = scanAll(ctx, g.s.r, 4, `SELECT parent_ino, name, seq, `+table.end+` FROM `+table.name+` WHERE timeline_id = ?
				AND (parent_ino, name, seq) > (?, ?, ?) ORDER BY parent_ino, name, seq LIMIT ?`, []any{id, parent, name, seq, int64(gcChunk)},
				func(c *cells) error {
					n++
					parent, name, seq = c.int(0), c.bytes(1), c.int(2)
					if end := Seq(c.int(3)); c.null(3) {
						row(Seq(seq))
					} else if g.dry == nil || th.k.has(Seq(seq), end) {
						row(Seq(seq))
						row(end)
					}
					return nil
				})
			return n, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// pages calls fn for one page after another, until it read less than a whole one.
func (g *collector) pages(ctx context.Context, fn func() (n int, err error)) error {
	for n := gcChunk; n == gcChunk; {
		if err := g.pause(ctx); err != nil {
			return err
		}
		var err error
		if n, err = fn(); err != nil {
			return err
		}
	}
	return nil
}

func (th *thinner) stays(ctx context.Context, h changeHead) (bool, error) {
	if th.rows.has(int64(h.seq)) || th.tied.has(th.t.ID, h.seq) {
		return true, nil
	}
	for _, key := range [][2]int64{{h.session, 0}, {0, h.command}} {
		if key == [2]int64{} {
			continue
		}
		last, err := th.lastOf(ctx, key)
		if err != nil || last == h.seq {
			return err == nil, err
		}
	}
	if keep := th.g.keep.Removals; keep != 0 && h.kind != OpRename && (keep < 0 || h.at > th.g.now-int64(keep)) {
		removes, err := scanAll(ctx, th.g.s.r, 1, `SELECT 1 FROM change_item WHERE timeline_id = ? AND seq = ? AND op IN (?, ?) LIMIT 1`,
			[]any{int64(th.t.ID), int64(h.seq), int64(OpUnlink), int64(OpRmdir)}, func(*cells) error { return nil })
		if removes || err != nil {
			return removes, err
		}
	}
	end := th.k.from
	if i, _ := slices.BinarySearch(th.k.points, h.seq); i < len(th.k.points) {
		end = min(end, th.k.points[i])
	}
	found := false
	_, err := scanAll(ctx, th.g.s.r, 1, `SELECT i.ino FROM change_item i WHERE i.timeline_id = ? AND i.seq = ? AND i.ino <> 0
		AND NOT EXISTS (SELECT 1 FROM change_item j WHERE j.timeline_id = i.timeline_id AND j.ino = i.ino AND j.seq > i.seq AND j.seq <= ?)`,
		[]any{int64(th.t.ID), int64(h.seq), int64(end)}, func(c *cells) error {
			found = found || th.inos.has(c.int(0))
			return nil
		})
	return found, err
}

// lastOf is the last change before k.from of a session or command that goes on after, 0 if it does not.
func (th *thinner) lastOf(ctx context.Context, key [2]int64) (Seq, error) {
	last, ok := th.last[key]
	if ok {
		return last, nil
	}
	col, id := "session_id", key[0]
	if key[1] != 0 {
		col, id = "command_id", key[1]
	}
	args := []any{id, int64(th.t.ID), int64(th.k.from), int64(th.k.top), id, int64(th.t.ID), int64(th.k.from)}
	_, err := scanAll(ctx, th.g.s.r, 2, `SELECT EXISTS (SELECT 1 FROM change x WHERE x.`+col+` = ? AND x.timeline_id = ? AND x.seq > ? AND x.seq <= ?),
		(SELECT max(y.seq) FROM change y WHERE y.`+col+` = ? AND y.timeline_id = ? AND y.seq <= ?)`, args, func(c *cells) error {
		if c.int(0) != 0 && !c.null(1) {
			last = Seq(c.int(1))
		}
		return nil
	})
	th.last[key] = last
	return last, err
}

// removeChanges removes changes with their items and what they say of others, in steps.
func (g *collector) removeChanges(ctx context.Context, id TimelineID, k *kept, seqs []Seq) error {
	if g.dry != nil {
		g.res.Changes += int64(len(seqs))
		return nil
	}
	for len(seqs) > 0 {
		n := 0
		if err := g.remove(ctx, id, k, func(ctx context.Context, _ *kept) error {
			left := int64(gcChunk)
			for n = 0; n < len(seqs) && left > 0; n++ {
				t, seq := int64(id), int64(seqs[n])
				// The last items first, so that those of a large change are numbered without gaps in between.
				res, err := g.s.w.exec(ctx, `DELETE FROM change_item WHERE timeline_id = ? AND seq = ? AND n IN
					(SELECT n FROM change_item WHERE timeline_id = ? AND seq = ? ORDER BY n DESC LIMIT ?)`, t, seq, t, seq, left)
				if err != nil {
					return err
				}
				items, err := res.RowsAffected()
				if left -= items; left <= 0 || err != nil {
					break // there may be more of it
				}
				for _, table := range []string{"undone", "change"} {
					if _, err := g.s.w.exec(ctx, `DELETE FROM `+table+` WHERE timeline_id = ? AND seq = ?`, t, seq); err != nil {
						return err
					}
				}
				left--
			}
			_, err := g.s.w.exec(ctx, `UPDATE timeline SET change_count = change_count - ? WHERE id = ?`, int64(n), int64(id))
			return err
		}); err != nil {
			return fmt.Errorf("changes: %w", err)
		}
		g.res.Changes += int64(n)
		seqs = seqs[n:]
	}
	return nil
}

// tiedChanges are changes that say something of other timelines that are there, by timeline, ascending.
type tiedChanges map[TimelineID][]Seq

func (d tiedChanges) has(t TimelineID, seq Seq) bool { return pointIn(d[t], seq, seq+1) }

func (d tiedChanges) add(t TimelineID, seq Seq) {
	if i, ok := slices.BinarySearch(d[t], seq); !ok {
		d[t] = slices.Insert(d[t], i, seq)
	}
}

// tiedChanges finds merges of what lives, what reviews name, and what took one of these back.
func (g *collector) tiedChanges(ctx context.Context) (tiedChanges, error) {
	tied := tiedChanges{}
	if _, err := scanAll(ctx, g.s.r, 3, `SELECT c.timeline_id, c.seq, c.merged_timeline_id FROM change c JOIN timeline m ON m.id = c.merged_timeline_id
		WHERE c.merged_timeline_id <> 0 AND m.hidden = 0`, nil, func(c *cells) error {
		if g.dry == nil || !g.dry.timelines[TimelineID(c.int(2))] {
			tied.add(TimelineID(c.int(0)), Seq(c.int(1)))
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if _, err := scanAll(ctx, g.s.r, 4, `SELECT into_timeline_id, into_seq, workspace_id, timeline_id FROM review WHERE into_timeline_id <> 0`, nil, func(c *cells) error {
		if g.dry == nil || !g.dry.gone[WorkspaceID(c.int(2))] && !g.dry.timelines[TimelineID(c.int(3))] {
			tied.add(TimelineID(c.int(0)), Seq(c.int(1)))
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if len(tied) == 0 {
		return tied, nil
	}
	// What takes something back has a higher seq.
	_, err := scanAll(ctx, g.s.r, 5, `SELECT timeline_id, seq, from_timeline_id, from_seq, to_seq FROM undone WHERE ref_n = 0 ORDER BY seq`, nil, func(c *cells) error {
		if pointIn(tied[TimelineID(c.int(2))], Seq(c.int(3)), Seq(c.int(4))+1) {
			tied.add(TimelineID(c.int(0)), Seq(c.int(1)))
		}
		return nil
	})
	return tied, err
}
