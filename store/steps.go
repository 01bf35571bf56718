package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Step is a change as far as it is needed to choose changes: without its items.
type Step struct {
	Timeline TimelineID
	Seq      Seq
	Kind     OpKind
	At       int64 // ns since the epoch
	Session  SessionID
	Command  CommandID
	Bare     bool // it has no items: nothing that a person would call a change
}

const (
	stepCols = `SELECT c.seq, c.kind, c.at, c.session_id, c.command_id`
	stepBare = `, NOT EXISTS (SELECT 1 FROM change_item i WHERE i.timeline_id = c.timeline_id AND i.seq = c.seq) FROM change c`
	// stepPage is how many steps are read at once.
	stepPage = 512

	sqlSteps = stepCols + stepBare + ` WHERE c.timeline_id = ? AND c.seq > ? AND c.seq <= ? ORDER BY c.seq DESC LIMIT ?`
	// The seqs first, from columns that the index covers: left the choice, SQLite walks the whole timeline instead.
	stepOf          = stepCols + `, NOT EXISTS (SELECT 1 FROM change_item i WHERE i.timeline_id = c.timeline_id AND i.seq = c.seq) FROM (`
	stepTail        = ` AND x.seq > ? AND x.seq <= ? ORDER BY 1 DESC LIMIT ?) k CROSS JOIN change c WHERE c.timeline_id = k.t AND c.seq = k.seq`
	sqlStepsCommand = stepOf + `SELECT x.seq, x.timeline_id AS t FROM change x WHERE x.command_id = ? AND x.timeline_id = ?` + stepTail
	sqlStepsSession = stepOf + `SELECT x.seq, x.timeline_id AS t FROM change x WHERE x.session_id = ? AND x.timeline_id = ?` + stepTail
)

func (c *cells) step(t TimelineID) Step {
	return Step{
		Timeline: t, Seq: Seq(c.int(0)), Kind: OpKind(c.int(1)), At: c.int(2), Session: SessionID(c.int(3)),
		Command: CommandID(c.int(4)),
	}
}

// StepsBack calls fn with the changes of a span, newest first, until it returns false. Of the span's filters it knows
// Command and Session, one at a time.
func (s *Store) StepsBack(ctx context.Context, sp Span, fn func(*Step) (bool, error)) error {
	query, first := sqlSteps, []any(nil)
	switch {
	case sp.Command != 0:
		query, first = sqlStepsCommand, []any{int64(sp.Command)}
	case sp.Session != 0:
		query, first = sqlStepsSession, []any{int64(sp.Session)}
	}
	for upTo := sp.UpTo; upTo > sp.After; {
		var page []Step
		args := append(first[:len(first):len(first)], int64(sp.Timeline), int64(sp.After), int64(upTo), int64(stepPage))
		if _, err := scanAll(ctx, s.r, 6, query, args, func(c *cells) error {
			st := c.step(sp.Timeline)
			st.Bare = c.int(5) != 0
			page = append(page, st)
			return nil
		}); err != nil {
			return s.dbError(fmt.Sprintf("read the changes of timeline %d", sp.Timeline), err)
		}
		// In order already; this only guards against a plan that does not keep it.
		slices.SortStableFunc(page, func(a, b Step) int { return cmp.Compare(b.Seq, a.Seq) })
		for i := range page {
			if more, err := fn(&page[i]); !more || err != nil {
				return err
			}
		}
		if len(page) < stepPage {
			return nil
		}
		upTo = page[len(page)-1].Seq - 1
	}
	return nil
}

const sqlOtherBefore = `SELECT c.seq FROM change c WHERE c.timeline_id = ? AND c.seq >= ? AND c.seq < ? AND +c.command_id <> ? ORDER BY c.seq DESC LIMIT 1`

// OtherBefore is the newest change before a seq and not before from that another command made, from - 1 if all are of this one.
func (s *Store) OtherBefore(ctx context.Context, t TimelineID, c CommandID, from, before Seq) (Seq, error) {
	seq := from - 1
	_, err := scanAll(ctx, s.r, 1, sqlOtherBefore, []any{int64(t), int64(from), int64(before), int64(c)}, func(c *cells) error {
		seq = Seq(c.int(0))
		return nil
	})
	return seq, s.dbError(fmt.Sprintf("find the changes around those of command %d", c), err)
}

const sqlVersionsByID = `WITH k(n, id) AS (VALUES %s)
	SELECT k.n, ` + versionCols + ` FROM k CROSS JOIN file_version v WHERE v.version_id = k.id AND v.origin_timeline_id = 0`

// VersionsByID finds many versions by their ids. The result has nil for those that do not exist.
func (s *Store) VersionsByID(ctx context.Context, ids []VersionID) ([]*Version, error) {
	out := make([]*Version, len(ids))
	keys := make([]any, 0, 2*len(ids))
	for i, id := range ids {
		keys = append(keys, int64(i), int64(id))
	}
	c := newCells(1 + versionWidth)
	err := keyed(ctx, s.r, sqlVersionsByID, 2, keys, func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		var err error
		out[c.int(0)], err = c.version(1)
		return err
	})
	return out, s.dbError(fmt.Sprintf("find %d versions", len(ids)), err)
}

// CommandStretch is the first and last change of a command in a span, 0 if there is none.
func (s *Store) CommandStretch(ctx context.Context, sp Span) (from, to Seq, err error) {
	args := []any{int64(sp.Command), int64(sp.Timeline), int64(sp.After), int64(sp.UpTo)}
	_, err = scanAll(ctx, s.r, 2, sqlCommandStretch, append(args, args...), func(c *cells) error {
		from, to = Seq(c.int(0)), Seq(c.int(1))
		return nil
	})
	return from, to, s.dbError(fmt.Sprintf("find the changes of command %d", sp.Command), err)
}

// Each alone is one step into the index; both in one walk along it would look at every change of the command.
const sqlCommandStretch = `SELECT (SELECT min(x.seq) FROM change x WHERE x.command_id = ? AND x.timeline_id = ? AND x.seq > ? AND x.seq <= ?),
	(SELECT max(y.seq) FROM change y WHERE y.command_id = ? AND y.timeline_id = ? AND y.seq > ? AND y.seq <= ?)`

const sqlSessionsNamed = `SELECT id FROM session WHERE name = ?`

// sqlSessionsBelow goes down from the sessions of a name.
const sqlSessionsBelow = `WITH RECURSIVE b(id) AS (
	SELECT id FROM session WHERE name = ?
	UNION SELECT o.session_id FROM b JOIN session_origin o ON o.parent_id = b.id)
	SELECT id FROM b`

// SessionsNamed finds the sessions of that name, of any workspace, and if below is set those that they started.
func (s *Store) SessionsNamed(ctx context.Context, name string, below bool) ([]SessionID, error) {
	query := sqlSessionsNamed
	if below {
		query = sqlSessionsBelow
	}
	var list []SessionID
	_, err := scanAll(ctx, s.r, 1, query, []any{name}, func(c *cells) error {
		list = append(list, SessionID(c.int(0)))
		return c.bad
	})
	return list, s.dbError(fmt.Sprintf("find the sessions named %q", name), err)
}
