package store

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// journalScan reads the records of one journal, in order, and decides what a place without a good record means.
type journalScan struct {
	r    *replayer
	segs []segmentFile
	id   int64
	salt uint64
	same bool // the machine has not gone down since it was written

	data []byte // of segs[open]
	open int

	known   knownRows
	durable int64 // highest position that a record said is on disk
}

// run applies what the database does not have of the journal.
func (js *journalScan) run(ctx context.Context) error {
	if js.segs[0].head == nil { // and so are the others
		return js.headless()
	}
	js.id, js.salt = js.segs[0].head.journal, js.segs[0].head.salt
	js.same = js.segs[0].head.place.known() && js.segs[0].head.place == js.r.place
	applied := js.r.applied[js.id]
	js.durable = applied
	for i := range js.segs {
		if js.segs[i].mended {
			js.r.log().Warn("a byte of a journal segment's header was wrong; its checksum says what it was", "file", js.segs[i].path)
		}
	}
	seg, ok := js.start(applied + 1)
	off, want := segHeader, applied+1
	if !ok && js.segs[len(js.segs)-1].head == nil { // what is missing may be in one without a header
		h, err := js.hole(0, 0, want, applied)
		if err != nil || !h.resume {
			return err
		}
		seg, off, want, ok = h.seg, h.off, h.position, true
	} else if ok {
		want = js.segs[seg].head.first
	}
	if !ok {
		return fmt.Errorf("journal segment %s begins at position %d of journal %d, but the database has it only up to %d: "+
			"segments before it are gone, or the database is older than its journal: %w; put the missing files back, or %s",
			js.segs[0].path, js.segs[0].head.first, js.id, applied, ErrCorrupt, adviceMove)
	}
	from := max(want, applied+1)
	for {
		if err := js.load(seg); err != nil {
			return err
		}
		rec, ok := parseRecord(js.data, off, js.salt)
		if ok && rec.position == want {
			if end, err := js.apply(ctx, seg, off, &rec, applied); err != nil {
				return err
			} else if end {
				break
			}
			off = rec.end
			want++
			continue
		}
		if next, ok := js.start(want); ok && next != seg && js.segs[next].head.first == want {
			js.r.spent = append(js.r.spent, spentSegment{path: js.segs[seg].path, journal: js.id, last: want - 1})
			seg, off = next, segHeader
			continue
		}
		h, err := js.hole(seg, off, want, applied)
		if err != nil {
			return err
		}
		if !h.resume {
			break
		}
		seg, off, want = h.seg, h.off, h.position
	}
	if err := js.r.flush(ctx); err != nil {
		return err
	}
	if want > from {
		js.r.log().Info("replayed the journal", "journal", js.id, "from", from, "to", want-1)
	}
	return nil
}

// start returns the segment in which position must be: the last one that begins at or before it.
func (js *journalScan) start(position int64) (seg int, ok bool) {
	for i := range js.segs {
		if h := js.segs[i].head; h != nil && h.first <= position {
			seg, ok = i, true
		}
	}
	return seg, ok
}

func (js *journalScan) load(seg int) error {
	if js.open == seg {
		return nil
	}
	data, err := os.ReadFile(js.segs[seg].path)
	if errors.Is(err, os.ErrNotExist) { // deleted by free, as all of it is applied
		data, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("read journal segment: %w", err)
	}
	js.data, js.open = data, seg
	return nil
}

// apply decodes rec and queues its op, unless the database has it. end means that the journal ends before it.
func (js *journalScan) apply(ctx context.Context, seg, off int, rec *record, applied int64) (end bool, err error) {
	js.durable = max(js.durable, rec.durable)
	if rec.position <= applied {
		return false, nil
	}
	op, err := decodeOp(rec.payload, &js.known)
	if err != nil {
		return false, fmt.Errorf("journal segment %s, position %d at offset %d: %w: %w; open the store with the version of wsfs that wrote it, or %s",
			js.segs[seg].path, rec.position, off, err, ErrCorrupt, adviceMove)
	}
	if end, err := js.withoutContent(ctx, seg, off, rec, op); end || err != nil {
		return end, err
	}
	return false, js.r.add(ctx, js.id, rec.position, op, len(rec.payload))
}

