package store

import (
	"encoding/binary"
	"fmt"
	"os"
)

// What is done about a segment whose header cannot be read. A header is written with the first records of its segment
// and is on disk when the first of them is said to be. So a power cut may leave any part of it as long as nothing of the
// segment was synced, and nothing of that was promised to anybody. Where something may have been synced, the header is
// damaged, and the start refuses, unless all records can be read without it.

// mendHeader returns the header in b as it was if one byte of it is wrong, else nil: the checksum tells which byte, and
// what it was. One guess in 250,000 is wrong; then the salt is, too, or the position, and no record fits.
func mendHeader(b []byte) *segmentHeader {
	if len(b) < segHeader {
		b = append(append([]byte(nil), b...), make([]byte, segHeader-len(b))...)
	}
	var c [segHeader]byte
	copy(c[:], b)
	for i := range c {
		was := c[i]
		for d := 1; d < 256; d++ {
			c[i] = was ^ byte(d)
			if h, err := parseHeader(c[:]); err == nil {
				return h
			}
		}
		c[i] = was
	}
	return nil
}

// crcBack is what a CRC32C register was before the bytes of b, which left it at crc: checksums can be run backwards.
func crcBack(crc uint32, b []byte) uint32 {
	crc = ^crc
	for i := len(b) - 1; i >= 0; i-- {
		n := crcTop[crc>>24]
		crc = (crc^castagnoli[n])<<8 | uint32(n^b[i])
	}
	return ^crc
}

// crcTop leads from the highest byte of an entry of the checksum's table to its place: all are different.
var crcTop = func() (t [256]byte) {
	for i, c := range castagnoli {
		t[c>>24] = byte(i)
	}
	return t
}()

// plausible is what may be a record of any journal at b[off:].
func plausible(b []byte, off int) (r record, ok bool) {
	if off < 0 || len(b)-off < recHeader {
		return record{}, false
	}
	h := b[off:]
	n := binary.LittleEndian.Uint32(h[4:])
	r.position, r.durable = int64(binary.LittleEndian.Uint64(h[8:])), int64(binary.LittleEndian.Uint64(h[16:]))
	if n == 0 || n > maxRecord || int(n) > len(h)-recHeader || r.position <= 0 || r.durable < 0 || r.durable >= r.position {
		return record{}, false
	}
	r.end = min(off+padded(int(n)), len(b))
	return r, true
}

// blindRecords calls f for the records in b, a segment whose salt is not known: two that follow each other and agree on
// a seed are of one journal, and so are all others with that seed.
func blindRecords(b []byte, f func(record)) {
	for off := segHeader; len(b)-off >= recHeader; off += recAlign {
		one, ok := plausible(b, off)
		if !ok {
			continue
		}
		two, ok := plausible(b, one.end)
		if !ok || two.position != one.position+1 {
			continue
		}
		seed := seedOf(b, off)
		if seedOf(b, one.end) != seed {
			continue
		}
		for off = segHeader; ; {
			r, _, ok := nextRecord(b, off, uint64(seed), 0)
			if !ok {
				return
			}
			f(r)
			off = r.end
		}
	}
}

// seedOf is the seed with which the checksum of the plausible record at b[off:] is right.
func seedOf(b []byte, off int) uint32 {
	h := b[off:]
	n := recHeader + int(binary.LittleEndian.Uint32(h[4:]))
	return crcBack(binary.LittleEndian.Uint32(h), h[4:n])
}

// headless judges a journal of which no header is left. It is put aside, unless a record in it says that one before it,
// which the database does not have, was synced.
func (js *journalScan) headless() error {
	known := int64(0) // what the database has of the last journal that it knows: used-up segments may show old records
	last := int64(0)
	for id, applied := range js.r.applied {
		if id > last {
			last, known = id, applied
		}
	}
	var first, durable int64
	var path string
	for i := range js.segs {
		data, err := os.ReadFile(js.segs[i].path)
		if err != nil {
			return fmt.Errorf("read journal segment: %w", err)
		}
		blindRecords(data, func(r record) {
			if r.position == 1 {
				known = 0 // it may be one that the database knows nothing of
			}
			durable = max(durable, r.durable)
			if r.position > known && (first == 0 || r.position < first) {
				first, path = r.position, js.segs[i].path
			}
		})
	}
	if first != 0 && first <= durable {
		return fmt.Errorf("journal segment %s is damaged at offset 0: its header cannot be read, and changes in it, from position %d "+
			"to %d, had been synced: %w; %s", path, first, durable, ErrCorrupt, adviceMove)
	}
	js.keep(0)
	js.r.log().Warn("journal segments have no beginning, as after a power cut: no sync of what they hold was ever acknowledged; "+
		"they are kept beside the journal and not applied", "file", js.segs[0].path, "files", len(js.segs))
	return nil
}

// tornSegment returns a segment whose header cannot be read and of which nothing was read either, or nil.
func (js *journalScan) tornSegment() (*segmentFile, error) {
	for i := range js.segs {
		if js.segs[i].torn == nil {
			continue
		}
		if err := js.load(i); err != nil {
			return nil, err
		}
		if _, _, ok := nextRecord(js.data, segHeader, js.salt, 0); !ok {
			return &js.segs[i], nil
		}
	}
	return nil, nil
}

// tornEnd judges the end of the journal, behind which nothing can be read, if there is a segment with a torn header.
func (js *journalScan) tornEnd(seg int) error {
	t, err := js.tornSegment()
	if err != nil || t == nil {
		return err
	}
	if js.same {
		return fmt.Errorf("journal segment %s is damaged at offset 0: %w: %w; what it holds cannot be told; %s", t.path, t.torn, ErrCorrupt, adviceMove)
	}
	js.keep(len(js.segs))
	js.r.log().Warn("a journal segment's header was not written completely, as after a power cut: nothing in it was ever synced; "+
		"it is kept beside the journal and not applied", "file", t.path)
	return js.load(seg)
}
