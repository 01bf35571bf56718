package store

import (
	"context"
	"fmt"
)

// Undone is something that an op takes back: one stretch of changes by one command, or one move of its workspace's
// pointer.
type Undone struct {
	Command  CommandID // 0: the changes in the stretch for which no command is known
	Timeline TimelineID
	From, To Seq   // both included
	Ref      int64 // not 0: the move in that line (Ref.N) of the reflog; Timeline, From and To are 0 then
	Partial  bool  // not all of it was taken back
}

func appendUndoes(b []byte, list []Undone) []byte {
	b = putUint(b, uint64(len(list)))
	for i := range list {
		u := &list[i]
		b = putUint(b, uint64(u.Command))
		b = putUint(b, uint64(u.Timeline))
		b = putInt(b, int64(u.From))
		b = putInt(b, int64(u.To))
		b = putInt(b, u.Ref)
		b = putBool(b, u.Partial)
	}
	return b
}

func decodeUndone(d *decoder, u *Undone) {
	u.Command = CommandID(d.uint("undone command"))
	u.Timeline = TimelineID(d.uint("undone timeline"))
	u.From = Seq(d.int("first undone seq"))
	u.To = Seq(d.int("last undone seq"))
	u.Ref = d.int("undone move")
	u.Partial = d.bool("undone in part")
}

// undone writes down what op takes back.
func (a *applier) undone(ctx context.Context, op *Op) error {
	for n, u := range op.Undoes {
		if _, err := a.w.exec(ctx, `INSERT INTO undone (timeline_id, seq, n, command_id, from_timeline_id, from_seq, to_seq, ref_n, partial)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, int64(op.Timeline), int64(op.Seq), int64(n), int64(u.Command), int64(u.Timeline),
			int64(u.From), int64(u.To), u.Ref, asInt(u.Partial)); err != nil {
			return fmt.Errorf("what is taken back: %w", err)
		}
	}
	return nil
}

const (
	undoneCols = `u.seq, u.command_id, u.from_timeline_id, u.from_seq, u.to_seq, u.ref_n, u.partial`
	sqlUndone  = `SELECT ` + undoneCols + ` FROM undone u WHERE u.timeline_id = ? AND u.seq > ? AND u.seq <= ? ORDER BY u.seq, u.n`
)

// Undone calls fn with what the changes of a span take back, in the order of the changes. Command and Except of the span
// are not looked at.
func (s *Store) Undone(ctx context.Context, sp Span, fn func(seq Seq, u Undone) error) error {
	return s.dbError(fmt.Sprintf("read what was undone on timeline %d", sp.Timeline), eachUndone(ctx, s.r, sp, fn))
}

func eachUndone(ctx context.Context, q querier, sp Span, fn func(seq Seq, u Undone) error) error {
	_, err := scanAll(ctx, q, 7, sqlUndone, []any{int64(sp.Timeline), int64(sp.After), int64(sp.UpTo)}, func(c *cells) error {
		u := Undone{
			Command: CommandID(c.int(1)), Timeline: TimelineID(c.int(2)), From: Seq(c.int(3)), To: Seq(c.int(4)), Ref: c.int(5),
			Partial: c.int(6) != 0,
		}
		if c.bad != nil {
			return c.bad
		}
		return fn(Seq(c.int(0)), u)
	})
	return err
}

func undoneBy(ctx context.Context, q querier, t TimelineID, seq Seq) (list []Undone, err error) {
	err = eachUndone(ctx, q, Span{Timeline: t, After: seq - 1, UpTo: seq}, func(_ Seq, u Undone) error {
		list = append(list, u)
		return nil
	})
	return list, err
}
