package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A journal is a row of segment files journal/%08d.wj, written by one start of one writer:
//
//	segment = header record* end        preallocated, so that a write needs no new space
//	header  = magic[8] version:4 crc:4 journal:8 first:8 salt:8 boot[16] mount:8
//	record  = crc:4 length:4 position:8 durable:8 payload[length] zeros to a multiple of 8
//	end     = zeros[24], or the end of the file; whatever follows is of no meaning
//
// Numbers are little endian. Checksums are CRC32C. That of the header covers the header with the checksum zeroed; that
// of a record covers everything after it but the padding and starts from the salt, a random number of the journal, so
// that bytes of another journal, or a file's content that looks like a record, never pass for one. Positions count
// 1, 2, 3, ... across the segments of a journal; first is that of a segment's first record. durable is the position up
// to which the journal was known to be on disk when the record was made: damage at or below it is a broken disk, damage
// above it may be what a power cut leaves of writes that nobody had synced.
const (
	segMagic   = "wsfs-wj\n"
	spareMagic = "wsfs-sp\n" // in place of segMagic: nothing is in the file yet, or any more
	segVersion = 1
	segHeader  = 64
	recHeader  = 24
	recAlign   = 8
	// maxRecord bounds what a length field may claim.
	maxRecord = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// place identifies one run of the machine and one mounting of the file system. While both are the same, what was
// written is in the page cache and nothing can be missing from the middle of a journal.
type place struct {
	boot  [16]byte
	mount uint64
}

type segmentHeader struct {
	journal int64
	first   int64
	salt    uint64
	place   place
}

func (h *segmentHeader) append(b []byte) []byte {
	start := len(b)
	b = append(b, segMagic...)
	b = binary.LittleEndian.AppendUint32(b, segVersion)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.journal))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.first))
	b = binary.LittleEndian.AppendUint64(b, h.salt)
	b = append(b, h.place.boot[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.place.mount)
	binary.LittleEndian.PutUint32(b[start+12:], crc32.Checksum(b[start:], castagnoli))
	return b
}

var errSegVersion = errors.New("its format")

// parseHeader returns an error that says what is wrong with the header in b.
func parseHeader(b []byte) (*segmentHeader, error) {
	if len(b) < segHeader {
		return nil, fmt.Errorf("the file ends within its header of %d bytes", segHeader)
	}
	b = b[:segHeader]
	if string(b[:8]) != segMagic {
		return nil, fmt.Errorf("it does not begin like a journal segment")
	}
	var zeroed [segHeader]byte
	copy(zeroed[:], b)
	clear(zeroed[12:16])
	if crc32.Checksum(zeroed[:], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return nil, fmt.Errorf("the checksum of its header is wrong")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != segVersion {
		return nil, fmt.Errorf("%w %d is not known to this program (it knows %d): open it with the version of wsfs that wrote it", errSegVersion, v, segVersion)
	}
	h := &segmentHeader{
		journal: int64(binary.LittleEndian.Uint64(b[16:])),
		first:   int64(binary.LittleEndian.Uint64(b[24:])),
		salt:    binary.LittleEndian.Uint64(b[32:]),
	}
	copy(h.place.boot[:], b[40:])
	h.place.mount = binary.LittleEndian.Uint64(b[56:])
	if h.journal <= 0 || h.first <= 0 {
		return nil, fmt.Errorf("its header names journal %d and position %d", h.journal, h.first)
	}
	return h, nil
}

// padded is the length of a record with n bytes of payload.
func padded(n int) int { return (recHeader + n + recAlign - 1) &^ (recAlign - 1) }

func seed(salt uint64) uint32 { return uint32(salt) ^ uint32(salt>>32) }

// sealRecord fills in the record that starts at b[start:] with room for the header and is complete but for it, and pads.
func sealRecord(b []byte, start int, salt uint64, position, durable int64) []byte {
	h := b[start:]
	binary.LittleEndian.PutUint32(h[4:], uint32(len(h)-recHeader))
	binary.LittleEndian.PutUint64(h[8:], uint64(position))
	binary.LittleEndian.PutUint64(h[16:], uint64(durable))
	binary.LittleEndian.PutUint32(h, crc32.Update(seed(salt), castagnoli, h[4:]))
	for len(b)%recAlign != start%recAlign {
		b = append(b, 0)
	}
	return b
}

// record is one record found in a segment. Its payload aliases the segment's bytes.
type record struct {
	position int64
	durable  int64
	payload  []byte
	end      int // offset of the byte after it
}

// parseRecord reads the record at b[off:]; ok is false if there is no whole, undamaged record of this journal.
func parseRecord(b []byte, off int, salt uint64) (r record, ok bool) {
	if off < 0 || len(b)-off < recHeader {
		return record{}, false
	}
	h := b[off:]
	n := binary.LittleEndian.Uint32(h[4:])
	if n == 0 || n > maxRecord || int(n) > len(h)-recHeader {
		return record{}, false
	}
	h = h[:recHeader+int(n)]
	r = record{
		position: int64(binary.LittleEndian.Uint64(h[8:])),
		durable:  int64(binary.LittleEndian.Uint64(h[16:])),
		payload:  h[recHeader:],
		end:      min(off+padded(int(n)), len(b)),
	}
	if r.position <= 0 || r.durable < 0 || r.durable >= r.position {
		return record{}, false
	}
	return r, crc32.Update(seed(salt), castagnoli, h[4:]) == binary.LittleEndian.Uint32(h)
}

// nextRecord looks for the first undamaged record at or after off whose position is above after.
func nextRecord(b []byte, off int, salt uint64, after int64) (r record, at int, ok bool) {
	for ; len(b)-off >= recHeader; off += recAlign {
		// Most of what follows a hole is zeros or content: look at the position before paying for a checksum.
		if int64(binary.LittleEndian.Uint64(b[off+8:])) <= after {
			continue
		}
		if r, ok := parseRecord(b, off, salt); ok {
			return r, off, true
		}
	}
	return record{}, 0, false
}
