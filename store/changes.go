package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ChangeQuery selects changes. The zero value of every filter but View means "any".
type ChangeQuery struct {
	View    *View     // the read path: changes of the view's timeline and of its ancestors up to their cuts
	Ino     Ino       // changes that touched this inode; Parent and Name are then not looked at
	Parent  Ino       // changes that touched a name in this directory;
	Name    string    // if not empty, only those that gave this name to something or took it away: not writes, which Ino finds
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
	At       int64       // ns since the epoch
	Undoes   []Undone    // what it takes back, of an OpUndo or OpRedo
	Merged   *Merged     // what it took in, of an OpMerge
	Accepted []ReviewRow // of an OpMerge that took in a part
	Items    []ChangeItem
	Session  *Session // nil: unknown, as Command and Process
	Command  *Command
	Ran      *CommandRow // Command with how it ended
	Process  *Process    // with its parents
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
	changeCols = `c.timeline_id, c.seq, c.op_id, c.kind, c.at, c.session_id, c.command_id, c.process_id`
	// changePage is how many changes are read at once: enough to make queries cheap, few enough for a caller that stops.
	changePage = 128
)

// sqlChangeItems finds the items of changes (number, timeline, seq), each with the versions around it.
func sqlChangeItems() string {
	return `WITH k(n, t, q) AS (VALUES %s)
		SELECT k.n, i.n, i.op, i.ino, i.parent_ino, i.name, i.from_parent_ino, i.from_name, ` + versionCols + `, ` +
		strings.ReplaceAll(versionCols, "v.", "b.") + ` FROM k CROSS JOIN change_item i
		LEFT JOIN file_version v ON v.timeline_id = i.timeline_id AND v.past IN (0, 1) AND v.ino = i.ino AND v.seq = i.seq
		LEFT JOIN file_version b ON b.origin_timeline_id = 0 AND b.version_id = CASE v.parent_version_id
			WHEN 0 THEN v.replaced_version_id ELSE v.parent_version_id END
		WHERE i.timeline_id = k.t AND i.seq = k.q`
}

