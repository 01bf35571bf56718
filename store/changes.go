package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// ChangeQuery selects changes. The zero value of every filter but View means "any".
type ChangeQuery struct {
	View    *View     // the read path: changes of the view's timeline and of its ancestors up to their cuts
	Ino     Ino       // changes that touched this inode
	Parent  Ino       // changes that touched a name in this directory,
	Name    string    // and only this name, if not empty
	Session SessionID // changes by this session
	Command CommandID // changes by this command
	After   Seq       // only seqs greater than this
	UpTo    Seq       // only seqs up to and including this; 0: no bound
	Limit   int       // at most so many; 0: all
}

// ChangeRow is one change with everything that log shows of it. The receiver owns it.
type ChangeRow struct {
	Timeline TimelineID
	Seq      Seq
	OpID     int64 // 0 if unknown
	Kind     OpKind
	At       int64 // ns since the epoch
	Undoes   int64 // op id of the change that this one undoes, 0 if none
	Items    []ChangeItem
	Session  *Session // nil: unknown, as Command and Process
	Command  *Command
	Process  *Process // with its parents
}

// ChangeItem is an Item with the versions around it.
type ChangeItem struct {
	Item
	// Version is what the inode became at this seq; nil if only a name changed or a directory's version was merged
	// with a later one of the same group.
	Version *Version
	// Before is the version that Version came from: its parent, else what it replaced; nil for something new.
	Before *Version
}

const (
	changeCols = `c.timeline_id, c.seq, c.op_id, c.kind, c.at, c.undoes_change, c.session_id, c.command_id, c.process_id`
	// changePage is how many changes are read at once: enough to make queries cheap, few enough for a caller that stops.
	changePage = 128
)

// sqlChangeItems finds the items of changes (number, timeline, seq), each with the versions around it.
func sqlChangeItems() string {
	return `WITH k(n, t, q) AS (VALUES %s)
		SELECT k.n, i.n, i.op, i.ino, i.parent_ino, i.name, i.from_parent_ino, i.from_name, ` + versionCols + `, ` +
		strings.ReplaceAll(versionCols, "v.", "b.") + ` FROM k CROSS JOIN change_item i
		LEFT JOIN file_version v ON v.timeline_id = i.timeline_id AND v.ino = i.ino AND v.seq = i.seq
		LEFT JOIN file_version b ON b.version_id = CASE v.parent_version_id WHEN 0 THEN v.replaced_version_id
			ELSE v.parent_version_id END
		WHERE i.timeline_id = k.t AND i.seq = k.q`
}

// Changes calls fn with the changes that q selects, newest first along the read path, and stops at the first error,
// which it returns. No transaction is held while fn runs.
func (s *Store) Changes(ctx context.Context, q ChangeQuery, fn func(*ChangeRow) error) error {
	w := newWho(s.r)
	left := q.Limit
	for _, seg := range q.View.path {
		upTo := seg.Cut
		if q.UpTo != 0 {
			upTo = min(upTo, q.UpTo)
		}
		for upTo > q.After {
			n := changePage
			if q.Limit != 0 {
				n = min(n, left)
			}
			page, err := s.changePage(ctx, w, &q, seg.Timeline, upTo, n)
			if err != nil {
				return s.dbError("read changes", err)
			}
			for _, row := range page {
				if err := fn(row); err != nil {
					return err
				}
			}
			left -= len(page)
			if q.Limit != 0 && left <= 0 {
				return nil
			}
			if len(page) < n {
				break
			}
			upTo = page[len(page)-1].Seq - 1
		}
	}
	return nil
}

