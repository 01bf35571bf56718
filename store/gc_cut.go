package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// A timeline whose head nobody comes to any more, because its workspace was rolled back too long ago, may still be what others
// began on. It is cut to end at the last state that something names: then it is a timeline as any other. While that
// is done its gc_seq is beyond its head, and only the states that are named can be read.

// cutKey is the setting that has the gc_seq of before.
func cutKey(t TimelineID) string { return fmt.Sprintf("cut %d", t) }

// endedKey is the setting that says where a timeline that was cut had ended.
func endedKey(t TimelineID) string { return fmt.Sprintf("ended %d", t) }

// cut ends a timeline at the last state that something names.
func (g *collector) cut(ctx context.Context, id TimelineID) error {
	top, err := g.cutDeclare(ctx, id)
	if err != nil || top == MaxSeq {
		return err
	}
	if err := g.cutVersions(ctx, id, top); err != nil {
		return err
	}
	for _, table := range []string{"file_node", "file_node_history"} {
		if err := g.cutNames(ctx, id, top, table); err != nil {
			return err
		}
	}
	if err := g.cutChanges(ctx, id, top); err != nil {
		return err
	}
	return g.step(ctx, func(ctx context.Context) error {
		was, err := setting(ctx, g.s.w, cutKey(id))
		if err != nil {
			return err
		}
		from, err := strconv.ParseInt(was, 10, 64)
		if err != nil {
			return fmt.Errorf("setting %q: %w", cutKey(id), err)
		}
		t, err := timelineRow(ctx, g.s.w, id)
		if err != nil {
			return err
		}
		if err := setSetting(ctx, g.s.w, endedKey(id), fmt.Sprint(int64(t.Head))); err != nil {
			return err
		}
		if _, err := g.s.w.exec(ctx, `UPDATE timeline SET head_seq = ?, gc_seq = ? WHERE id = ?`, int64(top), from, int64(id)); err != nil {
			return err
		}
		_, err = g.s.w.exec(ctx, `DELETE FROM setting WHERE name IN (?, ?)`, cutKey(id), thinnedKey(id))
		return err
	})
}

// cutDeclare refuses from then on what is to go. It returns where the timeline is to end, MaxSeq for not at all.
func (g *collector) cutDeclare(ctx context.Context, id TimelineID) (top Seq, err error) {
	if err := g.pause(ctx); err != nil {
		return 0, err
	}
	err = g.alone(ctx, func(ctx context.Context) error {
		top = MaxSeq
		p, err := g.plan(ctx, g.s.w)
		if err != nil {
			return err
		}
		t, err := timelineRow(ctx, g.s.w, id)
		if err != nil {
			return err
		}
		last, ok := p.need[id].end(t)
		if !ok {
			return nil
		}
		top = last
		if t.GCSeq <= t.Head {
			g.res.States += int64(t.Head - top)
			if err := setSetting(ctx, g.s.w, cutKey(id), fmt.Sprint(min(t.GCSeq, top))); err != nil {
				return err
			}
		}
		if _, err := g.s.w.exec(ctx, `DELETE FROM pin WHERE timeline_id = ? AND seq > ? AND kind = ?`, int64(id), int64(top), PinRetained); err != nil {
			return err
		}
		_, err = g.s.w.exec(ctx, `UPDATE timeline SET gc_seq = head_seq + 1 WHERE id = ?`, int64(id))
		return err
	})
	return top, err
}

// end is where a timeline should end; false: at its head.
func (n *need) end(t *Timeline) (Seq, bool) {
	if t.Hidden || n == nil || n.head || len(n.points) == 0 {
		return 0, false
	}
	last := n.points[len(n.points)-1]
	return last, last < t.Head || t.GCSeq > t.Head
}

// cutVersions removes the versions that came later, those that were superseded first. With the last of an inode that goes, what it was at
// the end becomes its newest version.
func (g *collector) cutVersions(ctx context.Context, id TimelineID, top Seq) error {
	for _, past := range []int64{1, 0} {
		if err := g.cutVersionsOf(ctx, id, top, past); err != nil {
			return err
		}
	}
	return nil
}

const sqlCutNewest = `UPDATE file_version SET past = 0 WHERE timeline_id = ? AND past = 1 AND ino = ? AND nlink <> 0 AND seq =
	(SELECT max(w.seq) FROM file_version w WHERE w.timeline_id = ? AND w.past IN (0, 1) AND w.ino = ?) AND seq <= ?`

func (g *collector) cutVersionsOf(ctx context.Context, id TimelineID, top Seq, past int64) error {
	var ino, seq int64
	for n := gcChunk; n == gcChunk; {
		n = 0
		var gone [][3]int64
		if _, err := scanAll(ctx, g.s.r, 3, `SELECT ino, seq, version_id FROM file_version WHERE timeline_id = ? AND past = ?
			AND (ino, seq) > (?, ?) ORDER BY ino, seq LIMIT ?`, []any{int64(id), past, ino, seq, int64(gcChunk)}, func(c *cells) error {
			n++
			if ino, seq = c.int(0), c.int(1); seq > int64(top) {
				gone = append(gone, [3]int64{ino, seq, c.int(2)})
			}
			return nil
		}); err != nil {
			return err
		}
		if len(gone) == 0 {
			continue
		}
		if err := g.step(ctx, func(ctx context.Context) error {
			last := int64(0)
			for _, r := range gone {
				last = max(last, r[2])
				if _, err := g.s.w.exec(ctx, `DELETE FROM file_version WHERE timeline_id = ? AND past = ? AND ino = ? AND seq = ?`,
					int64(id), past, r[0], r[1]); err != nil {
					return err
				}
				if _, err := g.s.w.exec(ctx, sqlCutNewest, int64(id), r[0], int64(id), r[0], int64(top)); err != nil {
					return err
				}
			}
			g.res.Versions += int64(len(gone))
			return raiseCollected(ctx, g.s.w, VersionID(last))
		}); err != nil {
			return err
		}
	}
	return nil
}

