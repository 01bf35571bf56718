package fs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"wsfs/blob"
	"wsfs/store"
)

// ledgerState is what the notes of a ledger amount to.
type ledgerState struct {
	who     map[uint64][]byte // encoded
	files   map[store.Ino]*notedFile
	handles map[handleKey]*notedHandle
	locks   map[store.Ino][]notedLock // in the order they were taken and changed
	stale   map[store.Ino]bool
	nextWho uint64
}

// notedFile is an inode of which there is something that no version has.
type notedFile struct {
	node   []byte // the last noteNode behind its id, nil if there is none
	flags  uint64 // of that
	edited bool
	size   int64
	limit  int64
	valid  extents
	mem    []byte // what valid says, unless it is in spill
	spill  string // name of the scratch file
	who    uint64
	by     handleKey
	at     int64 // of the last edit
	dirt   uint64
}

type notedHandle struct {
	flags uint64
	id    store.Ino
	open  uint32
	who   uint64
	apart *blob.Content // what it wrote, if the file is more than that
	from  store.Seq     // since this change
	// of a listing
	ended bool
	shown bool
	seen  []byte // hashes of names, 8 bytes each
}

type notedLock struct {
	key  handleKey
	lock Lock
	drop bool // the owner's record locks went
}

var errNote = errors.New("the ledger holds a malformed note")

// noteReader takes numbers off a note.
type noteReader struct {
	b   []byte
	bad bool
}

func (r *noteReader) u() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *noteReader) i() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *noteReader) raw(n int64) []byte {
	if n < 0 || n > int64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *noteReader) text() string { return string(r.raw(int64(r.u()))) }

func (r *noteReader) key() handleKey {
	mount, fh := r.u(), r.u()
	return handleKey{mount, fh >> 1, fh&1 != 0}
}

// readNotes works out what all notes amount to. What it returns aliases b.
func readNotes(b []byte) (*ledgerState, error) {
	st := &ledgerState{
		who: map[uint64][]byte{}, files: map[store.Ino]*notedFile{}, handles: map[handleKey]*notedHandle{},
		locks: map[store.Ino][]notedLock{}, stale: map[store.Ino]bool{}, nextWho: 1,
	}
	// Of most files nothing is left in the end, so what comes before that is not worked out: it would be most of the work.
	over := map[store.Ino]int{} // how much was left of b behind the note that forgot it last
	err := eachNote(b, func(kind byte, r *noteReader, left int) {
		if kind == noteForget || kind == noteClean {
			over[store.Ino(r.u())] = left
		}
	})
	if err != nil {
		return nil, err
	}
	return st, eachNote(b, func(kind byte, r *noteReader, left int) {
		switch kind {
		case noteNode, noteWrite, noteCut, noteZero, noteSpill:
			id := *r
			if end, ok := over[store.Ino(id.u())]; ok && left > end {
				return
			}
		}
		st.apply(kind, r)
	})
}

// eachNote calls fn with each note and with how much of b is behind it.
func eachNote(b []byte, fn func(kind byte, r *noteReader, left int)) error {
	for len(b) > 0 {
		if len(b) < noteHead {
			return errNote
		}
		n := int(binary.LittleEndian.Uint32(b))
		if n < noteHead || n > len(b) {
			return fmt.Errorf("%w: %d of %d bytes", errNote, n, len(b))
		}
		r := &noteReader{b: b[noteHead:n:n]}
		if fn(b[4], r, len(b)-n); r.bad {
			return fmt.Errorf("%w of kind %d", errNote, b[4])
		}
		b = b[n:]
	}
	return nil
}

func (st *ledgerState) file(id store.Ino) *notedFile {
	f := st.files[id]
	if f == nil {
		f = &notedFile{}
		st.files[id] = f
	}
	return f
}

