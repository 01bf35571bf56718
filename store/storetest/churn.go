package storetest

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
)

// testChurn lets a workspace live for many rounds, in which the same number of files is written, moved, saved by replacement and removed by
// sessions that come and go, under a policy: rows and bytes stay level, and of what is there it is still known who made it.
func testChurn(t *testing.T, drv store.Driver) {
	const settled, rounds = 6, 18
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, drv); err != nil {
		t.Fatal(err)
	}
	w := &world{}
	o := store.Options{Now: func() time.Time { return time.Unix(0, w.clock) }}
	o.Blob.PackSize = 64 << 10
	st, err := store.Open(t.Context(), dir, drv, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	w = newWorld(t, st, 1, 64)
	w.gone = make(map[point]bool)
	tr := w.create("main")
	as := func(round int) {
		s := &store.Session{ID: st.NewSessionID(), Workspace: tr.ws.ID, Name: fmt.Sprint("round", round), Agent: "test", StartedAt: w.clock}
		p := &store.Process{ID: st.NewProcessID(), Session: s.ID, PID: round, StartTicks: 7, Comm: "sh", Argv: "sh"}
		c := &store.Command{ID: st.NewCommandID(), Session: s.ID, N: 1, Argv: "make", Cwd: "/", StartedAt: w.clock}
		w.commands = []store.Attribution{{Session: s, Command: c, Process: p}}
	}
	file := func(name, text string) {
		c := content{staged: st.Blobs().StageSmall([]byte(text))}
		if tr.now[store.RootIno].kids[name] == 0 {
			tr.create(store.RootIno, name, syscall.S_IFREG|0o644, func(v *store.Version) { c.into(v, tr.op) })
		} else {
			tr.write(store.RootIno, name, c)
		}
	}
	as(0)
	old := w.commands[0]
	file("kept", "for ever")
	kept := tr.head
	keep := store.Retention{Tiers: []store.Tier{{For: 2 * time.Hour}, {Every: 3 * time.Hour, For: 9 * time.Hour}}}
	var was store.Stats
	var level int64
	for round := 1; round <= rounds; round++ {
		as(round)
		for i := range 10 {
			w.clock += int64(6 * time.Minute)
			file(fmt.Sprint("f", i), fmt.Sprintf("round %d: %0300d", round, i*round))
			file(fmt.Sprint("f", i), fmt.Sprintf("round %d, again: %0300d", round, i*round))
			tmp := fmt.Sprint("tmp", round, ".", i)
			file(tmp, fmt.Sprintf("saved in round %d: %0300d", round, i))
			tr.rename(store.RootIno, tmp, store.RootIno, fmt.Sprint("s", i))
			file(tmp, "for a moment")
			tr.remove(store.RootIno, tmp)
		}
		w.send(&store.Op{
			Kind: store.OpWorkspace, At: w.clock, Who: w.commands[0],
			Conflicts: []store.Conflict{{Timeline: tr.ws.Timeline, Ino: tr.now[store.RootIno].kids["f1"], Parent: store.RootIno, Name: "f1", Why: store.WhyStale, Resolved: true}},
		})
		w.settle()
		if _, err := st.Collect(t.Context(), store.GCOptions{Keep: &keep}); err != nil {
			t.Fatal(err)
		}
		Check(t, st)
		now, err := st.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: %v, %d bytes of the database, %d of packs", round, now.Rows, now.DatabaseBytes, now.PackBytes)
		if round == settled*2 {
			was, level = now, now.DatabaseBytes+now.PackBytes
		}
		if round <= settled*2 {
			continue
		}
		for table, n := range now.Rows {
			// The policy keeps one state more or less, as its hours fall.
			if n > was.Rows[table]+was.Rows[table]/3+2 && table != "removal" {
				t.Errorf("round %d: table %s has %d rows, and had %d in round %d", round, table, n, was.Rows[table], settled*2)
			}
		}
		if size := now.DatabaseBytes + now.PackBytes; size > level+level/3+1<<20 {
			t.Errorf("round %d: the store has %d bytes, and had %d in round %d", round, size, level, settled*2)
		}
	}
	rows, err := st.ChangesAt(t.Context(), []store.Segment{{Timeline: tr.ws.Timeline, Cut: kept}})
	if err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r == nil || old.Session == nil || r.Session != nil && r.Session.Name != old.Session.Name {
		t.Errorf("who made what is there since the first round: %+v", r)
	}
	w.compareHeads()
}

// compareTouched takes pairs of states that can be read and compares what differs between them with what the changes between them
// touch: as much as if none had been collected.
func (c *collected) compareTouched() {
	w := c.w
	w.t.Helper()
	var read []point
	for p := range w.past {
		if !w.gone[p] {
			read = append(read, p)
		}
	}
	slices.SortFunc(read, func(a, b point) int { return int(max(-1, min(1, int64(a.timeline-b.timeline)*1e9+int64(a.seq-b.seq)))) })
	pairs := 60
	if slow || testing.Short() {
		pairs = 20
	}
	for range pairs {
		p, q := read[w.rnd.IntN(len(read))], read[w.rnd.IntN(len(read))]
		a, err := w.st.ViewAt(w.t.Context(), p.timeline, p.seq)
		if err != nil {
			w.t.Fatal(err)
		}
		b, err := w.st.ViewAt(w.t.Context(), q.timeline, q.seq)
		if err != nil {
			w.t.Fatal(err)
		}
		spans, err := w.st.Apart(w.t.Context(), a, b)
		if err != nil {
			w.t.Fatal(err)
		}
		told, all := newTouched(), newTouched() // now, and if nothing had been collected
		for _, sp := range spans {
			if err := w.st.Touched(w.t.Context(), sp, told.add); err != nil {
				w.t.Fatal(err)
			}
			for _, op := range w.log[sp.Timeline] {
				for i := range op.Items {
					if op.Seq > sp.After && op.Seq <= sp.UpTo {
						_ = all.add(&op.Items[i]) // it never fails
					}
				}
			}
		}
		x, y := w.past[p], w.past[q]
		for _, s := range []struct{ x, y state }{{x, y}, {y, x}} {
			for ino, n := range s.x {
				m := s.y[ino]
				for name, kid := range n.kids {
					if n := (store.DirName{Parent: ino, Name: name}); (m == nil || m.kids[name] != kid) && all.names[n] && !told.names[n] {
						w.t.Errorf("between %v and %v nothing touched name %q of directory %d", p, q, name, ino)
					}
				}
				if m == nil || n.v.Nlink == 0 || m.v.Nlink == 0 {
					continue
				}
				v, u := &n.v, &m.v
				if (v.Mode != u.Mode || v.UID != u.UID || v.GID != u.GID || v.Content != u.Content || v.Size != u.Size && !v.IsDir()) && all.inos[ino] && !told.inos[ino] {
					w.t.Errorf("between %v and %v nothing touched inode %d", p, q, ino)
				}
			}
		}
	}
}

// touched is what changes name.
type touched struct {
	inos  map[store.Ino]bool
	names map[store.DirName]bool
}

func newTouched() *touched {
	return &touched{map[store.Ino]bool{}, map[store.DirName]bool{}}
}

func (t *touched) add(it *store.Item) error {
	t.inos[it.Ino] = true
	t.names[store.DirName{Parent: it.Parent, Name: it.Name}] = true
	t.names[store.DirName{Parent: it.FromParent, Name: it.FromName}] = true
	return nil
}
