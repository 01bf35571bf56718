package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// who removes sessions, commands and processes that nothing names: of workspaces that are gone all of these, of others those from before
// the time from which all of the history is kept. What goes on for longer than that comes again with its next change.
func (g *collector) who(ctx context.Context) error {
	for _, step := range []func(context.Context) error{g.settled, g.unseen} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	var sessions []oldSession
	if _, err := scanAll(ctx, g.s.r, 2, `SELECT s.id, w.id IS NULL FROM session s LEFT JOIN workspace w ON w.id = s.workspace_id
		WHERE w.id IS NULL OR s.started_at < ? ORDER BY s.id DESC`, []any{g.complete()}, func(c *cells) error {
		sessions = append(sessions, oldSession{c.int(0), c.int(1) != 0})
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

// complete is the time from which the policy keeps all of the history, an hour ago at the latest; 0: it always does.
func (g *collector) complete() int64 {
	age := LeastClass
	switch t := g.keep.Tiers; {
	case len(t) == 0 || t[0].Every == 0 && t[0].For == 0:
		return 0
	case t[0].Every == 0:
		age = max(age, t[0].For)
	}
	return g.now - int64(age)
}

// settled removes conflicts that were resolved before that time.
func (g *collector) settled(ctx context.Context) error {
	for n := int64(gcChunk); n == gcChunk; {
		if err := g.step(ctx, func(ctx context.Context) error {
			res, err := g.s.w.exec(ctx, `DELETE FROM conflict WHERE id IN (SELECT id FROM conflict WHERE resolved_at < ? LIMIT ?)`,
				g.complete(), int64(gcChunk))
			if err == nil {
				n, _ = res.RowsAffected() // the driver knows it
				g.res.Conflicts += n
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// unseen forgets what sessions have seen that was collected since.
func (g *collector) unseen(ctx context.Context) error {
	var session, ino int64
	return g.pages(ctx, func() (n int, err error) {
		var gone [][2]int64
		if _, err := scanAll(ctx, g.s.r, 3, `SELECT n.session_id, n.ino, n.version_id <= `+sqlCollected+` AND NOT EXISTS (SELECT 1 FROM file_version v
			WHERE v.version_id = n.version_id AND v.origin_timeline_id = 0) FROM seen n WHERE (n.session_id, n.ino) > (?, ?)
			ORDER BY n.session_id, n.ino LIMIT ?`, []any{session, ino, int64(gcChunk)}, func(c *cells) error {
			n++
			if session, ino = c.int(0), c.int(1); c.int(2) != 0 {
				gone = append(gone, [2]int64{session, ino})
			}
			return nil
		}); err != nil || len(gone) == 0 {
			return n, err
		}
		return n, g.step(ctx, func(ctx context.Context) error {
			for _, k := range gone {
				if _, err := g.s.w.exec(ctx, `DELETE FROM seen WHERE session_id = ? AND ino = ? AND version_id <= `+sqlCollected, k[0], k[1]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// oldSession is one of which something may go.
type oldSession struct {
	id   int64
	gone bool // its workspace
}

// namedWho is what rows name.
type namedWho struct {
	sessions, commands, processes idSet
	children                      map[int64]int // of sessions, how many
	forked                        map[int64]int // of processes, likewise: they may be of another session
}

func (s *Store) namedWho(ctx context.Context) (*namedWho, error) {
	u := &namedWho{idSet{}, idSet{}, idSet{}, map[int64]int{}, map[int64]int{}}
	for _, q := range []struct {
		set  idSet
		cols []string
	}{
		{u.commands, []string{"change.command_id", "undone.command_id", "workspace_ref.command_id", "conflict.command_id", "review.command_id"}},
		{u.sessions, []string{"change.session_id", "workspace_ref.session_id", "conflict.session_id", "review.session_id"}},
		{u.processes, []string{"change.process_id"}},
	} {
		for _, col := range q.cols {
			table, _, _ := strings.Cut(col, ".")
			if _, err := scanAll(ctx, s.r, 1, `SELECT DISTINCT `+col+` FROM `+table, nil, func(c *cells) error {
				q.set.add(c.int(0))
				return nil
			}); err != nil {
				return nil, err
			}
		}
	}
	for _, q := range []struct {
		of    map[int64]int
		table string
	}{{u.children, "session_origin"}, {u.forked, "process"}} {
		if _, err := scanAll(ctx, s.r, 2, `SELECT parent_id, count(*) FROM `+q.table+` GROUP BY parent_id`, nil, func(c *cells) error {
			q.of[c.int(0)] = int(c.int(1))
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// whoOnce works on what the database has at one moment, and only if it still has that when it removes something.
func (g *collector) whoOnce(ctx context.Context, sessions []oldSession) (again bool, err error) {
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
	named, err := g.s.namedWho(ctx)
	if err != nil {
		return false, err
	}
	for some := range slices.Chunk(sessions, 50) {
		if err := g.step(ctx, func(ctx context.Context) error {
			now, err := g.s.appliedNow(ctx, g.s.w)
			if again = now != at; again || err != nil {
				return err
			}
			for _, s := range some {
				if err := g.session(ctx, s, named); err != nil {
					return fmt.Errorf("session %d: %w", s.id, err)
				}
			}
			return nil
		}); again || err != nil {
			return again, err
		}
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

// session removes what nothing names of one session. Those that it started come before it.
func (g *collector) session(ctx context.Context, s oldSession, named *namedWho) error {
	rows := int64(0)
	remove := func(id int64, queries ...string) error {
		for _, q := range queries {
			if _, err := g.s.w.exec(ctx, q, id); err != nil {
				return err
			}
		}
		g.res.Who++
		return nil
	}
	var commands []int64
	if _, err := scanAll(ctx, g.s.w, 2, `SELECT id, COALESCE(ended_at, started_at) FROM command WHERE session_id = ?`, []any{s.id}, func(c *cells) error {
		if named.commands.has(c.int(0)) || !s.gone && c.int(1) >= g.complete() {
			rows++
		} else {
			commands = append(commands, c.int(0))
		}
		return nil
	}); err != nil {
		return err
	}
	for _, id := range commands {
		if err := remove(id, `DELETE FROM command WHERE id = ?`); err != nil {
			return err
		}
	}
	var list []struct{ id, parent int64 } // children come after their parents
	if _, err := scanAll(ctx, g.s.w, 2, `SELECT id, parent_id FROM process WHERE session_id = ? ORDER BY id DESC`, []any{s.id}, func(c *cells) error {
		list = append(list, struct{ id, parent int64 }{c.int(0), c.int(1)})
		return nil
	}); err != nil {
		return err
	}
	for _, p := range list {
		if named.processes.has(p.id) || named.forked[p.id] > 0 {
			rows++
			continue
		}
		named.forked[p.parent]--
		if err := remove(p.id, `DELETE FROM process_unread WHERE process_id = ?`, `DELETE FROM process WHERE id = ?`); err != nil {
			return err
		}
	}
	if rows > 0 || named.sessions.has(s.id) || named.children[s.id] > 0 {
		return nil
	}
	var parent, home int64
	if _, err := scanAll(ctx, g.s.w, 2, `SELECT o.parent_id, COALESCE(w.id, 0) FROM session_origin o LEFT JOIN workspace w ON w.id = o.home_workspace_id
		WHERE o.session_id = ?`, []any{s.id}, func(c *cells) error {
		parent, home = c.int(0), c.int(1)
		return nil
	}); err != nil || s.gone && home != 0 {
		return err
	}
	named.children[parent]--
	return remove(s.id, `DELETE FROM session WHERE id = ?`, `DELETE FROM session_origin WHERE session_id = ?`, `DELETE FROM seen WHERE session_id = ?`)
}
