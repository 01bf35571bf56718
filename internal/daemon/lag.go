package daemon

import (
	"sync"
	"time"

	"wsfs/store"
)

// lag measures how long the database has been behind. It learns only when it is asked, so that no change pays for it: the
// answer is exact to the time between two questions, and never too long.
type lag struct {
	mu    sync.Mutex
	marks []lagMark // guarded by mu; oldest first, each of a slot that was not applied when it was noted
}

type lagMark struct {
	slot store.Slot
	at   time.Time
}

// maxLagMarks bounds what is remembered between questions.
const maxLagMarks = 256

// of is since when, as far as is known, something waits: the first question at which the oldest of what waits now was there.
func (l *lag) of(now time.Time, last, applied store.Slot) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.marks) > 0 && l.marks[0].slot <= applied {
		l.marks = l.marks[1:]
	}
	if last <= applied {
		l.marks = nil
		return 0
	}
	if n := len(l.marks); n == 0 || l.marks[n-1].slot < last {
		if n == maxLagMarks { // the newest are the ones to thin out: the oldest says how long
			l.marks[n-1] = lagMark{last, now}
		} else {
			l.marks = append(l.marks, lagMark{last, now})
		}
	}
	return now.Sub(l.marks[0].at)
}