// changesSQL builds the query for one page of one timeline. Filters by inode or name find the seqs first, by the
// index of the items.
func changesSQL(q *ChangeQuery, t TimelineID, upTo Seq, limit int) (string, []any) {
	var args []any
	from, where := "change c", "c.timeline_id = ? AND c.seq <= ? AND c.seq > ?"
	seqs := func(cond string, vals ...any) string {
		args = append(append(args, int64(t), int64(upTo), int64(q.After)), vals...)
		return `SELECT i.seq FROM change_item i WHERE i.timeline_id = ? AND i.seq <= ? AND i.seq > ? AND ` + cond
	}
	var sub string
	switch {
	case q.Ino != 0:
		sub = seqs("i.ino = ?", int64(q.Ino))
		if q.Parent != 0 {
			sub += " AND i.parent_ino = ?"
			args = append(args, int64(q.Parent))
		}
		if q.Name != "" {
			sub += " AND i.name = ?"
			args = append(args, []byte(q.Name))
		}
		sub += " GROUP BY i.seq"
	case q.Name != "":
		sub = seqs("i.parent_ino = ? AND i.name = ?", int64(q.Parent), []byte(q.Name)) + " UNION " +
			seqs("i.from_parent_ino = ? AND i.from_name = ?", int64(q.Parent), []byte(q.Name))
	case q.Parent != 0:
		sub = seqs("i.parent_ino = ?", int64(q.Parent)) + " UNION " +
			seqs("i.from_parent_ino = ? AND i.from_name IS NOT NULL", int64(q.Parent))
	}
	if sub != "" {
		sub += " ORDER BY 1 DESC"
		if q.Session == 0 && q.Command == 0 {
			sub += " LIMIT ?"
			args = append(args, int64(limit))
		}
		from, where = "("+sub+") k CROSS JOIN change c", "c.timeline_id = ? AND c.seq = k.seq"
		args = append(args, int64(t))
	} else {
		args = append(args, int64(t), int64(upTo), int64(q.After))
	}
	if q.Session != 0 {
		where += " AND c.session_id = ?"
		args = append(args, int64(q.Session))
	}
	if q.Command != 0 {
		where += " AND c.command_id = ?"
		args = append(args, int64(q.Command))
	}
	return "SELECT " + changeCols + " FROM " + from + " WHERE " + where + " ORDER BY c.seq DESC LIMIT ?",
		append(args, int64(limit))
}

func (s *Store) changePage(ctx context.Context, w *who, q *ChangeQuery, t TimelineID, upTo Seq, limit int) ([]*ChangeRow, error) {
	var page []*ChangeRow
	var ids [][3]int64
	query, args := changesSQL(q, t, upTo, limit)
	_, err := scanAll(ctx, s.r, 9, query, args, func(c *cells) error {
		page = append(page, &ChangeRow{
			Timeline: TimelineID(c.int(0)), Seq: Seq(c.int(1)), OpID: c.int(2), Kind: OpKind(c.int(3)), At: c.int(4),
			Undoes: c.int(5),
		})
		ids = append(ids, [3]int64{c.int(6), c.int(7), c.int(8)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, row := range page {
		if row.Session, err = w.session(ctx, SessionID(ids[i][0])); err != nil {
			return nil, err
		}
		cmd, err := w.command(ctx, CommandID(ids[i][1]))
		if err != nil {
			return nil, err
		}
		if cmd != nil {
			row.Command = &cmd.Command
		}
		if row.Process, err = w.process(ctx, ProcessID(ids[i][2])); err != nil {
			return nil, err
		}
	}
	return page, s.changeItems(ctx, page)
}

func (s *Store) changeItems(ctx context.Context, page []*ChangeRow) error {
	keys := make([]any, 0, 3*len(page))
	for i, row := range page {
		keys = append(keys, int64(i), int64(row.Timeline), int64(row.Seq))
	}
	order := make(map[*ChangeRow][]int64)
	c := newCells(8 + 2*versionWidth)
	err := keyed(ctx, s.r, sqlChangeItems(), 3, keys, func(rows *sql.Rows) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		it := ChangeItem{Item: Item{
			Op: OpKind(c.int(2)), Ino: Ino(c.int(3)), Parent: Ino(c.int(4)), Name: c.string(5), FromParent: Ino(c.int(6)),
			FromName: c.string(7),
		}}
		var err error
		if !c.null(8) {
			it.Version, err = c.version(8)
		}
		if err == nil && !c.null(8+versionWidth) {
			it.Before, err = c.version(8 + versionWidth)
		}
		if err != nil {
			return err
		}
		row := page[c.int(0)]
		// Items come in order; this only guards against a plan that does not.
		at, _ := slices.BinarySearchFunc(order[row], c.int(1), cmp.Compare[int64])
		order[row] = slices.Insert(order[row], at, c.int(1))
		row.Items = slices.Insert(row.Items, at, it)
		return c.bad
	})
	if err != nil {
		return fmt.Errorf("items: %w", err)
	}
	return nil
}
