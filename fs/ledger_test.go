package fs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"wsfs/blob"
	"wsfs/store"
)

// seen is what notes amount to, in a form that can be compared.
func (st *ledgerState) seen(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	who := func(n uint64) string {
		if n == 0 {
			return ""
		}
		w, err := store.DecodeAttribution(st.who[n])
		if err != nil {
			t.Fatalf("attribution %d: %v", n, err)
		}
		return fmt.Sprint(w.Session.Name, w.Process.Argv, w.Process.Parent.Comm, w.Command.Argv)
	}
	for id, f := range st.files {
		text := fmt.Sprint(f.node, f.flags, f.spill)
		if f.edited {
			text += fmt.Sprint(f.size, f.limit, f.valid, who(f.who), f.by, f.at, f.dirt)
			for _, e := range f.valid {
				if f.spill == "" {
					f.grow(end(e))
					text += fmt.Sprintf("%x", f.mem[e.Off:end(e)])
				}
			}
		}
		out[fmt.Sprint("file ", id)] = text
	}
	for k, h := range st.handles {
		apart := blob.Content{Size: -1}
		if h.apart != nil {
			apart = *h.apart
		}
		out[fmt.Sprint("handle ", k)] = fmt.Sprint(h.flags, h.id, h.open, who(h.who), h.ended, h.shown, h.seen, apart, h.from)
	}
	for id := range st.stale {
		out[fmt.Sprint("stale ", id)] = ""
	}
	table, _ := st.table(func(handleKey) *Handle { return &Handle{} }, true)
	for ino, il := range table.inodes {
		var all []string
		for _, held := range il.held {
			all = append(all, fmt.Sprint(held.Lock, held.handle.key()))
		}
		slices.Sort(all)
		out[fmt.Sprint("locks ", ino)] = fmt.Sprint(all)
	}
	return out
}

