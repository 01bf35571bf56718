package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leave writes n ops of size bytes into a journal that no database gets to see, as a kill -9 right after the last Wait
// would leave them, and returns the segment files.
func leave(t testing.TB, dir string, n, size int) []string {
	t.Helper()
	p := startPipe(t, dir, newFakeDB(), never())
	for i := range n {
		p.mustWait(p.mustPut(int64(i+1), size))
	}
	p.abandon()
	return segments(t, dir)
}

// segments are the journal's files that have something in them.
func segments(t testing.TB, dir string) []string {
	t.Helper()
	used, _, _, err := listSegments(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, sf := range used {
		out = append(out, sf.path)
	}
	return out
}

// recordsOf are the offsets of the records of a segment.
func recordsOf(t testing.TB, path string) (offs []int, recs []record, data []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := parseHeader(data)
	if err != nil {
		t.Fatal(err)
	}
	for off := segHeader; ; {
		r, ok := parseRecord(data, off, h.salt)
		if !ok {
			return offs, recs, data
		}
		offs = append(offs, off)
		recs = append(recs, r)
		off = r.end
	}
}

func patch(t testing.TB, path string, off int, b ...byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, int64(off)); err != nil {
		t.Fatal(err)
	}
}

// elsewhere makes a segment look as if the machine had been down since it was written.
func elsewhere(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		h, err := parseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		h.place.boot[0]++
		patch(t, path, 0, h.append(nil)...)
	}
}

func TestReplay(t *testing.T) {
	dir := t.TempDir()
	files := leave(t, dir, 300, 1000)
	if len(files) < 4 {
		t.Fatalf("only %d segments", len(files))
	}
	db := newFakeDB()
	p := startPipe(t, dir, db, quick())
	wantSeqs(t, db, 300)
	for i, op := range db.ops {
		if !reflect.DeepEqual(op, numbered(int64(i+1), 1000)) {
			t.Fatalf("op %d changed on its way: %+v", i+1, op)
		}
	}
	if db.durable != 300 || p.cs.restaged != 300 {
		t.Fatalf("%d ops durable, %d contents restaged", db.durable, p.cs.restaged)
	}
	if left := segments(t, dir); len(left) != 0 {
		t.Fatalf("replayed segments left: %v", left)
	}
	p.mustWait(p.mustPut(301, 10))
	p.stopClean()
	wantSeqs(t, db, 301)
	if len(db.applied) != 2 {
		t.Fatalf("journals %v: a start must have an id of its own", db.applied)
	}
}

// The position that the database has decides, wherever the last start was stopped.
func TestReplayExactlyOnce(t *testing.T) {
	const n = 40
	for have := range n + 1 {
		dir := t.TempDir()
		leave(t, dir, n, 100)
		db := newFakeDB()
		for i := range have {
			db.ops = append(db.ops, numbered(int64(i+1), 100))
		}
		if have > 0 {
			db.applied[1] = int64(have)
		}
		p := startPipe(t, dir, db, pipelineOptions{groupOps: 7})
		wantSeqs(t, db, n)
		p.abandon()
		p = startPipe(t, dir, db, quick()) // and once more, with nothing new
		wantSeqs(t, db, n)
		p.stopClean()
	}
}

// A start that dies anywhere in the replay is repeated by the next one.
func TestReplayInterrupted(t *testing.T) {
	dir := t.TempDir()
	leave(t, dir, 60, 100)
	db := newFakeDB()
	for round := range 10 {
		left := round
		db.before = func(*group) error {
			if left--; left < 0 {
				return errors.New("killed")
			}
			return nil
		}
		p, err := tryPipe(t, dir, db, pipelineOptions{groupOps: 3})
		if err == nil {
			p.abandon()
			break
		} else if !strings.Contains(err.Error(), "stay in") {
			t.Fatal(err)
		}
	}
	db.before = nil
	p := startPipe(t, dir, db, quick())
	wantSeqs(t, db, 60)
	p.stopClean()
}

