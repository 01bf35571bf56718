package versions

import (
	"context"
	"slices"

	"wsfs/store"
)

// deadRun changes in a row that were taken back together are looked at one by one; those behind them are stepped over.
const deadRun = 64

// newest finds the newest change or move that stands and is not to be skipped, of one of these sessions or, without any, of
// anybody; the piece is nil if there is none. What other sessions did costs nothing.
func (l *life) newest(ctx context.Context, own []store.SessionID, dead *undoings, skip func(*piece, *store.Step) bool) (*piece, *store.Step, error) {
	sessions := slices.Compact(slices.Sorted(slices.Values(own)))
	slices.Reverse(sessions) // the newest have probably done the newest
	if len(sessions) == 0 {
		sessions = []store.SessionID{0} // the filter that keeps everything
	}
	for _, pc := range slices.Backward(l.pieces) {
		if m := pc.move; m != nil {
			if (len(own) == 0 || slices.Contains(own, m.Session)) && dead.deadBy(pc, nil) == nil && !skip(pc, nil) {
				return pc, nil, nil
			}
			continue
		}
		var found *store.Step
		for _, session := range sessions {
			sp := pc.span
			if sp.Session = session; found != nil {
				sp.After = found.Seq // only a newer one counts
			}
			s, err := l.newestIn(ctx, sp, dead, func(s *store.Step) bool { return len(own) > 0 && s.Session != session || skip(pc, s) })
			if err != nil {
				return nil, nil, err
			}
			if s != nil {
				found = s
			}
		}
		if found != nil {
			return pc, found, nil
		}
	}
	return nil, nil, nil
}

// newestIn finds the newest change of a span that stands and is not to be skipped, nil if there is none.
func (l *life) newestIn(ctx context.Context, sp store.Span, dead *undoings, skip func(*store.Step) bool) (found *store.Step, err error) {
	for over := true; over && err == nil && sp.UpTo > sp.After; {
		var by *undoing
		var last store.Step
		run := 0
		err = l.st.StepsBack(ctx, sp, func(s *store.Step) (bool, error) {
			switch d := dead.step(s.Timeline, s.Command, s.Seq); {
			case d != nil && d == by:
				run++
			case d != nil:
				by, run = d, 1
			case skip(s):
			default:
				found = s
			}
			last = *s
			return found == nil && run < deadRun, nil
		})
		if over = err == nil && found == nil && run >= deadRun; over {
			sp.UpTo, err = l.st.OtherBefore(ctx, sp.Timeline, last.Command, max(by.from, sp.After+1), last.Seq)
		}
	}
	return found, err
}
