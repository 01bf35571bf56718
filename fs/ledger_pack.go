package fs

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/store"
)

// pack writes what still matters into the other half, and makes room for n more bytes. The positions of notes stay what
// they are: start moves instead. l.mu is held.
func (l *Ledger) pack(n int64) {
	i := l.head.half.Load()
	st, err := readNotes(l.notes())
	if err == nil {
		j := 1 - i
		out := st.write(l.half(j)[:0])
		end := l.head.span[i].end.Load()
		if size := int64(len(out)); size+n < ledgerHalf {
			l.head.span[j].start.Store(end - uint64(size))
			l.head.span[j].end.Store(end)
			l.head.half.Store(j)
			l.release(i, l.off)
			l.off, l.limit, l.handles = size, min(max(ledgerLimit, 2*size+n+ledgerCalm), ledgerHalf), len(st.handles)
			for w, number := range l.who {
				if st.who[number] == nil {
					delete(l.who, w)
				}
			}
			return
		}
	}
	// Whoever comes next finds a ledger that it cannot use, as if there were none.
	l.full, l.head.magic = true, 0
}

// release gives the memory of a half back that held used bytes, but for what it will soon need again.
func (l *Ledger) release(i uint64, used int64) {
	page := int64(os.Getpagesize())
	from, to := int64(ledgerLimit), (used+page-1)/page*page
	if to > from {
		_ = unix.Madvise(l.half(i)[from:to], unix.MADV_REMOVE) // else it is only not free
	}
}

// write appends notes that amount to st, and forgets attributions that none of them names.
func (st *ledgerState) write(b []byte) []byte {
	used := map[uint64]bool{}
	for _, h := range st.handles {
		used[h.who] = true
	}
	for _, f := range st.files {
		used[f.who] = true
	}
	for n, text := range st.who {
		if !used[n] {
			delete(st.who, n)
			continue
		}
		b = note(b, noteWho, func(b []byte) []byte { return append(putU(b, n), text...) })
	}
	for id := range st.stale {
		b = note(b, noteStale, func(b []byte) []byte { return putU(b, uint64(id)) })
	}
	for k, h := range st.handles {
		b = note(b, noteOpen, func(b []byte) []byte {
			return putU(putU(putU(putU(k.put(b), h.flags), uint64(h.id)), uint64(h.open)), h.who)
		})
		if h.apart != nil {
			b = note(b, noteApart, func(b []byte) []byte { return putApart(k.put(b), h.apart, h.from) })
		}
		if h.shown {
			flags := uint64(listedNew)
			if h.ended {
				flags |= listedAll
			}
			b = note(b, noteListed, func(b []byte) []byte { return append(putU(k.put(b), flags), h.seen...) })
		}
	}
	for id, f := range st.files {
		b = f.write(b, id)
	}
	t, _ := st.table(func(handleKey) *Handle { return &Handle{} }, true)
	for ino, il := range t.inodes {
		for _, held := range il.held {
			lk, k := held.Lock, handleKey{held.handle.mount, held.handle.fh, false}
			b = note(b, noteLock, func(b []byte) []byte {
				b = k.put(putU(b, uint64(ino)))
				flock := uint64(0)
				if lk.Flock {
					flock = 1
				}
				for _, x := range []uint64{lk.Start, lk.End, uint64(lk.Type), uint64(lk.PID), lk.Owner, flock} {
					b = putU(b, x)
				}
				return b
			})
		}
	}
	return b
}

// note appends one note.
func note(b []byte, kind byte, fill func([]byte) []byte) []byte {
	at := len(b)
	b = fill(append(b, 0, 0, 0, 0, kind))
	putLength(b[at:], int64(len(b)-at))
	return b
}

func (f *notedFile) write(b []byte, id store.Ino) []byte {
	if f.node != nil {
		b = note(b, noteNode, func(b []byte) []byte { return append(putU(putU(b, uint64(id)), f.flags), f.node...) })
	}
	if f.edited {
		b = f.writeEdits(b, id)
	}
	if f.spill != "" { // behind what cuts to nothing: it was perhaps just made, for a write that is noted next
		b = note(b, noteSpill, func(b []byte) []byte { return putText(putU(b, uint64(id)), f.spill) })
	}
	return b
}

func (f *notedFile) writeEdits(b []byte, id store.Ino) []byte {
	edit := func(b []byte, flags uint64) []byte {
		b = f.by.put(putU(putU(putU(b, uint64(id)), flags), f.who))
		return putI(putI(putI(b, f.at), f.size), f.limit)
	}
	flags := f.dirt
	if f.spill == "" {
		flags |= editInMem
	}
	for _, e := range f.valid {
		b = note(b, noteWrite, func(b []byte) []byte {
			b = putI(putI(edit(b, flags), e.Off), e.Len)
			if f.spill == "" {
				f.grow(end(e))
				b = append(b, f.mem[e.Off:end(e)]...)
			}
			return b
		})
	}
	return note(b, noteCut, func(b []byte) []byte { return edit(b, f.dirt) })
}

// table is the locks as they stand. handle finds who took one; with all, it is asked for a stand-in, once for each.
func (st *ledgerState) table(handle func(handleKey) *Handle, all bool) (t *lockTable, lost int) {
	t = &lockTable{inodes: map[store.Ino]*inodeLocks{}, waiting: map[uint64]lockWait{}}
	standIns := map[handleKey]*Handle{}
	for ino, list := range st.locks {
		for i := range list {
			n := &list[i]
			if n.drop {
				t.dropOwner(ino, n.lock.Owner)
				continue
			}
			h := standIns[n.key]
			if h == nil {
				if h = handle(n.key); h != nil && all {
					h.mount, h.fh = n.key.mount, n.key.fh
				}
				standIns[n.key] = h
			}
			if h == nil && n.lock.Type != syscall.F_UNLCK {
				lost++
				continue
			}
			t.put(ino, h, n.lock)
		}
	}
	return t, lost
}

// sorted are the inodes with notes, by number, so that what is done with them is the same each time.
func (st *ledgerState) sorted() []store.Ino {
	ids := make([]store.Ino, 0, len(st.files))
	for id := range st.files {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
