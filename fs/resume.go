package fs

import (
	"encoding/binary"
)

// resumed is what makes a listing go on in another process. Places in a listing are places in the memory of one, so the
// ledger has what was shown: the hashes of the names, or, most of the time, that nothing was left to show.
type resumed struct {
	key   handleKey // in the ledger; mount 0: it is not there
	base  uint64    // what is added to cookies here: those of the process before are smaller
	ended bool      // it had shown everything
	seen  map[uint64]struct{}
}

// resumedCookie is more than any directory has entries.
const resumedCookie = 1 << 40

// resume turns the place that a kernel asks for into one in memory. ended: there is nothing more. FS.mu is held.
func (d *Dir) resume(off uint64) (at uint64, ended bool) {
	switch {
	case d.base == 0:
		return off, false
	case off < cookieDot: // once more from the beginning
		d.seen, d.ended = nil, false
		return off, false
	case off >= d.base:
		return off - d.base, false
	case off == cookieDot:
		return off, false
	}
	return cookieDotDot, d.ended // a place in the listing of the process before
}

// shown reports whether the process before has shown the name.
func (d *Dir) shown(name string) bool {
	if len(d.seen) == 0 {
		return false
	}
	_, ok := d.seen[hashOf(name)]
	return ok
}

// noteShown notes what was shown: the entries behind from and before to. FS.mu is held.
func (d *Dir) noteShown(from, to uint64, began bool) {
	if d.key.mount == 0 || d.f.ledger == nil {
		return
	}
	flags := uint64(0)
	if began {
		flags = listedNew
	}
	if to == d.end {
		d.f.ledger.listed(d.key, flags|listedAll, nil)
		return
	}
	list := d.n.dir.order
	var hashes []byte
	for i := d.n.dir.after(from); i < len(list) && list[i].cookie < to; i++ {
		if !list[i].dead() {
			hashes = binary.LittleEndian.AppendUint64(hashes, hashOf(list[i].name))
		}
	}
	d.f.ledger.listed(d.key, flags, hashes)
}

func (d *Dir) noteClosed() {
	if d.key.mount != 0 {
		d.f.ledger.closed(d.key)
		d.f.restartLedger()
	}
}

// hashOf is FNV-1a of 64 bits: the same in every process.
func hashOf(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

func leUint64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