func (st *ledgerState) apply(kind byte, r *noteReader) {
	switch kind {
	case noteWho:
		n := r.u()
		st.who[n], st.nextWho = r.b, max(st.nextWho, n+1)
	case noteNode:
		f := st.file(store.Ino(r.u()))
		f.flags = r.u()
		f.node = r.b
	case noteForget:
		delete(st.files, store.Ino(r.u()))
	case noteClean:
		delete(st.files, store.Ino(r.u()))
	case noteStale:
		id := store.Ino(r.u())
		st.stale[id] = true
		delete(st.files, id)
	case noteOpen:
		k := r.key()
		st.handles[k] = &notedHandle{flags: r.u(), id: store.Ino(r.u()), open: uint32(r.u()), who: r.u()}
	case noteClose:
		k := r.key()
		delete(st.handles, k)
		st.dropHandle(k)
	case noteWrite, noteCut, noteZero:
		st.edit(kind, r)
	case noteSpill:
		f := st.file(store.Ino(r.u()))
		f.spill, f.mem = r.text(), nil
	case noteLock:
		ino := store.Ino(r.u())
		l := notedLock{key: r.key()}
		l.lock = Lock{Start: r.u(), End: r.u(), Type: uint32(r.u()), PID: uint32(r.u()), Owner: r.u(), Flock: r.u() != 0}
		st.locks[ino] = append(st.locks[ino], l)
	case noteUnlock:
		ino := store.Ino(r.u())
		st.locks[ino] = append(st.locks[ino], notedLock{lock: Lock{Owner: r.u()}, drop: true})
	case noteListed:
		h, flags := st.handles[r.key()], r.u()
		if h == nil {
			return
		}
		if flags&listedNew != 0 {
			h.seen, h.ended = nil, false
		}
		h.shown = true
		h.ended = h.ended || flags&listedAll != 0
		h.seen = append(slices.Clip(h.seen), r.b...)
	case noteApart:
		h, from := st.handles[r.key()], store.Seq(r.u())
		var wrote *blob.Content
		if from != 0 {
			wrote = &blob.Content{Size: r.i()}
			copy(wrote.Ref[:], r.raw(int64(len(wrote.Ref))))
		}
		if h != nil {
			h.apart, h.from = wrote, from
		}
	default:
		r.bad = true
	}
}

// dropHandle takes the locks away that were taken through a handle.
func (st *ledgerState) dropHandle(k handleKey) {
	for ino, list := range st.locks {
		list = slices.DeleteFunc(list, func(l notedLock) bool { return !l.drop && l.key == k })
		if len(list) == 0 {
			delete(st.locks, ino)
			continue
		}
		st.locks[ino] = list
	}
}

// made tells st which changes were made, the last of them seq. What was written apart is in one that was made, and no longer to be saved; of
// what one says that was not, nothing holds: those handles are returned, because another change will have that seq.
func (st *ledgerState) made(seq store.Seq) (not []handleKey) {
	for k, h := range st.handles {
		if h.apart == nil {
			continue
		}
		if h.from > seq {
			h.apart = nil
			not = append(not, k)
		} else if f := st.files[h.id]; f != nil && f.edited && f.by == k {
			delete(st.files, h.id)
		}
	}
	return not
}

func (st *ledgerState) edit(kind byte, r *noteReader) {
	f := st.file(store.Ino(r.u()))
	flags := r.u()
	f.who, f.by = r.u(), r.key()
	f.at, f.size, f.limit = r.i(), r.i(), r.i()
	if f.size < 0 || f.limit < 0 {
		f.size, f.limit, r.bad = 0, 0, true
		return
	}
	f.edited = true
	f.dirt |= flags & (editDirt | editWrote)
	switch kind {
	case noteCut:
		if f.size == 0 {
			f.valid, f.mem, f.spill = nil, nil, ""
			return
		}
		f.valid.cut(f.size)
		if int64(len(f.mem)) > f.size {
			f.mem = f.mem[:f.size]
		}
		return
	}
	off, n := r.i(), r.i()
	if off < 0 || n < 0 || off+n < off {
		r.bad = true
		return
	}
	if flags&editInMem != 0 {
		if off+n > memMax {
			r.bad = true
			return
		}
		f.grow(off + n)
		if kind == noteZero {
			clear(f.mem[off : off+n])
		} else {
			copy(f.mem[off:off+n], r.raw(n))
		}
	}
	f.valid.add(off, n)
}

// grow makes mem at least size long, with zeros.
func (f *notedFile) grow(size int64) {
	n := int64(len(f.mem))
	if size <= n {
		return
	}
	if size > int64(cap(f.mem)) {
		mem := make([]byte, n, max(size, 2*n, 4096))
		copy(mem, f.mem)
		f.mem = mem
	}
	f.mem = f.mem[:size]
	clear(f.mem[n:])
}