// TestLedger writes the same notes into two ledgers. One is packed now and then, and read by another process in between:
// both amount to the same, at the same position.
func TestLedger(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		plain, err := NewLedger()
		if err != nil {
			t.Fatal(err)
		}
		packed, err := NewLedger()
		if err != nil {
			t.Fatal(err)
		}
		var people []store.Attribution
		for i := range 4 {
			s := &store.Session{ID: store.SessionID(i + 1), Name: fmt.Sprint("s", i)}
			up := &store.Process{ID: store.ProcessID(10 * (i + 1)), Session: s.ID, Comm: "sh"}
			people = append(people, store.Attribution{
				Session: s, Process: &store.Process{ID: up.ID + 1, Session: s.ID, Parent: up, Argv: fmt.Sprint("p", i)},
				Command: &store.Command{ID: store.CommandID(i + 1), Session: s.ID, Argv: fmt.Sprint("c", i)},
			})
		}
		people = append(people, store.Attribution{})
		open, nodes := map[handleKey]*Handle{}, map[store.Ino]*node{}
		var fh uint64
		for range 400 {
			who := people[rnd.IntN(len(people))]
			var k handleKey
			if len(open) > 0 {
				keys := slices.SortedFunc(maps.Keys(open), func(a, b handleKey) int { return int(a.fh) - int(b.fh) })
				k = keys[rnd.IntN(len(keys))]
			}
			h := open[k]
			at, off, n := rnd.Int64N(1e9), rnd.Int64N(20_000), rnd.Int64N(5000)+32
			what, data := rnd.IntN(14), make([]byte, n)
			for i := range data {
				data[i] = byte(rnd.Uint32())
			}
			if h == nil || what == 0 {
				fh++
				k = handleKey{mount: 7, fh: fh}
				ino := store.Ino(rnd.IntN(6) + 2)
				n := nodes[ino]
				if n == nil {
					n = newNode(store.Version{Ino: ino, Mode: syscall.S_IFREG | 0o640, Xattrs: map[string][]byte{"user.a": data[:1]}})
					n.fresh, n.name, n.file = true, "name", &file{size: 100, limit: 60, inMem: true}
					nodes[ino] = n
				}
				h = &Handle{n: n, file: n.file, mount: 7, fh: fh}
				open[k] = h
				what = 0
			}
			fl, id := h.file, h.n.id
			switch { // as a file would
			case what >= 2 && what <= 4:
				fl.size = max(fl.size, off+n)
			case what == 5:
				if rnd.IntN(4) == 0 {
					off, fl.inMem = 0, true
				}
				fl.size, fl.limit = off, min(fl.limit, off)
			case what == 6:
				off, n = min(off, fl.size), min(n, max(0, fl.size-off))
			case what == 10:
				fl.inMem = true
			case what == 11:
				if !fl.inMem {
					continue
				}
				fl.inMem = false
			}
			for _, l := range []*Ledger{plain, packed} {
				switch what {
				case 0:
					l.node(h.n, nil)
					l.opened(k, id, uint64(off&handlePast), uint32(off), who, nil)
				case 1:
					l.closed(k)
				case 2, 3, 4:
					l.wrote(h, who, at, off, data, nil)
				case 5:
					l.cut(h, fl, who, at, editDirt)
				case 6:
					l.zeroed(h, who, at, off, n)
				case 7:
					l.locked(h.n.ino, k, &Lock{Start: uint64(off), End: uint64(off + n), Type: uint32(off % 3), Owner: uint64(off % 5), Flock: off%7 == 0})
				case 8:
					l.unlocked(h.n.ino, uint64(off%5))
				case 9:
					l.listed(k, uint64(off%4), data[:n&^7])
				case 10:
					l.ofNode([]byte{noteClean, noteForget, noteStale}[off%3], id)
				case 11:
					l.spilled(id, "scratch")
				case 12:
					l.apart(k, &blob.Content{Size: n, Ref: blob.Ref(data[:32])}, store.Seq(off+1))
				case 13:
					l.apart(k, nil, 0)
				}
			}
			if what == 1 {
				delete(open, k)
			}
			if rnd.IntN(40) == 0 {
				packed.mu.Lock()
				packed.pack(0)
				packed.mu.Unlock()
			}
		}
		a, err := readNotes(plain.notes())
		if err != nil {
			t.Fatal(err)
		}
		b, err := readNotes(packed.notes())
		if err != nil {
			t.Fatal(err)
		}
		if x, y := a.seen(t), b.seen(t); !reflect.DeepEqual(x, y) {
			for k := range x {
				if x[k] != y[k] {
					t.Errorf("seed %d: %s: %.300s\npacked: %.300s", seed, k, x[k], y[k])
				}
			}
			for k := range y {
				if _, ok := x[k]; !ok {
					t.Errorf("seed %d: packed has %s: %.300s", seed, k, y[k])
				}
			}
			t.FailNow()
		}
		if len(a.files) == 0 || len(a.handles) == 0 {
			t.Errorf("seed %d: %d files, %d handles", seed, len(a.files), len(a.handles))
		}
		for _, l := range []*Ledger{plain, packed} {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Room is made between the note of a scratch file and that of the first write into it, in a file that was emptied: the name stays.
func TestPackedBesideSpill(t *testing.T) {
	l, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(store.Version{Ino: 5, Mode: syscall.S_IFREG})
	n.file = &file{inMem: true}
	h := &Handle{n: n, file: n.file, mount: 1, fh: 1}
	l.opened(h.key(), 5, 0, 0, store.Attribution{}, nil)
	l.cut(h, n.file, store.Attribution{}, 1, editDirt)
	l.spilled(5, "scratch")
	l.mu.Lock()
	l.pack(0)
	l.mu.Unlock()
	n.file.inMem, n.file.size = false, memMax+1
	l.wrote(h, store.Attribution{}, 2, 0, make([]byte, memMax+1), nil)
	st, err := readNotes(l.notes())
	if err != nil {
		t.Fatal(err)
	}
	if f := st.files[5]; f.spill != "scratch" || f.size != memMax+1 || f.valid.total() != memMax+1 {
		t.Errorf("scratch file %q, %d bytes, of which %d were written", f.spill, f.size, f.valid.total())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A note that was cut off by a kill does not count, and nothing but notes is read as one.
func FuzzNotes(f *testing.F) {
	l, err := NewLedger()
	if err != nil {
		f.Fatal(err)
	}
	n := newNode(store.Version{Ino: 5, Mode: syscall.S_IFREG})
	n.file = &file{size: 3, inMem: true}
	h := &Handle{n: n, file: n.file, mount: 1, fh: 1}
	l.node(n, nil)
	l.opened(h.key(), 5, 0, 0, store.Attribution{}, nil)
	l.wrote(h, store.Attribution{}, 1, 0, []byte("abc"), nil)
	l.locked(5, h.key(), &Lock{End: 9, Type: syscall.F_WRLCK})
	l.apart(h.key(), &blob.Content{Size: 3}, 4)
	f.Add(slices.Clone(l.notes()))
	n.file.size = -1
	l.cut(h, n.file, store.Attribution{}, 2, editWrote)
	f.Add(slices.Clone(l.notes()))
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := readNotes(b)
		if err != nil {
			return
		}
		for _, nf := range st.files {
			if nf.node != nil {
				_, _ = decodeNode(nf)
			}
		}
		if _, err := readNotes(st.write(nil)); err != nil {
			t.Errorf("packed: %v", err)
		}
	})
}