// On a nearly full disk a replay goes on in small steps, and gives back the journal's space between them.
func TestReplayNearlyFull(t *testing.T) {
	dir := t.TempDir()
	files := leave(t, dir, 300, 1000)
	db := newFakeDB()
	used := 0 // of room for 70 ops, and what is freed
	db.before = func(g *group) error {
		left, _, _, err := listSegments(dir)
		if err != nil {
			return err
		}
		if room := 70 + 70*(len(files)-len(left)); used+len(g.ops) > room {
			return errFull
		}
		used += len(g.ops)
		return nil
	}
	o := quick()
	o.groupOps = 70
	p := startPipe(t, dir, db, o)
	wantSeqs(t, db, 300)
	p.stopClean()
	if p.cs.restaged != 300 {
		t.Fatalf("%d contents restaged", p.cs.restaged)
	}
	// And with no room at all it is an error that loses nothing.
	dir = t.TempDir()
	files = leave(t, dir, 300, 1000)
	db = newFakeDB()
	db.before = func(*group) error { return errFull }
	if _, err := tryPipe(t, dir, db, o); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	if left := segments(t, dir); len(left) != len(files) {
		t.Fatalf("segments left %v of %v", left, files)
	}
}

// Whatever a kill in the middle of a write leaves of the last record, the ones before it are there.
func TestTornTail(t *testing.T) {
	src := t.TempDir()
	file := leave(t, src, 5, 200)[0]
	offs, recs, data := recordsOf(t, file)
	last := len(offs) - 1
	for cut := offs[last]; cut < recs[last].end; cut += 7 {
		for _, fill := range []byte{0, 0xa5} {
			dir := t.TempDir()
			b := bytes.Clone(data)
			for i := cut; i < recs[last].end; i++ {
				b[i] = fill
			}
			if bytes.Equal(b, data) || cut >= offs[last]+recHeader+len(recs[last].payload) {
				continue // only padding has changed
			}
			write(t, dir, 1, b)
			db := newFakeDB()
			p := startPipe(t, dir, db, quick())
			wantSeqs(t, db, 4)
			if p.stopClean(); cut > offs[last] && !strings.Contains(p.log.String(), "not written completely") {
				t.Fatalf("cut at %d: nothing in the log: %s", cut, p.log)
			}
		}
	}
	// The file may also just end.
	for cut := segHeader; cut < offs[last]; cut += 13 {
		dir := t.TempDir()
		write(t, dir, 1, data[:cut])
		db := newFakeDB()
		p := startPipe(t, dir, db, quick())
		if n := len(db.seqs()); n > 4 {
			t.Fatalf("%d ops out of %d bytes", n, cut)
		}
		wantSeqs(t, db, len(db.seqs()))
		p.stopClean()
	}
}

func write(t testing.TB, dir string, num int64, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, segName(num)), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNeedsReplay(t *testing.T) {
	root := t.TempDir()
	check := func(want bool) {
		t.Helper()
		if got, err := NeedsReplay(root); got != want || err != nil {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	}
	check(false)
	db := newFakeDB()
	p := startPipe(t, journalDir(root), db, quick())
	p.j.endPreparers()
	check(false)
	p.mustWait(p.mustPut(1, 1))
	check(true)
	p.stopClean()
	check(false)
}

// An op larger than a segment gets a segment of its own, and the order stays.
func TestLargeRecord(t *testing.T) {
	dir := t.TempDir()
	p := startPipe(t, dir, newFakeDB(), never())
	for i, size := range []int{10, 500 << 10, 10, 64 << 10, 64<<10 - segHeader - recHeader - 60, 10, 3 << 20, 1 << 20, 10} {
		p.mustWait(p.mustPut(int64(i+1), size))
	}
	p.abandon()
	db := newFakeDB()
	p = startPipe(t, dir, db, quick())
	wantSeqs(t, db, 9)
	if n := len(db.ops[6].Contents[0].Small); n != 3<<20 {
		t.Fatalf("%d bytes came back", n)
	}
	p.stopClean()
}

// Segments go when the database has them durably, and not before.
func TestSegmentsAreDeleted(t *testing.T) {
	dir := t.TempDir()
	db := newFakeDB()
	p := startPipe(t, dir, db, quick())
	var slot Slot
	for i := range 2000 {
		slot = p.mustPut(int64(i+1), 1000)
		p.mustWait(slot)
		if i%50 == 0 {
			used, _, _, err := listSegments(dir)
			if err != nil {
				t.Fatal(err)
			}
			h := used[0].head
			db.mu.Lock()
			if h.first > int64(db.durable)+1 {
				t.Fatalf("the journal begins at %d, the database has %d durably", h.first, db.durable)
			}
			db.mu.Unlock()
		}
	}
	if err := p.apply(context.Background(), slot); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); len(segments(t, dir)) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d segments left though all is applied", len(segments(t, dir)))
		}
	}
	if got := segments(t, dir); len(got) != 1 {
		t.Fatalf("segments %v: the active one must stay", got)
	}
	p.abandon()
	p = startPipe(t, dir, db, quick())
	wantSeqs(t, db, 2000)
	p.stopClean()
}

