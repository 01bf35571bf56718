package fs

import (
	"encoding/binary"
	"maps"
	"slices"

	"wsfs/blob"
	"wsfs/store"
)

// Kinds of notes. What follows the head are numbers, most of them varints, in the order that the writers below give.
const (
	noteWho    = iota + 1 // number, encoded: what the number means from here on
	noteNode              // id, flags, attributes: an inode that is in no op yet, or has no name
	noteForget            // id: whatever was noted of it does not matter any more
	noteOpen              // mount, handle, flags, id, open flags, who
	noteClose             // mount, handle, flags
	noteWrite             // id, edit, offset, length, bytes unless they are in its scratch file
	noteCut               // id, edit: a truncation, or only the fact that it is dirty
	noteZero              // id, edit, offset, length
	noteSpill             // id, name: all bytes so far are in that scratch file
	noteClean             // id: the database or the journal has all of it
	noteLock              // id, mount, handle, lock
	noteUnlock            // id, owner: fcntl(2) locks that a close took away
	noteListed            // mount, handle, flags, hashes of names
	noteStale             // id: it is not what its inode is any more
	noteApart             // mount, handle, seq, size, content: what it wrote, if the file is more than that from seq on; seq 0: it is not
)

// Flags of notes.
const (
	nodeFresh  = 1 // in no op
	nodeGone   = 2 // without a name
	handleDir  = 1
	handlePast = 2 // goes past the pages of kernels
	editInMem  = 1 // the bytes are in the note
	editDirt   = 2 // bytes or size differ from the last version
	editWrote  = 4 // by more than a truncation
	listedAll  = 1 // the listing came to its end
	listedNew  = 2 // it began anew
)

func putU(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }
func putI(b []byte, v int64) []byte  { return binary.AppendVarint(b, v) }

func putText(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }

// whoIs is the number of an attribution; the first time it makes a note of what it means. l.mu is held, and no note begun.
func (l *Ledger) whoIs(w store.Attribution) uint64 {
	if w == (store.Attribution{}) {
		return 0
	}
	if n, ok := l.who[w]; ok {
		return n
	}
	n := l.nextWho
	l.nextWho++
	b := putU(l.begin(noteWho), n)
	l.finish(store.AppendAttribution(b, w), nil, nil)
	l.who[w] = n // after: packing forgets those that nothing refers to
	return n
}

// node notes an inode as it is. FS.mu is held.
func (l *Ledger) node(n *node, r *Receipt) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	flags := uint64(0)
	if n.fresh {
		flags |= nodeFresh
	}
	if n.gone {
		flags |= nodeGone
	}
	v := &n.v
	b := putU(putU(l.begin(noteNode), uint64(n.id)), flags)
	b = putU(b, uint64(n.ino))
	b = putU(b, uint64(n.parent))
	b = putText(b, n.name)
	b = putU(b, uint64(n.replaced))
	b = putU(b, uint64(v.ID))
	for _, x := range []uint32{v.Mode, v.UID, v.GID, v.Nlink, v.Rdev} {
		b = putU(b, uint64(x))
	}
	for _, x := range []int64{v.Mtime, v.Ctime, v.Atime} {
		b = putI(b, x)
	}
	content, size, holes := v.Content, v.Size, v.Holes
	if n.file != nil {
		content, size, holes = n.file.committed.Ref, n.file.committed.Size, n.file.committedHoles
	}
	b = append(b, content[:]...)
	b = putI(putI(b, size), holes)
	b = putU(b, uint64(len(v.Xattrs)))
	if len(v.Xattrs) > 0 {
		for _, k := range slices.Sorted(maps.Keys(v.Xattrs)) {
			b = putText(putText(b, k), string(v.Xattrs[k]))
		}
	}
	l.finish(b, nil, r)
}

// ofNode is a note that only names a node.
func (l *Ledger) ofNode(kind byte, id store.Ino) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish(putU(l.begin(kind), uint64(id)), nil, nil)
}

// opened notes a handle or a listing.
func (l *Ledger) opened(k handleKey, id store.Ino, flags uint64, open uint32, who store.Attribution, r *Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.whoIs(who)
	b := k.put(l.begin(noteOpen))
	b = putU(putU(putU(putU(b, flags), uint64(id)), uint64(open)), w)
	l.handles++
	l.finish(b, nil, r)
}

