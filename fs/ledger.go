package fs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"wsfs/store"
)

// Ledger is memory (a memfd) that outlives the process, if somebody else holds its descriptor. In it a live workspace
// notes what neither the journal nor the database has: open handles, files that were created and not closed yet, bytes
// that were written and are in no version, locks. The next process gives it to Open, which goes on from there.
//
// A note costs no system call: it is copied behind the last one, and then counts, by one store of a number. What is cut
// off by a kill does not count. When there is much of it, what still matters is written anew into the other half, which
// then counts instead (ledger_pack.go); when nothing is open it begins anew.
//
// Its lock is a leaf, and its methods may be called on nil, which notes nothing.
type Ledger struct {
	fd   int
	mem  []byte
	head *ledgerHead

	mu      sync.Mutex
	off     int64 // guarded by mu; bytes used of the half that counts
	limit   int64 // guarded by mu; with more it is packed
	buf     []byte
	who     map[store.Attribution]uint64 // guarded by mu; who has a note already
	nextWho uint64
	handles int  // guarded by mu; open ones
	full    bool // guarded by mu; nothing is noted any more
	stays   bool // guarded by mu; it does not begin anew
}

// ledgerHead is the first page. A position is how many bytes were ever noted: it never falls, so that it says for good
// whether a note was made.
type ledgerHead struct {
	magic   uint64
	version uint64
	half    atomic.Uint64 // that counts: 0 or 1
	span    [2]struct{ start, end atomic.Uint64 }
}

const (
	ledgerMagic   = 0x7265_6764_656c_7377
	ledgerVersion = 1 // of the notes, too: another one is not read
	ledgerPage    = 4096
	// ledgerHalf is address space, not memory.
	ledgerHalf = 4 << 30
	// ledgerCalm is how much there may be before somebody looks whether it can begin anew or be packed: it stays in the
	// caches of the processor.
	ledgerCalm = 256 << 10
	// ledgerLimit is how much there may be before it is packed, if less than half of that still matters. Packing costs as
	// much as that much matters, so with less of it writes to one hot file would pay for it: at 1 MiB 10 us each.
	ledgerLimit = 8 << 20
	noteHead    = 5 // length:4 kind:1
)

// NewLedger makes an empty one.
func NewLedger() (*Ledger, error) {
	fd, err := unix.MemfdCreate("wsfs-ledger", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a ledger: %w", err)
	}
	if err := unix.Ftruncate(fd, ledgerPage+2*ledgerHalf); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("make a ledger: %w", err)
	}
	l, err := mapLedger(fd)
	if err != nil {
		return nil, err
	}
	l.head.magic, l.head.version = ledgerMagic, ledgerVersion
	for i := range l.head.span {
		l.head.span[i].start.Store(1 << 40)
		l.head.span[i].end.Store(1 << 40)
	}
	return l, nil
}

// OpenLedger takes over fd, which another process made with NewLedger.
func OpenLedger(fd int) (*Ledger, error) {
	l, err := mapLedger(fd)
	if err != nil {
		return nil, err
	}
	if h := l.head; h.magic != ledgerMagic || h.version != ledgerVersion || h.half.Load() > 1 {
		version := l.head.version
		_ = l.Close()
		return nil, fmt.Errorf("read a ledger of version %d (this program knows %d): %w", version, ledgerVersion, syscall.EPROTO)
	}
	return l, nil
}

func mapLedger(fd int) (*Ledger, error) {
	mem, err := unix.Mmap(fd, 0, ledgerPage+2*ledgerHalf, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("map a ledger: %w", err)
	}
	return &Ledger{
		fd: fd, mem: mem, head: (*ledgerHead)(unsafe.Pointer(&mem[0])), limit: ledgerLimit,
		who: map[store.Attribution]uint64{}, nextWho: 1,
	}, nil
}

// FD is the descriptor to give to whoever outlives this process.
func (l *Ledger) FD() int { return l.fd }

