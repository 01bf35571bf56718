package store

import (
	"context"
	"fmt"
	"strings"
)

// What somebody said of a change. The words are part of the format.
const (
	Accepted = "accepted"
	Rejected = "rejected"
)

// Review is what somebody said of a path of a workspace, in a state of it. An op that takes something in carries what is accepted by that.
type Review struct {
	Workspace WorkspaceID
	Timeline  TimelineID
	Seq       Seq
	Path      string   // "": all there is
	Hunks     []string // of the path; nil: all of it
	Verdict   string
}

// ReviewRow is a Review as the database has it.
type ReviewRow struct {
	Review
	Into    TimelineID // of what was accepted: the change that took it in
	IntoSeq Seq
	Session SessionID
	Command CommandID
	At      int64
}

// schemaReviews: what was said of a workspace, and what a change took in, is found without the rest.
func schemaReviews() []string {
	return []string{
		`CREATE INDEX review_of ON review(workspace_id, path, at)`,
		`CREATE INDEX review_into ON review(into_timeline_id, into_seq)`,
	}
}

// reviews writes down what op says of reviews. Whatever was applied before is left alone.
func (a *applier) reviews(ctx context.Context, op *Op) error {
	session, command, _ := op.Who.ids()
	for i := range op.Reviews {
		r := &op.Reviews[i]
		var hunks any
		if len(r.Hunks) > 0 {
			hunks = strings.Join(r.Hunks, " ")
		}
		var into, intoSeq int64
		if r.Verdict == Accepted {
			into, intoSeq = int64(op.Timeline), int64(op.Seq)
		}
		if _, err := a.w.exec(ctx, `INSERT INTO review (workspace_id, timeline_id, seq, path, hunks, verdict, into_timeline_id, into_seq, session_id,
			command_id, at) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM review WHERE workspace_id = ? AND path = ? AND at = ?
			AND verdict = ? AND into_timeline_id = ? AND into_seq = ?)`, int64(r.Workspace), int64(r.Timeline), int64(r.Seq), []byte(r.Path),
			hunks, r.Verdict, into, intoSeq, session, command, op.At, int64(r.Workspace), []byte(r.Path), op.At, r.Verdict, into, intoSeq); err != nil {
			return fmt.Errorf("a review: %w", err)
		}
	}
	return nil
}

const sqlReviews = `SELECT workspace_id, timeline_id, seq, path, COALESCE(hunks, ''), verdict, into_timeline_id, into_seq, session_id, command_id, at FROM review `

func scanReviews(ctx context.Context, q querier, query string, args ...any) (list []ReviewRow, err error) {
	_, err = scanAll(ctx, q, 11, sqlReviews+query, args, func(c *cells) error {
		list = append(list, ReviewRow{
			Review: Review{
				Workspace: WorkspaceID(c.int(0)), Timeline: TimelineID(c.int(1)), Seq: Seq(c.int(2)), Path: c.string(3),
				Hunks: strings.Fields(c.string(4)), Verdict: c.string(5),
			},
			Into: TimelineID(c.int(6)), IntoSeq: Seq(c.int(7)), Session: SessionID(c.int(8)), Command: CommandID(c.int(9)), At: c.int(10),
		})
		return c.bad
	})
	return list, err
}

// Reviews lists what was said of a workspace, oldest first.
func (s *Store) Reviews(ctx context.Context, ws WorkspaceID) ([]ReviewRow, error) {
	list, err := scanReviews(ctx, s.r, `WHERE workspace_id = ? ORDER BY at, id`, int64(ws))
	return list, s.dbError("list reviews", err)
}

// ReviewParties finds the session and the command of a review, nil for what is not known.
func (s *Store) ReviewParties(ctx context.Context, r *ReviewRow) (*Session, *CommandRow, error) {
	return s.ConflictParties(ctx, &ConflictRow{Session: r.Session, Command: r.Command})
}

func appendReviews(b []byte, list []Review) []byte {
	b = putUint(b, uint64(len(list)))
	for i := range list {
		r := &list[i]
		b = putUint(b, uint64(r.Workspace))
		b = putUint(b, uint64(r.Timeline))
		b = putInt(b, int64(r.Seq))
		b = putString(b, r.Path)
		b = putString(b, r.Verdict)
		b = putUint(b, uint64(len(r.Hunks)))
		for _, h := range r.Hunks {
			b = putString(b, h)
		}
	}
	return b
}

func decodeReviews(d *decoder) []Review {
	return list(d, "reviews", 6, func(d *decoder, r *Review) {
		r.Workspace = WorkspaceID(d.uint("reviewed workspace"))
		r.Timeline = TimelineID(d.uint("reviewed timeline"))
		r.Seq = Seq(d.int("reviewed seq"))
		r.Path = d.string("reviewed path")
		r.Verdict = d.string("verdict")
		r.Hunks = list(d, "reviewed hunks", 1, func(d *decoder, h *string) { *h = d.string("reviewed hunk") })
	})
}