// withoutContent reports whether a power cut took content of op that was in a pack already. Its record may well have
// reached the disk before, as long as nobody had synced it; then the journal ends here. Content of a synced op that
// cannot be read is damage of the pack: the op is applied, and reading the file says so.
func (js *journalScan) withoutContent(ctx context.Context, seg, off int, rec *record, op *Op) (bool, error) {
	if js.same {
		return false, nil
	}
	for _, st := range op.Contents {
		for _, loc := range st.Packed {
			bad := js.r.cs.Verify(ctx, loc)
			if bad == nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return false, err
			}
			_, count, err := js.later(seg, off, rec.position) // for the marks of later records
			if err != nil {
				return false, err
			}
			log := js.r.log().With("file", js.segs[seg].path, "offset", off, "position", rec.position, "err", bad)
			if rec.position <= js.durable {
				log.Error("content of a change in the journal cannot be read; the change is kept")
				return false, nil
			}
			js.keep(seg)
			log.Warn("content of a change in the journal did not reach the disk before a power cut; the change and what follows "+
				"it were never synced and are dropped; the files are kept beside the journal", "records", count)
			return true, nil
		}
	}
	return false, nil
}

// keep has the segments from seg on put aside instead of deleted.
func (js *journalScan) keep(seg int) {
	for i := range js.segs {
		if i >= seg || js.segs[i].head == nil {
			js.r.cut[js.segs[i].path] = true
		}
	}
}

// hole is what lies behind a place where no good record is.
type hole struct {
	resume   bool  // go on with the record at seg, off
	position int64 // of that record
	seg, off int
}

// hole judges the place at off of segs[seg], where the record at position want should be. The end of the journal is one,
// whole or torn. Good records behind it mean that something is missing: if nothing of that is needed, go on; if a power
// cut cannot have done it, it is damage and an error; otherwise the journal ends here, since what follows without what
// is missing would be a state that never was.
func (js *journalScan) hole(seg, off int, want, applied int64) (hole, error) {
	later, count, err := js.later(seg, off, want)
	if err != nil {
		return hole{}, err
	}
	path := js.segs[seg].path
	log := js.r.log().With("file", path, "offset", off, "position", want)
	if count == 0 {
		if err := js.tornEnd(seg); err != nil {
			return hole{}, err
		}
		switch {
		case !js.torn(off):
		case js.same:
			log.Warn("the journal's last record was not written completely; it was acknowledged to nobody and is dropped")
		default:
			log.Warn("the journal's last record was not written completely, as after a power cut; it was never synced and is dropped")
		}
		return hole{}, nil
	}
	if later.position == want || later.position <= applied+1 {
		log.Warn("the journal is damaged, but nothing that is needed is missing; going on behind it", "next", later.position)
		return later, nil
	}
	missing := max(want, applied+1)
	if js.same || missing <= js.durable {
		return hole{}, fmt.Errorf("journal segment %s is damaged at offset %d: the record of position %d of journal %d is not readable, "+
			"but %d after it are, from %s offset %d on: %w; %s",
			path, off, missing, js.id, count, js.segs[later.seg].path, later.off, ErrCorrupt, adviceMove)
	}
	js.keep(seg)
	log.Warn("the journal has a hole, as after a power cut: what follows it was never synced and is dropped; the files are kept beside the journal",
		"records", count, "next", later.position)
	return hole{}, nil
}

// later finds the good records with positions from want on, behind off of segs[seg] and in all others: where the one
// with the lowest position is, and how many.
func (js *journalScan) later(seg, off int, want int64) (first hole, count int, err error) {
	for i := range js.segs {
		if err := js.load(i); err != nil {
			return first, 0, err
		}
		at := segHeader
		if i == seg {
			at = off
		}
		for {
			rec, found, ok := nextRecord(js.data, at, js.salt, want-1)
			if !ok {
				break
			}
			if count == 0 || rec.position < first.position {
				first = hole{resume: true, position: rec.position, seg: i, off: found}
			}
			count++
			js.durable = max(js.durable, rec.durable)
			at = rec.end
		}
	}
	return first, count, js.load(seg)
}

// torn reports whether something other than the mark of the end is at off of the loaded segment.
func (js *journalScan) torn(off int) bool {
	return off < len(js.data) && !zero(js.data[off:min(off+recHeader, len(js.data))])
}