// cutNames removes names that came later, and makes those that were superseded later the present.
func (g *collector) cutNames(ctx context.Context, id TimelineID, top Seq, table string) error {
	end := "NULL"
	if table == "file_node_history" {
		end = "end_seq"
	}
	read := `SELECT parent_ino, name, seq, ` + end + `, ino, kind FROM ` + table + ` WHERE timeline_id = ? AND (parent_ino, name, seq) > (?, ?, ?)
		ORDER BY parent_ino, name, seq LIMIT ?`
	remove := `DELETE FROM ` + table + ` WHERE timeline_id = ? AND parent_ino = ? AND name = ? AND seq = ?`
	var parent, seq int64
	var name []byte = []byte{}
	for n := gcChunk; n == gcChunk; {
		n = 0
		var gone, back [][]any
		if _, err := scanAll(ctx, g.s.r, 6, read, []any{int64(id), parent, name, seq, int64(gcChunk)}, func(c *cells) error {
			n++
			parent, name, seq = c.int(0), c.bytes(1), c.int(2)
			switch row := []any{int64(id), parent, name, seq, c.int(4), c.int(5)}; {
			case seq > int64(top):
				gone = append(gone, row)
			case !c.null(3) && c.int(3) > int64(top):
				back = append(back, row)
			}
			return nil
		}); err != nil {
			return err
		}
		if len(gone)+len(back) == 0 {
			continue
		}
		if err := g.step(ctx, func(ctx context.Context) error {
			for i, row := range append(gone, back...) {
				if _, err := g.s.w.exec(ctx, remove, row[:4]...); err != nil {
					return err
				}
				if i < len(gone) {
					continue
				}
				if _, err := g.s.w.exec(ctx, `INSERT INTO file_node (timeline_id, parent_ino, name, seq, ino, kind) VALUES (?, ?, ?, ?, ?, ?)`, row...); err != nil {
					return err
				}
			}
			g.res.Names += int64(len(gone))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// cutChanges removes changes, the last first, and what their commands say of them.
func (g *collector) cutChanges(ctx context.Context, id TimelineID, top Seq) error {
	for _, t := range []struct{ name, key, order string }{
		{"undone", "timeline_id, seq, n", "seq DESC, n DESC"}, {"change_item", "timeline_id, seq, n", "seq DESC, n DESC"},
		{"change", "timeline_id, seq", "seq DESC"},
	} {
		for n := int64(gcChunk); n == gcChunk; {
			if err := g.step(ctx, func(ctx context.Context) error {
				some := ` FROM ` + t.name + ` WHERE timeline_id = ? AND seq > ? ORDER BY ` + t.order + ` LIMIT ?`
				args := []any{int64(id), int64(top), int64(gcChunk)}
				var commands []CommandID
				if t.name == "change" {
					if _, err := scanAll(ctx, g.s.w, 1, `SELECT DISTINCT x.command_id FROM (SELECT command_id`+some+`) x WHERE x.command_id <> 0`, args,
						func(c *cells) error {
							commands = append(commands, CommandID(c.int(0)))
							return nil
						}); err != nil {
						return err
					}
				}
				res, err := g.s.w.exec(ctx, `DELETE FROM `+t.name+` WHERE (`+t.key+`) IN (SELECT `+t.key+some+`)`, args...)
				if err != nil {
					return err
				}
				if n, err = res.RowsAffected(); err != nil || t.name != "change" {
					return err
				}
				g.res.Changes += n
				if _, err := g.s.w.exec(ctx, `UPDATE timeline SET change_count = change_count - ? WHERE id = ?`, n, int64(id)); err != nil {
					return err
				}
				for _, c := range commands {
					if err := g.commandCut(ctx, c, id); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	if err := g.commandsCut(ctx, id, top); err != nil {
		return err
	}
	return g.step(ctx, func(ctx context.Context) error {
		if _, err := g.s.w.exec(ctx, `DELETE FROM undone WHERE from_timeline_id = ? AND from_seq > ?`, int64(id), int64(top)); err != nil {
			return err
		}
		_, err := g.s.w.exec(ctx, `UPDATE undone SET to_seq = ? WHERE from_timeline_id = ? AND to_seq > ?`, int64(top), int64(id), int64(top))
		return err
	})
}

// commandsCut is commandCut for those of which there is no change left beyond the end, because what they did there was temporary.
func (g *collector) commandsCut(ctx context.Context, id TimelineID, top Seq) error {
	var list []CommandID
	if _, err := scanAll(ctx, g.s.r, 1, `SELECT c.id FROM command c WHERE c.timeline_id = ? AND c.seq_after > ?`, []any{int64(id), int64(top)},
		func(c *cells) error {
			list = append(list, CommandID(c.int(0)))
			return nil
		}); err != nil {
		return err
	}
	for some := range slices.Chunk(list, gcChunk/4) {
		if err := g.step(ctx, func(ctx context.Context) error {
			for _, c := range some {
				if err := g.commandCut(ctx, c, id); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// commandCut makes the row of a command say what it still changed.
func (g *collector) commandCut(ctx context.Context, c CommandID, id TimelineID) error {
	var on int64
	if _, err := scanAll(ctx, g.s.w, 1, `SELECT timeline_id FROM command WHERE id = ?`, []any{int64(c)}, func(cl *cells) error {
		on = cl.int(0)
		return nil
	}); err != nil || on != int64(id) {
		return err
	}
	return g.commandOfDead(ctx, c)
}