// Changes calls fn with the changes that q selects, newest first along the read path, and stops at the first error,
// which it returns. No transaction is held while fn runs.
func (s *Store) Changes(ctx context.Context, q ChangeQuery, fn func(*ChangeRow) error) error {
	w := newWho(s.r)
	left := q.Limit
	path, err := s.Lineage(ctx, q.View)
	if err != nil {
		return err
	}
	for _, seg := range path {
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

// changesSQL builds the query for one page of one timeline. Every filter finds the seqs first, from columns that its
// index covers: left the choice, SQLite walks the whole timeline instead (plan_test.go).
func changesSQL(q *ChangeQuery, t TimelineID, upTo Seq, limit int) (string, []any) {
	var args []any
	// seqs selects from a table by columns of an index that begins with them and goes on with the seq.
	seqs := func(cols, table, cond string, val int64) string {
		args = append(args, val, int64(t), int64(upTo), int64(q.After))
		return "SELECT " + cols + " FROM " + table + " x WHERE x." + cond + " AND x.timeline_id = ? AND x.seq <= ? AND x.seq > ?"
	}
	const here, from = "parent_ino = ?", "from_parent_ino <> 0 AND x.from_parent_ino = ?" // from: as the index has it
	var sub, where string
	switch {
	case q.Ino != 0:
		sub = seqs("x.seq", "change_item", "ino = ?", int64(q.Ino)) + " GROUP BY x.seq"
	case q.Name != "":
		most := int64(limit)
		if q.Session != 0 || q.Command != 0 {
			most = math.MaxInt64 // what is not theirs is dropped later
		}
		sub, args = bindingsSQL(q, t, upTo, most)
	case q.Parent != 0:
		sub = seqs("x.seq", "change_item", here, int64(q.Parent)) + " UNION " +
			seqs("x.seq", "change_item", from, int64(q.Parent))
	case q.Command != 0:
		sub = seqs("x.seq", "change", "command_id = ?", int64(q.Command))
	case q.Session != 0:
		sub = seqs("x.seq", "change", "session_id = ?", int64(q.Session))
	default:
		return "SELECT " + changeCols + " FROM change c WHERE c.timeline_id = ? AND c.seq <= ? AND c.seq > ? ORDER BY c.seq DESC LIMIT ?",
			[]any{int64(t), int64(upTo), int64(q.After), int64(limit)}
	}
	sub += " ORDER BY 1 DESC"
	items := q.Ino != 0 || q.Parent != 0 || q.Name != ""
	if session, command := q.Session != 0 && (items || q.Command != 0), q.Command != 0 && items; session || command {
		args = append(args, int64(t))
		if session {
			where += " AND c.session_id = ?"
			args = append(args, int64(q.Session))
		}
		if command {
			where += " AND c.command_id = ?"
			args = append(args, int64(q.Command))
		}
	} else {
		sub += " LIMIT ?"
		args = append(args, int64(limit), int64(t))
	}
	return "SELECT " + changeCols + " FROM (" + sub + ") k CROSS JOIN change c WHERE c.timeline_id = ? AND c.seq = k.seq" + where +
		" ORDER BY c.seq DESC LIMIT ?", append(args, int64(limit))
}

// bindingsSQL selects where a name was given or taken away: where its row of now begins, and where the superseded ones begin
// and end. Those do not overlap, so that the newest begin and end last, and a page costs what is on it, however much happened
// in the directory or to the name. One more is read of the ends: that of the newest may lie above upTo. Where states were collected
// such rows are gone, but that a name was removed may be kept (Retention.Removals); few changes are left there.
func bindingsSQL(q *ChangeQuery, t TimelineID, upTo Seq, most int64) (string, []any) {
	key := []any{int64(t), int64(q.Parent), []byte(q.Name), int64(upTo)}
	past := "(SELECT h.seq, h.end_seq FROM file_node_history h WHERE h.timeline_id = ? AND h.parent_ino = ? AND h.name = ? AND h.seq <= ?" +
		" ORDER BY h.seq DESC LIMIT ?) k"
	args := append(key[:4:4], int64(q.After))
	args = append(append(args, key...), most, int64(q.After))
	args = append(append(args, key...), most+min(1, math.MaxInt64-most), int64(upTo), int64(q.After))
	args = append(args, int64(q.Parent), int64(t), int64(q.After), int64(upTo), int64(t), int64(t), int64(q.Parent), []byte(q.Name), int64(OpUnlink), int64(OpRmdir))
	return "SELECT f.seq FROM file_node f WHERE f.timeline_id = ? AND f.parent_ino = ? AND f.name = ? AND f.seq <= ? AND f.seq > ?" +
		" UNION SELECT k.seq FROM " + past + " WHERE k.seq > ?" +
		" UNION SELECT k.end_seq FROM " + past + " WHERE k.end_seq <= ? AND k.end_seq > ?" +
		" UNION SELECT i.seq FROM (SELECT x.seq FROM change_item x WHERE x.parent_ino = ? AND x.timeline_id = ? AND x.seq > ?" +
		" AND x.seq <= min(?, (SELECT gc_seq FROM timeline WHERE id = ?)) GROUP BY x.seq) k CROSS JOIN change_item i WHERE i.timeline_id = ? AND i.seq = k.seq" +
		" AND i.parent_ino = ? AND i.name = ? AND i.op IN (?, ?)", args
}

func (s *Store) changePage(ctx context.Context, w *who, q *ChangeQuery, t TimelineID, upTo Seq, limit int) ([]*ChangeRow, error) {
	var page []*ChangeRow
	var ids [][3]int64
	query, args := changesSQL(q, t, upTo, limit)
	_, err := scanAll(ctx, s.r, 8, query, args, func(c *cells) error {
		page = append(page, &ChangeRow{
			Timeline: TimelineID(c.int(0)), Seq: Seq(c.int(1)), OpID: c.int(2), Kind: OpKind(c.int(3)), At: c.int(4),
		})
		ids = append(ids, [3]int64{c.int(5), c.int(6), c.int(7)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, row := range page {
		if err := w.fill(ctx, row, ids[i]); err != nil {
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
	err := keyed(ctx, s.r, sqlChangeItems(), 3, keys, func(rows result) error {
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