// Close unmaps it; nothing may be noted any more.
func (l *Ledger) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = true
	mem := l.mem
	l.mem, l.head = nil, nil
	return errors.Join(unix.Munmap(mem), unix.Close(l.fd))
}

// End is the position behind the last note.
func (l *Ledger) End() uint64 { return l.head.span[l.head.half.Load()].end.Load() }

// half is the bytes of one half.
func (l *Ledger) half(i uint64) []byte {
	return l.mem[ledgerPage+i*ledgerHalf:][:ledgerHalf:ledgerHalf]
}

// notes are those that count.
func (l *Ledger) notes() []byte {
	i := l.head.half.Load()
	s := &l.head.span[i]
	return l.half(i)[:s.end.Load()-s.start.Load()]
}

// begin starts a note of a kind in the buffer; finish makes it count. l.mu is held.
func (l *Ledger) begin(kind byte) []byte {
	b := append(l.buf[:0], 0, 0, 0, 0, kind)
	return b
}

// finish adds the note b, and data behind it. If the note is what a request was about, r says so. l.mu is held.
func (l *Ledger) finish(b, data []byte, r *Receipt) {
	l.buf = b
	if l.full {
		return
	}
	n := int64(len(b) + len(data))
	if l.off+n > l.limit {
		l.pack(n)
		if l.full {
			return
		}
	}
	putLength(b, n)
	i := l.head.half.Load()
	to := l.half(i)[l.off : l.off+n]
	copy(to[copy(to, b):], data)
	end := l.head.span[i].end.Load() + uint64(n)
	r.noted(end)
	l.off += n
	l.head.span[i].end.Store(end)
}

func putLength(b []byte, n int64) {
	b[0], b[1], b[2], b[3] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
}

// restart forgets all notes, if nothing that they are about is left. Whoever calls it knows that no file is dirty.
func (l *Ledger) restart() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full || l.stays || l.handles > 0 || l.off < ledgerCalm {
		return
	}
	s := &l.head.span[l.head.half.Load()]
	s.start.Store(s.end.Load())
	l.off = 0
	clear(l.who)
}

// stay keeps all that still matters for the next process: this one's store has stopped.
func (l *Ledger) stay() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stays = true
}

// Receipt says what became of one request, in memory that outlives the process. A kernel sends a request again that was
// read and not answered; what was done already is then answered and not done twice.
type Receipt struct {
	Unique uint64 // of the request; 0: none
	seq    uint64 // its change is done if the workspace has that seq
	at     uint64 // or the ledger that position; 1: it is done
	Ino    uint64 // what was made, as kernels call it
	Fh     uint64 // what was opened
	Flags  uint64 // how
	Node   uint64 // that the request is about
	_      uint64
}

// Begin is called before the request is looked at.
func (r *Receipt) Begin(unique, node uint64) {
	r.seq, r.at, r.Ino, r.Fh, r.Flags, r.Node = 0, 0, 0, 0, 0, node
	atomic.StoreUint64(&r.Unique, unique)
}

// End is called after it was answered.
func (r *Receipt) End() { atomic.StoreUint64(&r.Unique, 0) }

// noted is called just before a note counts. The first one decides.
func (r *Receipt) noted(end uint64) {
	if r != nil && r.at == 0 {
		atomic.StoreUint64(&r.at, end)
	}
}

// committing is called just before a change with that seq is appended; 0 takes it back.
func (r *Receipt) committing(seq store.Seq, made store.Ino) {
	if r == nil {
		return
	}
	r.Ino = uint64(made)
	atomic.StoreUint64(&r.seq, uint64(seq))
}

// Settled makes it say for good that the request was done.
func (r *Receipt) Settled() { r.seq, r.at = 0, 1 }

// done reports whether the request was done, by what was found of the process that wrote the receipt.
func (r *Receipt) done(seq store.Seq, end uint64) bool {
	return r.at != 0 && r.at <= end || r.seq != 0 && r.seq <= uint64(seq)
}
