package fs

import (
	"os"
	"path/filepath"
	"sync/atomic"

	"wsfs/store"
)

// keeping is what a workspace has to do with the processes before and after this one: the ledger, in which it notes what
// the next one needs, and what it found in it.
type keeping struct {
	ledger    *Ledger // nil: nothing outlives the process but the store
	survived  bool    // kernels knew the workspace before this process did
	recovered struct {
		seq store.Seq // highest when it was opened
		end uint64    // of the ledger
	}
	restored map[uint64][]Restored // by mount; guarded by FS.mu
	spills   atomic.Uint64         // names of scratch files given
}

// Opened says how a mount calls a handle, before the kernel knows it, so that it can be opened again by a process after
// this one. mount 0: it cannot.
func (f *FS) Opened(c *Call, h *Handle, mount, fh uint64, flags, reply uint32) {
	if f.ledger == nil || mount == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.n.stale {
		return
	}
	h.mount, h.fh = mount, fh
	r := c.receipt()
	noted := uint64(0)
	if h.past {
		noted = handlePast
	}
	opening(r, fh, reply)
	f.ledger.opened(h.key(), h.n.id, noted, flags&(oAccMode|oTrunc), h.who, r)
}

// OpenedDir is Opened for a listing.
func (f *FS) OpenedDir(c *Call, d *Dir, mount, fh uint64, reply uint32) {
	if f.ledger == nil || mount == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d.key = handleKey{mount, fh, true}
	opening(c.receipt(), fh, reply)
	f.ledger.opened(d.key, d.n.id, handleDir, 0, store.Attribution{}, c.receipt())
}

func opening(r *Receipt, fh uint64, reply uint32) {
	if r != nil {
		r.Fh, r.Flags = fh, uint64(reply)
	}
}

// noteClosed is the end of a handle. FS.mu is held.
func (f *FS) noteClosed(h *Handle) {
	if f.ledger == nil {
		return
	}
	if h.mount != 0 {
		f.ledger.closed(h.key())
	}
	if h.n.gone && h.n.opens == 0 {
		f.ledger.ofNode(noteForget, h.n.id)
	}
	f.restartLedger()
}

// restartLedger lets the ledger begin anew if nothing is open or dirty. FS.mu is held.
func (f *FS) restartLedger() {
	if f.ledger != nil && len(f.dirty) == 0 {
		f.ledger.restart()
	}
}

// noteOrphan notes what has lost its last name and is open: there may be no row of it. FS.mu is held.
func (f *FS) noteOrphan(n *node) {
	if f.ledger != nil && n.gone && n.opens > 0 && n.isReg() && !n.stale {
		f.ledger.node(n, nil)
	}
}

// noteCut notes that a file has another size. fl.mu is held.
func (f *FS) noteCut(h *Handle, fl *file, who store.Attribution, at int64, flags uint64) {
	if f.ledger == nil {
		return
	}
	h.n.kept = true
	f.ledger.cut(h, fl, who, at, flags)
	f.removeScratch(fl)
}

// noteClean notes that the journal has all of a file, or with an error that it has not: what was noted of it may be all that there is
// of what was acknowledged, a truncation at a close, although nothing calls it dirty any more. fl.mu is held.
func (f *FS) noteClean(n *node, fl *file, err error) {
	if err != nil {
		if n.kept {
			f.ledger.stay()
		}
		return
	}
	if n.kept {
		n.kept = false
		f.ledger.ofNode(noteClean, n.id)
	}
	f.removeScratch(fl)
}

// removeScratch removes scratch files that the ledger does not name any more. fl.mu is held.
func (f *FS) removeScratch(fl *file) {
	for _, name := range fl.unneeded {
		_ = os.Remove(filepath.Join(f.scratch, name)) // the next start does
	}
	fl.unneeded = nil
}

func (f *FS) noteLocked(ino store.Ino, h *Handle, l *Lock) {
	if h.mount != 0 {
		f.ledger.locked(ino, h.key(), l)
	}
}

// IsPast reports whether it shows a state of the past, of which nothing changes any more.
func (f *FS) IsPast() bool { return f.opts.At != nil }

// mayBeKnown is called for a node that was just read: a kernel may know it from before this process, and have pages of it
// that nobody here has heard of. FS.mu is held.
func (f *FS) mayBeKnown(n *node) {
	if f.survived {
		n.lookups++
		n.mixed = f.unheard()
	}
}

// unheard reports whether what is read now may be other than the pages that a kernel has: something was moved or edited
// while it was not in memory, and nobody was told.
func (f *FS) unheard() bool { return f.survived && f.released.Load() > 0 }
