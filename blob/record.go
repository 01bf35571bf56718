package blob

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A pack is a file packs/%08d.pack that only grows (little-endian):
//
//	offset  size
//	 0      4     "wspk"
//	 4      4     version of the format: 1
//	 8      4     number of the pack
//	12      4     CRC-32C of the 12 bytes before
//	16            records, one after the other
//
// A record describes itself, so that blobs can be found again without the database:
//
//	 0      4     "wsbl"
//	 4      1     Encoding
//	 5      3     zero
//	 8      4     bytes of the blob
//	12      4     stored bytes
//	16      32    Ref
//	48      4     CRC-32C of the 48 bytes before and of the stored bytes
//	52            the stored bytes
//
// After a crash there may be anything between two records. Nothing depends on that: blobs are found by Location, and
// appending goes on behind the end of the file.
const (
	packMagic    = "wspk"
	packVersion  = 1
	packHeader   = 16
	recordMagic  = "wsbl"
	recordHeader = 52
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendPackHeader(b []byte, number uint32) []byte {
	n := len(b)
	b = append(b, packMagic...)
	b = binary.LittleEndian.AppendUint32(b, packVersion)
	b = binary.LittleEndian.AppendUint32(b, number)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
}

// checkPackHeader says what is wrong with the first bytes of a pack.
func checkPackHeader(b []byte, number uint32) error {
	switch {
	case len(b) < packHeader || string(b[:4]) != packMagic:
		return errors.New("not a pack file")
	case binary.LittleEndian.Uint32(b[12:]) != crc32.Checksum(b[:12], castagnoli):
		return errors.New("the pack's header is damaged")
	case binary.LittleEndian.Uint32(b[4:]) != packVersion:
		return errors.New("the pack has a newer format: use a newer wsfs")
	case binary.LittleEndian.Uint32(b[8:]) != number:
		return errors.New("the pack has another number in its header than in its name")
	}
	return nil
}

// record is a parsed record header.
type record struct {
	ref      Ref
	encoding Encoding
	size     int64
	stored   int64
	crc      uint32
}

// appendRecordHeader reserves room for a header; finishRecord fills it in once the stored bytes follow it.
func appendRecordHeader(b []byte) []byte {
	var h [recordHeader]byte
	return append(b, h[:]...)
}

// finishRecord writes the header of the record that begins at b[at:] and whose stored bytes reach to the end of b.
func finishRecord(b []byte, at int, ref Ref, e Encoding, size int) {
	h := b[at : at+recordHeader]
	copy(h, recordMagic)
	h[4] = byte(e)
	binary.LittleEndian.PutUint32(h[8:], uint32(size))
	binary.LittleEndian.PutUint32(h[12:], uint32(len(b)-at-recordHeader))
	copy(h[16:], ref[:])
	crc := crc32.Update(crc32.Checksum(h[:48], castagnoli), castagnoli, b[at+recordHeader:])
	binary.LittleEndian.PutUint32(h[48:], crc)
}

// parseRecord reads a record header. b may go on behind it.
func parseRecord(b []byte) (record, error) {
	if len(b) < recordHeader || string(b[:4]) != recordMagic || b[5]|b[6]|b[7] != 0 {
		return record{}, errors.New("no record begins here")
	}
	r := record{
		ref:      Ref(b[16:48]),
		encoding: Encoding(b[4]),
		size:     int64(binary.LittleEndian.Uint32(b[8:])),
		stored:   int64(binary.LittleEndian.Uint32(b[12:])),
		crc:      binary.LittleEndian.Uint32(b[48:]),
	}
	if r.encoding > S2 || r.size == 0 || r.size > maxStored || r.stored == 0 || r.stored > r.size {
		return record{}, errors.New("the record's header makes no sense")
	}
	return r, nil
}

// check compares the checksum of header and stored bytes.
func (r record) check(header, stored []byte) error {
	if crc32.Update(crc32.Checksum(header[:48], castagnoli), castagnoli, stored) != r.crc {
		return errors.New("the record's checksum does not fit")
	}
	return nil
}

// maxStored bounds the size of any single blob: chunks, nodes and small contents are all below it.
const maxStored = maxChunk
