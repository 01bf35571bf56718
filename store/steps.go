package store

import (
	"cmp"
	"context"
	"database/sql"
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

	// Every column costs: nothing is read that StepItems does not promise.
	stepItems   = `SELECT c.seq, c.kind, c.command_id, i.op, i.ino, i.parent_ino, i.name, i.from_parent_ino, i.from_name`
	stepVersion = `, v.version_id, v.parent_version_id, v.mode, v.uid, v.gid, v.nlink, v.rdev, v.size, v.holes, v.mtime, v.ctime, v.atime,
		v.content_hash, v.target, v.xattrs`
	stepItemCols = 9
	stepAllCols  = stepItemCols + 15

	stepJoin  = ` FROM change c CROSS JOIN change_item i`
	stepWhere = ` WHERE c.timeline_id = ? AND c.seq > ? AND c.seq <= ? AND i.timeline_id = c.timeline_id AND i.seq = c.seq
		ORDER BY c.seq, i.n`
	sqlStepItems    = stepItems + stepJoin + stepWhere
	sqlStepVersions = stepItems + stepVersion + stepJoin +
		` LEFT JOIN file_version v ON v.timeline_id = i.timeline_id AND v.ino = i.ino AND v.seq = i.seq` + stepWhere
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

// StepItems calls fn with every item of the changes in a span, oldest first and in the order of the items, and with the
// version that the item's inode became there if versions is set (nil if there is none: only a name changed, or a directory's
// version was merged with a later one of the same group). Of the step, At, Session and Bare are not set, of the version
// Replaced and Merge. The arguments but the version are good until fn returns.
func (s *Store) StepItems(ctx context.Context, sp Span, versions bool, fn func(*Step, *Item, *Version) error) error {
	if sp.UpTo <= sp.After {
		return nil
	}
	query, width := sqlStepItems, stepItemCols
	if versions {
		query, width = sqlStepVersions, stepAllCols
	}
	st := Step{Timeline: sp.Timeline}
	var it Item
	_, err := scanAll(ctx, s.r, width, query, []any{int64(sp.Timeline), int64(sp.After), int64(sp.UpTo)}, func(c *cells) error {
		st.Seq, st.Kind, st.Command = Seq(c.int(0)), OpKind(c.int(1)), CommandID(c.int(2))
		it = Item{
			Op: OpKind(c.int(3)), Ino: Ino(c.int(4)), Parent: Ino(c.int(5)), Name: c.string(6), FromParent: Ino(c.int(7)),
			FromName: c.string(8),
		}
		var v *Version
		if versions && !c.null(stepItemCols) {
			var err error
			if v, err = c.stepVersion(&st, &it); err != nil {
				return err
			}
		}
		if c.bad != nil {
			return c.bad
		}
		return fn(&st, &it, v)
	})
	return s.dbError(fmt.Sprintf("read what changed on timeline %d after %d", sp.Timeline, sp.After), err)
}

func (c *cells) stepVersion(st *Step, it *Item) (*Version, error) {
	const i = stepItemCols
	v := &Version{
		Ino: it.Ino, Seq: st.Seq, Origin: st.Timeline, ID: VersionID(c.int(i)), Parent: VersionID(c.int(i + 1)),
		Mode: uint32(c.int(i + 2)), UID: uint32(c.int(i + 3)), GID: uint32(c.int(i + 4)), Nlink: uint32(c.int(i + 5)),
		Rdev: uint32(c.int(i + 6)), Size: c.int(i + 7), Holes: c.int(i + 8), Mtime: c.int(i + 9), Ctime: c.int(i + 10),
		Content: c.ref(i + 12), Target: c.string(i + 13),
	}
	v.Atime = v.Mtime
	if !c.null(i + 11) {
		v.Atime = c.int(i + 11)
	}
	if b := c.bytes(i + 14); b != nil {
		x, err := decodeXattrs(b)
		if err != nil {
			return nil, fmt.Errorf("version %d of inode %d: %w: %w", v.ID, v.Ino, err, ErrCorrupt)
		}
		v.Xattrs = x
	}
	return v, c.bad
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
	err := keyed(ctx, s.r, sqlVersionsByID, 2, keys, func(rows *sql.Rows) error {
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
	_, err = scanAll(ctx, s.r, 2, sqlCommandStretch,
		[]any{int64(sp.Command), int64(sp.Timeline), int64(sp.After), int64(sp.UpTo)}, func(c *cells) error {
			from, to = Seq(c.int(0)), Seq(c.int(1))
			return nil
		})
	return from, to, s.dbError(fmt.Sprintf("find the changes of command %d", sp.Command), err)
}

const sqlCommandStretch = `SELECT min(x.seq), max(x.seq) FROM change x WHERE x.command_id = ? AND x.timeline_id = ? AND x.seq > ? AND x.seq <= ?`

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