// Segments go round: what they held before must never be taken for what they hold now.
func TestSegmentsAreUsedAgain(t *testing.T) {
	taken, all := 0, 0
	fresh := func() (string, *fakeDB) {
		dir, db := t.TempDir(), newFakeDB()
		j := newJournal(dir, 1, 1, 64<<10, newBreaker(nil))
		all = 0
		put := func(until func() bool) {
			for !until() {
				all++
				if _, _, err := j.append(numbered(int64(all), 1000), nil); err != nil {
					t.Fatal(err)
				}
				if err := j.flush(int64(all)); err != nil {
					t.Fatal(err)
				}
			}
		}
		put(func() bool { return len(j.segs) == 2 })
		j.mu.Lock()
		for j.preparing { // so that what comes now is the latest of the spare ones
			j.prepared.Wait()
		}
		j.mu.Unlock()
		taken = int(j.segs[0].last)
		if err := j.drop(int64(taken)); err != nil {
			t.Fatal(err)
		}
		put(func() bool { return len(j.segs) == 2 })
		put(func() bool { return all%12 == 0 })
		if err := j.close(false); err != nil {
			t.Fatal(err)
		}
		files := segments(t, dir)
		_, recs, data := recordsOf(t, files[len(files)-1])
		if end := recs[len(recs)-1].end; zero(data[end:]) {
			t.Fatal("the active segment has nothing old in it: the test tests nothing")
		} else if !zero(data[end : end+recHeader]) {
			t.Fatal("the end is not marked")
		}
		for i := range taken {
			db.ops = append(db.ops, numbered(int64(i+1), 1000))
		}
		db.applied[1] = int64(taken)
		return dir, db
	}
	t.Run("whole", func(t *testing.T) {
		dir, db := fresh()
		p := startPipe(t, dir, db, quick())
		wantSeqs(t, db, all)
		if strings.Contains(p.log.String(), "WARN") {
			t.Fatalf("log: %s", p.log)
		}
		p.stopClean()
	})
	t.Run("torn", func(t *testing.T) {
		dir, db := fresh()
		files := segments(t, dir)
		offs, _, _ := recordsOf(t, files[len(files)-1])
		patch(t, files[len(files)-1], offs[len(offs)-1]+50, 0xee)
		p := startPipe(t, dir, db, quick())
		wantSeqs(t, db, all-1)
		if !strings.Contains(p.log.String(), "not written completely") {
			t.Fatalf("log: %s", p.log)
		}
		p.stopClean()
	})
	t.Run("old bytes where new ones are missing", func(t *testing.T) {
		dir, db := fresh()
		files := segments(t, dir)
		elsewhere(t, files...)
		last := files[len(files)-1]
		offs, recs, data := recordsOf(t, last)
		n := len(offs) / 2
		copy(data[offs[n]:], data[offs[0]:offs[1]]) // a record of lower position, whole
		write(t, dir, 1<<20, data)
		if err := os.Rename(filepath.Join(dir, segName(1<<20)), last); err != nil {
			t.Fatal(err)
		}
		p := startPipe(t, dir, db, quick())
		wantSeqs(t, db, int(recs[n].position)-1)
		p.abandon()
	})
}
