package versions

import (
	"context"
	"slices"

	"wsfs/store"
)

// ReviewSaid is what somebody said of a change last, and that still holds: what was accepted and then taken back was not.
type ReviewSaid struct {
	store.ReviewRow
	By *store.Session    // nil: unknown, as Command
	In *store.CommandRow // the command
}

// Said tells of changes what was said of them; ws is the workspace that made them.
func (r *Review) Said(ctx context.Context, st *store.Store, ws store.WorkspaceID) error {
	rows, err := st.Reviews(ctx, ws)
	if err != nil || len(rows) == 0 {
		return err
	}
	l := &life{st: st, ws: &store.Workspace{}}
	if err := l.inherit(ctx, r.At); err != nil {
		return err
	}
	var dead *undoings
	for i := range rows {
		row := &rows[i]
		said := &ReviewSaid{ReviewRow: *row}
		if said.By, said.In, err = st.ReviewParties(ctx, row); err != nil {
			return err
		}
		if row.Verdict == store.Accepted {
			if !slices.ContainsFunc(l.pieces, func(p *piece) bool {
				return p.span.Timeline == row.Into && p.span.After < row.IntoSeq && row.IntoSeq <= p.span.UpTo
			}) {
				continue // into something else, or that state was left
			}
			if dead == nil {
				if dead, err = l.undoings(ctx); err != nil {
					return err
				}
			}
			if d := dead.step(row.Into, row.Command, row.IntoSeq); d != nil && !d.partial {
				continue
			}
		}
		for k := range r.Changes {
			c := &r.Changes[k]
			if slices.Contains(row.Hunks, c.ID) || len(row.Hunks) == 0 && below(c.Path, row.Path) && row.Timeline == r.From.Timeline && r.knew(c, row.Seq) {
				c.Said = said
			}
		}
	}
	return nil
}

// knew reports whether a change was made by the time of a state.
func (r *Review) knew(c *Change, seq store.Seq) bool {
	return !slices.ContainsFunc(c.By, func(b ChangeBy) bool { return b.Seq > seq })
}
