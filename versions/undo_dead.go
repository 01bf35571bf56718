package versions

import (
	"context"
	"slices"

	"wsfs/store"
)

// undoings says what of a life has been taken back. A change that takes something back counts only as long as it is not
// taken back itself, so they are gone through newest first: undo, redo, undo again all come out right.
type undoings struct {
	steps map[commandOn][]undoing
	moves map[int64]*undoing // by the line of the reflog
	// takers are the commands that took something back, whether or not that stands.
	takers map[commandOn]bool
}

type commandOn struct {
	command  store.CommandID
	timeline store.TimelineID
}

// undoing is one stretch that was taken back, and who did it.
type undoing struct {
	from, to store.Seq
	partial  bool
	by       moment
	at       int64 // when; ns since the epoch
	command  store.CommandID
	session  store.SessionID
}

func (l *life) undoings(ctx context.Context) (*undoings, error) {
	u := &undoings{steps: map[commandOn][]undoing{}, moves: map[int64]*undoing{}, takers: map[commandOn]bool{}}
	for i := len(l.pieces) - 1; i >= 0; i-- {
		p := l.pieces[i]
		if p.move != nil {
			if p.undoes != nil && u.move(p.move.N) == nil {
				u.moves[p.undoes.move.N] = &undoing{by: p.at(), at: p.move.At, command: p.move.Command, session: p.move.Session}
			}
			continue
		}
		if err := u.span(ctx, l.st, p); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func (u *undoings) span(ctx context.Context, st *store.Store, p *piece) error {
	type row struct {
		seq store.Seq
		u   store.Undone
	}
	var rows []row
	if err := st.Undone(ctx, p.span, func(seq store.Seq, un store.Undone) error {
		rows = append(rows, row{seq, un})
		return nil
	}); err != nil || len(rows) == 0 {
		return err
	}
	at := make([]store.Segment, len(rows))
	for i, r := range rows {
		at[i] = store.Segment{Timeline: p.span.Timeline, Cut: r.seq}
	}
	who, err := st.ChangesAt(ctx, at)
	if err != nil {
		return err
	}
	for i, r := range slices.Backward(rows) {
		d := undoing{from: r.u.From, to: r.u.To, partial: r.u.Partial, by: moment{seq: r.seq}}
		if row := who[i]; row != nil {
			d.at = row.At
			if row.Command != nil {
				d.command = row.Command.ID
			}
			if row.Session != nil {
				d.session = row.Session.ID
			}
		}
		u.takers[commandOn{d.command, p.span.Timeline}] = true
		if u.step(p.span.Timeline, d.command, r.seq) != nil {
			continue
		}
		if r.u.Ref == 0 {
			key := commandOn{r.u.Command, r.u.Timeline}
			u.steps[key] = append(u.steps[key], d)
		} else if p.own && u.moves[r.u.Ref] == nil {
			u.moves[r.u.Ref] = &d
		}
	}
	return nil
}

// step is what took a change of a command back, nil if it stands.
func (u *undoings) step(t store.TimelineID, command store.CommandID, seq store.Seq) *undoing {
	list := u.steps[commandOn{command, t}]
	for i := range list {
		if d := &list[i]; d.from <= seq && seq <= d.to {
			return d
		}
	}
	return nil
}

func (u *undoings) move(ref int64) *undoing { return u.moves[ref] }
