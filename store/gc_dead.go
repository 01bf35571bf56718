package store

import (
	"context"
	"fmt"
)

// pointers removes workspaces whose time is over, pins that have expired, and where reflogs lead to too old a past.
func (g *collector) pointers(ctx context.Context) error {
	for more := true; more; {
		if err := g.pause(ctx); err != nil {
			return err
		}
		if err := g.alone(ctx, func(ctx context.Context) error {
			p, err := g.plan(ctx, g.s.w)
			if err != nil {
				return err
			}
			few := min(len(p.gone), 64)
			for _, ws := range p.gone[:few] {
				if err := g.dropRows(ctx, ws); err != nil {
					return err
				}
			}
			more = few < len(p.gone)
			for _, line := range p.goneRefs {
				// The highest seq of then stays, so that no number gets another meaning.
				for _, q := range []string{
					`UPDATE workspace_ref SET base_seq = (SELECT t.head_seq FROM timeline t WHERE t.id = workspace_ref.timeline_id)
						WHERE workspace_id = ? AND n = ? AND timeline_id IS NOT NULL`,
					`UPDATE workspace_ref SET timeline_id = NULL, base_timeline_id = 0 WHERE workspace_id = ? AND n = ?`,
				} {
					if _, err := g.s.w.exec(ctx, q, line[0], line[1]); err != nil {
						return err
					}
				}
			}
			_, err = g.s.w.exec(ctx, `DELETE FROM pin WHERE expires <> 0 AND expires <= ?`, g.now)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// dropRows removes what makes a workspace.
func (g *collector) dropRows(ctx context.Context, ws WorkspaceID) error {
	w, id := g.s.w, int64(ws)
	g.res.Workspaces++
	for _, q := range []string{
		`DELETE FROM tag WHERE workspace_id = ?`, `DELETE FROM review WHERE workspace_id = ?`, `DELETE FROM workspace_ref WHERE workspace_id = ?`, `DELETE FROM workspace WHERE id = ?`,
	} {
		if _, err := w.exec(ctx, q, id); err != nil {
			return fmt.Errorf("workspace %d: %w", ws, err)
		}
	}
	_, err := w.exec(ctx, `DELETE FROM pin WHERE kind IN (?, ?, ?) AND (ref = ? OR ref LIKE ?)`, PinTemporary, PinSession,
		PinMerge, fmt.Sprint(id), fmt.Sprint(id)+" %")
	if err == nil {
		_, err = w.exec(ctx, `DELETE FROM pin WHERE kind = ? AND ref LIKE ?`, PinMerge, "% "+fmt.Sprint(id))
	}
	return err
}

// dead removes timelines and hidden segments that nothing needs.
func (g *collector) dead(ctx context.Context) error {
	for {
		n, err := g.bury(ctx)
		if err == nil {
			err = g.removeDead(ctx)
		}
		if n == 0 || err != nil {
			return err
		}
	}
}

// bury marks what nothing needs: from then on nobody finds it. The sources of a hidden segment are looked at once that is gone.
func (g *collector) bury(ctx context.Context) (n int, err error) {
	if err := g.pause(ctx); err != nil {
		return 0, err
	}
	err = g.aloneWith(ctx, &g.s.merge.turn, func(ctx context.Context) error {
		p, err := g.plan(ctx, g.s.w)
		if err != nil {
			return err
		}
		for _, t := range p.timelines {
			if t.state == hiddenDead || !t.Hidden && (p.need[t.ID] != nil || p.sources[t.ID]) || t.Hidden && p.hidden[t.ID] {
				continue
			}
			n++
			g.res.Timelines++
			if _, err := g.s.w.exec(ctx, `UPDATE timeline SET hidden = ? WHERE id = ?`, int64(hiddenDead), int64(t.ID)); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// gcTables are the tables with rows of timelines, with their keys.
func gcTables() []struct{ name, key, order string } {
	return []struct{ name, key, order string }{
		{"file_version", "timeline_id, past, ino, seq", "past, ino, seq"}, {"file_node", "timeline_id, parent_ino, name", "parent_ino, name"},
		{"file_node_history", "timeline_id, parent_ino, name, seq", "parent_ino, name, seq"},
		{"undone", "timeline_id, seq, n", "seq DESC, n DESC"}, {"change_item", "timeline_id, seq, n", "seq DESC, n DESC"},
		{"change", "timeline_id, seq", "seq DESC"},
	}
}

// removeDead removes the rows of the dead, and at last the dead themselves, children first.
func (g *collector) removeDead(ctx context.Context) error {
	var ids []TimelineID
	if _, err := scanAll(ctx, g.s.r, 1, `SELECT id FROM timeline WHERE hidden = ? ORDER BY id DESC`, []any{int64(hiddenDead)}, func(c *cells) error {
		ids = append(ids, TimelineID(c.int(0)))
		return nil
	}); err != nil || len(ids) == 0 {
		return err
	}
	if err := g.commandsOfDead(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		for _, t := range gcTables() {
			for left := true; left; {
				if err := g.step(ctx, func(ctx context.Context) error {
					n, err := g.removeRows(ctx, t.name, t.key, t.order, id)
					left = n == gcChunk
					return err
				}); err != nil {
					return fmt.Errorf("timeline %d: %w", id, err)
				}
			}
		}
		if err := g.step(ctx, func(ctx context.Context) error {
			for _, q := range []string{
				`DELETE FROM undone WHERE from_timeline_id = ?`, `DELETE FROM conflict WHERE timeline_id = ?`,
				`DELETE FROM review WHERE timeline_id = ?`, `DELETE FROM review WHERE into_timeline_id = ?`,
				`DELETE FROM pin WHERE timeline_id = ?`, `DELETE FROM lease WHERE timeline_id = ?`, `DELETE FROM timeline WHERE id = ?`,
			} {
				if _, err := g.s.w.exec(ctx, q, int64(id)); err != nil {
					return err
				}
			}
			_, err := g.s.w.exec(ctx, `DELETE FROM setting WHERE name IN (?, ?, ?, ?)`, thinnedKey(id), cutKey(id), endedKey(id), letGoKey(id))
			return err
		}); err != nil {
			return fmt.Errorf("timeline %d: %w", id, err)
		}
	}
	return nil
}

// removeRows removes some rows of a timeline from a table.
func (g *collector) removeRows(ctx context.Context, table, key, order string, id TimelineID) (int64, error) {
	some := ` FROM ` + table + ` WHERE timeline_id = ? ORDER BY ` + order + ` LIMIT ?`
	args := []any{int64(id), int64(gcChunk)}
	if table == "file_version" {
		var last VersionID
		if _, err := scanAll(ctx, g.s.w, 1, `SELECT max(version_id) FROM (SELECT version_id`+some+`) x`, args, func(c *cells) error {
			last = VersionID(c.int(0))
			return nil
		}); err != nil {
			return 0, err
		}
		if err := raiseCollected(ctx, g.s.w, last); err != nil {
			return 0, err
		}
	}
	res, err := g.s.w.exec(ctx, `DELETE FROM `+table+` WHERE (`+key+`) IN (SELECT `+key+some+`)`, args...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	switch table {
	case "file_version":
		g.res.Versions += n
	case "file_node", "file_node_history":
		g.res.Names += n
	case "change":
		g.res.Changes += n
	}
	return n, err
}

// settingCollected is the highest version id that was ever removed: others may name versions up to there that are no more.
const settingCollected = "collected version"

func raiseCollected(ctx context.Context, w *writer, id VersionID) error {
	if id == 0 {
		return nil
	}
	_, err := w.exec(ctx, `INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
		WHERE CAST(setting.value AS INTEGER) < CAST(excluded.value AS INTEGER)`, settingCollected, fmt.Sprint(id))
	return err
}

// commandsOfDead leads commands that began on a timeline that is dead to the first of their changes that lives.
func (g *collector) commandsOfDead(ctx context.Context) error {
	var list []CommandID
	if _, err := scanAll(ctx, g.s.r, 1, `SELECT c.id FROM command c JOIN timeline t ON t.id = c.timeline_id WHERE t.hidden = ?`,
		[]any{int64(hiddenDead)}, func(c *cells) error {
			list = append(list, CommandID(c.int(0)))
			return nil
		}); err != nil {
		return err
	}
	for len(list) > 0 {
		n := min(len(list), gcChunk/4)
		if err := g.step(ctx, func(ctx context.Context) error {
			for _, id := range list[:n] {
				if err := g.commandOfDead(ctx, id); err != nil {
					return fmt.Errorf("command %d: %w", id, err)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func (g *collector) commandOfDead(ctx context.Context, id CommandID) error {
	var timeline, from, to int64
	if _, err := scanAll(ctx, g.s.w, 3, `SELECT x.timeline_id, min(x.seq), max(x.seq) FROM change x JOIN timeline t ON t.id = x.timeline_id
		WHERE x.command_id = ? AND t.hidden = 0 GROUP BY x.timeline_id ORDER BY x.timeline_id LIMIT 1`, []any{int64(id)}, func(c *cells) error {
		timeline, from, to = c.int(0), c.int(1)-1, c.int(2)
		return nil
	}); err != nil {
		return err
	}
	_, err := g.s.w.exec(ctx, `UPDATE command SET timeline_id = ?, seq_before = ?, seq_after = ? WHERE id = ?`, timeline, from, to, int64(id))
	return err
}