func (l *Ledger) closed(k handleKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handles--
	l.finish(k.put(l.begin(noteClose)), nil, nil)
}

// edit begins a note of what happened to the content of a file: what it is like after it. fl.mu is held, and l.mu.
func (l *Ledger) edit(kind byte, n *node, fl *file, h *Handle, who store.Attribution, at int64, flags uint64) []byte {
	w := l.whoIs(who)
	if fl.inMem {
		flags |= editInMem
	}
	b := putU(putU(l.begin(kind), uint64(n.id)), flags)
	b = putU(b, w)
	b = h.key().put(b)
	return putI(putI(putI(b, at), fl.size), fl.limit)
}

// apart notes what a handle wrote last, as Handle.apart has it once the change seq is made, which has all that it wrote; nil: it goes by what
// is there. It is called just before that change is appended: whoever reads it looks whether the change was made.
func (l *Ledger) apart(k handleKey, wrote *blob.Content, seq store.Seq) {
	if l == nil || k.mount == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish(putApart(k.put(l.begin(noteApart)), wrote, seq), nil, nil)
}

func putApart(b []byte, wrote *blob.Content, seq store.Seq) []byte {
	if wrote == nil {
		return putU(b, 0)
	}
	return append(putI(putU(b, uint64(seq)), wrote.Size), wrote.Ref[:]...)
}

// wrote notes bytes. fl.mu is held.
func (l *Ledger) wrote(h *Handle, who store.Attribution, at, off int64, p []byte, r *Receipt) {
	if l == nil {
		return
	}
	fl := h.file
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.edit(noteWrite, h.n, fl, h, who, at, editDirt|editWrote)
	b = putI(putI(b, off), int64(len(p)))
	if !fl.inMem {
		p = nil
	}
	l.finish(b, p, r)
}

// cut notes the size that a file was given. fl.mu is held.
func (l *Ledger) cut(h *Handle, fl *file, who store.Attribution, at int64, flags uint64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish(l.edit(noteCut, h.n, fl, h, who, at, flags), nil, nil)
}

// zeroed notes zeros. fl.mu is held.
func (l *Ledger) zeroed(h *Handle, who store.Attribution, at, off, n int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.edit(noteZero, h.n, h.file, h, who, at, editDirt|editWrote)
	l.finish(putI(putI(b, off), n), nil, nil)
}

// spilled notes that the bytes of a file are in a scratch file from here on. fl.mu is held.
func (l *Ledger) spilled(id store.Ino, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish(putText(putU(l.begin(noteSpill), uint64(id)), name), nil, nil)
}

// locked notes what an owner has of a range from now on.
func (l *Ledger) locked(ino store.Ino, k handleKey, lk *Lock) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := k.put(putU(l.begin(noteLock), uint64(ino)))
	flock := uint64(0)
	if lk.Flock {
		flock = 1
	}
	for _, x := range []uint64{lk.Start, lk.End, uint64(lk.Type), uint64(lk.PID), lk.Owner, flock} {
		b = putU(b, x)
	}
	l.finish(b, nil, nil)
}

func (l *Ledger) unlocked(ino store.Ino, owner uint64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish(putU(putU(l.begin(noteUnlock), uint64(ino)), owner), nil, nil)
}

// listed notes what a listing has shown: names by their hashes, or that there are no more.
func (l *Ledger) listed(k handleKey, flags uint64, hashes []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish(putU(k.put(l.begin(noteListed)), flags), hashes, nil)
}

// handleKey is how a handle or a listing is called: by a mount, which has numbers for both.
type handleKey struct {
	mount uint64
	fh    uint64
	dir   bool
}

func (k handleKey) put(b []byte) []byte {
	d := uint64(0)
	if k.dir {
		d = 1
	}
	return putU(putU(b, k.mount), k.fh<<1|d)
}

func (h *Handle) key() handleKey {
	if h == nil {
		return handleKey{}
	}
	return handleKey{mount: h.mount, fh: h.fh}
}
