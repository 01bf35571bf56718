package daemon

import (
	"testing"
	"time"

	"wsfs/store"
)

func TestLag(t *testing.T) {
	var l lag
	start := time.Unix(1_800_000_000, 0)
	for i, step := range []struct {
		after         time.Duration
		last, applied store.Slot
		want          time.Duration
	}{
		{0, 10, 10, 0},
		{1 * time.Second, 20, 10, 0}, // it may have come just now
		{3 * time.Second, 30, 10, 2 * time.Second},
		{4 * time.Second, 40, 20, 1 * time.Second}, // what waits now was there at 3 s
		{9 * time.Second, 40, 39, 5 * time.Second},
		{10 * time.Second, 40, 40, 0},
		{20 * time.Second, 50, 40, 0},
	} {
		if got := l.of(start.Add(step.after), step.last, step.applied); got != step.want {
			t.Errorf("question %d: %v, want %v", i, got, step.want)
		}
	}
	for i := range 3 * maxLagMarks {
		if got, want := l.of(start.Add(time.Duration(i)*time.Hour+20*time.Second), store.Slot(60+i), 40), time.Duration(i)*time.Hour; got != want {
			t.Fatalf("after %d questions %v, want %v", i, got, want)
		}
	}
	if len(l.marks) > maxLagMarks {
		t.Errorf("%d marks", len(l.marks))
	}
}
