package store

import (
	"context"
	"fmt"
)

// who removes sessions, commands and processes of workspaces that are gone, as far as nothing names them.
func (g *collector) who(ctx context.Context) error {
	var sessions []int64
	if _, err := scanAll(ctx, g.s.r, 1, `SELECT s.id FROM session s LEFT JOIN workspace w ON w.id = s.workspace_id
		WHERE w.id IS NULL ORDER BY s.id DESC`, nil, func(c *cells) error {
		sessions = append(sessions, c.int(0))
		return nil
	}); err != nil || len(sessions) == 0 {
		return err
	}
	for tries := 0; tries < 5; tries++ {
		again, err := g.whoOnce(ctx, sessions)
		if err != nil || !again {
			return err
		}
	}
	return nil // somebody is busy; the next run does it
}

// whoOnce works on what the database has at one moment, and only if it still has that when it removes something.
func (g *collector) whoOnce(ctx context.Context, sessions []int64) (again bool, err error) {
	if err := g.pause(ctx); err != nil {
		return false, err
	}
	g.s.pipe.forgetWho()
	if err := g.s.Apply(ctx, g.s.Last()); err != nil {
		return false, err
	}
	at, err := g.s.appliedNow(ctx, g.s.r)
	if err != nil {
		return false, err
	}
	used := make(map[int64]bool) // processes
	if _, err := scanAll(ctx, g.s.r, 1, `SELECT DISTINCT process_id FROM change WHERE process_id <> 0`, nil, func(c *cells) error {
		used[c.int(0)] = true
		return nil
	}); err != nil {
		return false, err
	}
	for len(sessions) > 0 {
		n := min(len(sessions), 50)
		if err := g.step(ctx, func(ctx context.Context) error {
			now, err := g.s.appliedNow(ctx, g.s.w)
			if again = now != at; again || err != nil {
				return err
			}
			for _, id := range sessions[:n] {
				if err := g.session(ctx, id, used); err != nil {
					return fmt.Errorf("session %d: %w", id, err)
				}
			}
			return nil
		}); again || err != nil {
			return again, err
		}
		sessions = sessions[n:]
	}
	return false, nil
}

// appliedNow is the op that the database had last.
func (s *Store) appliedNow(ctx context.Context, q querier) (n int64, err error) {
	_, err = scanAll(ctx, q, 1, `SELECT applied FROM journal WHERE id = ?`, []any{s.pipe.j.head.journal}, func(c *cells) error {
		n = c.int(0)
		return nil
	})
	return n, err
}

// forgetWho makes every row of sessions, commands and processes come again with the next op that names it. What is in the
// queue was appended before: who calls this waits until it is applied.
func (p *pipeline) forgetWho() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows = emitted{}
}

func (g *collector) session(ctx context.Context, id int64, used map[int64]bool) error {
	w := g.s.w
	count := func(res interface{ RowsAffected() (int64, error) }, err error) error {
		if err == nil {
			n, _ := res.RowsAffected() // the driver knows it
			g.res.Who += n
		}
		return err
	}
	if err := count(w.exec(ctx, `DELETE FROM command WHERE session_id = ?
		AND NOT EXISTS (SELECT 1 FROM change x WHERE x.command_id = command.id)
		AND NOT EXISTS (SELECT 1 FROM undone u WHERE u.command_id = command.id)
		AND NOT EXISTS (SELECT 1 FROM workspace_ref r WHERE r.command_id = command.id)
		AND NOT EXISTS (SELECT 1 FROM conflict k WHERE k.command_id = command.id)`, id)); err != nil {
		return err
	}
	var list []struct{ id, parent int64 } // children come after their parents
	if _, err := scanAll(ctx, w, 2, `SELECT id, parent_id FROM process WHERE session_id = ? ORDER BY id DESC`, []any{id}, func(c *cells) error {
		list = append(list, struct{ id, parent int64 }{c.int(0), c.int(1)})
		return nil
	}); err != nil {
		return err
	}
	parents := map[int64]bool{}
	for changed := true; changed; {
		changed = false
		clear(parents)
		for _, p := range list {
			parents[p.parent] = true
		}
		rest := list[:0]
		for _, p := range list {
			if used[p.id] || parents[p.id] {
				rest = append(rest, p)
				continue
			}
			changed = true
			if _, err := w.exec(ctx, `DELETE FROM process_unread WHERE process_id = ?`, p.id); err != nil {
				return err
			}
			if err := count(w.exec(ctx, `DELETE FROM process WHERE id = ?`, p.id)); err != nil {
				return err
			}
		}
		list = rest
	}
	res, err := w.exec(ctx, `DELETE FROM session WHERE id = ?
		AND NOT EXISTS (SELECT 1 FROM change x WHERE x.session_id = session.id)
		AND NOT EXISTS (SELECT 1 FROM command k WHERE k.session_id = session.id)
		AND NOT EXISTS (SELECT 1 FROM process p WHERE p.session_id = session.id)
		AND NOT EXISTS (SELECT 1 FROM workspace_ref r WHERE r.session_id = session.id)
		AND NOT EXISTS (SELECT 1 FROM conflict k WHERE k.session_id = session.id)
		AND NOT EXISTS (SELECT 1 FROM session_origin o WHERE o.parent_id = session.id)
		AND NOT EXISTS (SELECT 1 FROM session_origin o JOIN workspace w ON w.id = o.home_workspace_id WHERE o.session_id = session.id)`, id)
	if err := count(res, err); err != nil {
		return err
	}
	if n, _ := res.RowsAffected(); n == 0 {
		return nil
	}
	for _, q := range []string{`DELETE FROM session_origin WHERE session_id = ?`, `DELETE FROM seen WHERE session_id = ?`} {
		if _, err := w.exec(ctx, q, id); err != nil {
			return err
		}
	}
	return nil
}
