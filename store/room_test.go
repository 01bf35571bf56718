package store

import (
	"errors"
	"syscall"
	"testing"
	"time"
)

// TestReserveIsKept: content is refused before it takes what is kept for removing and undoing, whatever others take
// from the disk and however much waits in the journal.
func TestReserveIsKept(t *testing.T) {
	const mib = 1 << 20
	free, asked := int64(100*mib), 0
	r := newRoom("x")
	r.disk = func(string) (int64, int64, error) { asked++; return free, 1 << 40, nil }
	later := func() { r.at = r.at.Add(-time.Minute) }
	full := func(n, waiting int64) {
		t.Helper()
		later()
		if err := r.take(n, waiting, nil); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d bytes beside %d: %v", n, waiting, err)
		}
	}
	for range 60 { // the disk is not asked each time, and what was taken counts until it is
		if err := r.take(mib, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if asked > 50 {
		t.Errorf("the disk was asked %d times", asked)
	}
	free = 40 * mib
	full(9*mib, 0)
	full(1, 8*mib)
	if err := r.take(8*mib, 0, nil); err != nil {
		t.Error(err)
	}
	free = 10 * mib // somebody else took some
	full(1, 0)
	free = 100 * mib
	later()
	if err := r.take(mib, mib, nil); err != nil {
		t.Errorf("with room again: %v", err)
	}
	r.disk = func(string) (int64, int64, error) { return 20 * mib, 64 * mib, nil } // a small disk: 4 MiB are kept
	later()
	if err := r.take(16*mib, 0, nil); err != nil {
		t.Error(err)
	}
	full(17*mib, 0)
}
