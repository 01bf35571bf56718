package fstest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/store/sqlite"
)

func errnoOf(n int) error { return unix.Errno(n) }

// TestKillMergedSaves kills the daemon while two sessions save the same files, each without having seen what the other one has just made of
// them. A save that was acknowledged is there after each death, and one that was cut off is there as a whole or not at all; never is there a
// file, nor was there a version of one, that lacks what another session had saved before.
//
// At first the mount dies, too. Then it goes on with the next daemon, and the sessions notice nothing; what one had read and not changed
// when the daemon died counts as not seen, so a conflict may be open: it has what the file lacks.
func TestKillMergedSaves(t *testing.T) {
	w, dir := newMount(t)
	const seed = 20261130
	dice := rand.New(rand.NewPCG(seed, 6))
	s := newSavers(w, dir, "ann", "ben")
	cut, kills := map[string]int{}, max(*opt.kills/4, 2) // 12 with -kills=50: seconds in an ordinary run
	for round := range kills {
		s.run(seed+round, func() {
			time.Sleep(time.Duration(dice.IntN(300)) * time.Millisecond) // any moment
			w.kill()
		})
		w.remount("main", dir)
		s.look(cut)
		if t.Failed() {
			w.stop()
			s.judge() // which says where it went
			t.Fatalf("after %d kills", round+1)
		}
	}
	s.survive = time.Now()
	t.Run("survive", func(t *testing.T) {
		mustSend(t)
		s.run(seed+kills, func() {
			w.killOften(min(kills, 8)) // a keeper gives up after ten in a row
			if err := os.WriteFile(filepath.Join(s.locks, "stop"), nil, 0o644); err != nil {
				t.Error(err)
			}
		})
		for _, one := range s.all {
			if len(one.trying) > 0 {
				t.Errorf("%s ended in the middle of %q", one.name, one.how)
			}
		}
	})
	w.stop()
	h := s.judge()
	acks := 0
	for _, one := range s.all {
		acks += one.acks
	}
	t.Logf("%d kills, %d acknowledged saves, %d of them merged (and %d by a change of its own), %d conflicts open; cut off: %v", kills, acks, h.merged, h.late,
		len(h.open), cut)
	for _, r := range h.open {
		if r.At < s.survive.UnixNano() {
			t.Errorf("conflict %d is open (%v), though all edits go together and each session read what it changed", r.ID, r.Why)
		}
	}
	switch {
	case h.merged+h.late == 0:
		t.Error("nothing was ever merged: the test tests nothing")
	case h.late*10 > h.merged: // by the last but one who has the file open to write, if somebody's close is slow
		t.Error("saves are to be merged by their own change")
	}
}

// TestMergedSaves is the same without kills: every save that meets another one is merged with it.
func TestMergedSaves(t *testing.T) {
	w, dir := newMount(t)
	s := newSavers(w, dir, "ann", "ben")
	s.run(20261201, func() {
		time.Sleep(3 * time.Second)
		if err := os.WriteFile(filepath.Join(s.locks, "stop"), nil, 0o644); err != nil {
			t.Error(err)
		}
	})
	s.look(map[string]int{})
	w.stop()
	h := s.judge()
	t.Logf("%d saves merged, %d by a change of their own, %d conflicts open", h.merged, h.late, len(h.open))
	for _, r := range h.open {
		t.Errorf("conflict %d is open (%v), though all edits go together and each session read what it changed", r.ID, r.Why)
	}
	if h.merged == 0 {
		t.Error("nothing was ever merged: the test tests nothing")
	}
}

// look compares the files in the mount with what was acknowledged, and settles what was cut off: cut counts that, by style.
func (s *savers) look(cut map[string]int) {
	t := s.w.t
	t.Helper()
	for _, f := range s.files {
		text, err := os.ReadFile(filepath.Join(s.root, f))
		if err != nil {
			t.Error(err)
			continue
		}
		have, err := s.counters(string(text))
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		for _, one := range s.all {
			tried, trying := one.trying[f]
			switch n := have[one.name]; {
			case trying && n == tried:
				cut[one.how+": there"]++
				one.saved[f] = n
			case n != one.saved[f]:
				t.Errorf("%s: %s has saved %d and has begun to save %d (%s); there is %d", f, one.name, one.saved[f], tried, one.how, n)
			case trying:
				cut[one.how+": not there"]++
			}
		}
	}
}

// judge reads all that the store has of the files once no daemon runs: at no point of history was one not whole, or without what it had had of
// a session before, unless a conflict has that which was not merged at once; each one that was, came with a version of two parents that
// has what both sides had.
func (s *savers) judge() *historian {
	t := s.w.t
	t.Helper()
	ctx := context.Background()
	st, err := store.Open(ctx, s.w.store, sqlite.Driver(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	h := &historian{s: s, st: st, met: map[int64]*store.ConflictRow{}}
	ws, err := st.Workspace(ctx, "main")
	h.must(err)
	rows, err := st.Conflicts(ctx, store.ConflictQuery{Workspace: ws.ID, Resolved: true})
	h.must(err)
	for i := range rows {
		h.met[rows[i].At] = &rows[i]
	}
	if len(h.met) != len(rows) {
		t.Errorf("%d conflicts came at %d moments", len(rows), len(h.met))
	}
	changes, err := st.ChangesAfter(ctx, ws.ID, 0, store.MaxSeq, 1<<20)
	h.must(err)
	for _, f := range s.files {
		h.file(f, changes)
	}
	for _, r := range h.met {
		t.Errorf("conflict %d (%v, of %s, by %d; base %d, head %d) came with no change of a file", r.ID, r.Why, r.Name, r.Session, r.Base, r.Head)
	}
	return h
}

// historian reads the history of the files of savers.
type historian struct {
	s   *savers
	st  *store.Store
	met map[int64]*store.ConflictRow // by the moment of the change that it came with; ns

	merged int // at once
	late   int // by a change of its own
	open   []*store.ConflictRow
}

func (h *historian) must(err error) {
	h.s.w.t.Helper()
	if err != nil {
		h.s.w.t.Fatal(err)
	}
}

// countersOf reads a content, which has to be whole.
func (h *historian) countersOf(ref blob.Ref) map[string]int {
	h.s.w.t.Helper()
	ctx := context.Background()
	var b []byte
	if !ref.IsZero() {
		size, err := h.st.Blobs().SizeOf(ctx, ref)
		h.must(err)
		b = make([]byte, size)
		_, err = h.st.Blobs().ReadAt(ctx, blob.Content{Ref: ref, Size: size}, b, 0)
		h.must(err)
	}
	n, err := h.s.counters(string(b))
	if err != nil {
		h.s.w.t.Errorf("a content: %v", err)
	}
	return n
}

// file judges one file at every change.
func (h *historian) file(f string, changes []*store.ChangeRow) {
	t, ctx := h.s.w.t, context.Background()
	var have map[string]int
	var last *store.Version
	told := map[string]int{} // the most that conflicts have which were not merged at once
	for _, ch := range changes {
		view, err := h.st.ViewAt(ctx, ch.Timeline, ch.Seq)
		h.must(err)
		name, err := view.Lookup(ctx, store.RootIno, f)
		if have == nil && errors.Is(err, unix.ENOENT) {
			continue // it is still to come
		}
		h.must(err)
		v, err := view.Version(ctx, name.Ino)
		h.must(err)
		if last != nil && v.Content == last.Content {
			last = v
			continue
		}
		now := h.countersOf(v.Content)
		r := h.met[ch.At]
		where := fmt.Sprintf("%s@%d (%v by %s)", f, ch.Seq, ch.Kind, ch.Session.Name)
		if r != nil {
			delete(h.met, ch.At)
			switch {
			case r.Resolved && v.Merge != 0:
				h.merged++
				h.merge(where, r, v, have, now)
			default:
				if r.Resolved {
					h.late++
				} else {
					h.open = append(h.open, r)
				}
				t.Logf("%s: conflict %d (%v): %v over %v", where, r.ID, r.Why, now, have)
				for name, n := range have {
					told[name] = max(told[name], n)
				}
			}
		}
		for name, n := range have {
			if now[name] < n && r == nil {
				t.Errorf("%s: %s had saved %d; then there was %d, and nothing tells", where, name, n, now[name])
			}
		}
		have, last = now, v
	}
	for _, one := range h.s.all {
		if n := max(have[one.name], told[one.name]); n < one.saved[f] {
			t.Errorf("%s: %s has saved %d; the file has %d, and conflicts have %d", f, one.name, one.saved[f], have[one.name], told[one.name])
		}
	}
}

// merge judges a conflict that came with a version and was merged at once: before is what it met.
func (h *historian) merge(where string, r *store.ConflictRow, v *store.Version, before, now map[string]int) {
	t, ctx := h.s.w.t, context.Background()
	for what, id := range map[string]store.VersionID{"it met": r.Head, "the writer had seen": r.Base, "is its other parent": v.Merge} {
		old, err := h.st.VersionByID(ctx, id)
		if err != nil {
			t.Errorf("%s: conflict %d: version %d, which %s, is not to be had: %v", where, r.ID, id, what, err)
		} else if n := h.countersOf(old.Content); id != r.Base && !maps.Equal(n, before) {
			t.Errorf("%s: conflict %d: version %d, which %s, has %v; there was %v", where, r.ID, id, what, n, before)
		}
	}
	want := maps.Clone(before)
	for name, n := range h.countersOf(r.Content) {
		want[name] = max(want[name], n)
	}
	if !maps.Equal(now, want) {
		t.Errorf("%s: conflict %d: it is merged to %v, and both sides have %v", where, r.ID, now, want)
	}
}
