package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The journal's binary encoding. Integers are varints (signed ones zigzag), strings and slices carry their length in
// front. The decoder is purely structural: whatever value the encoder was given comes back, and garbage is an error,
// never a panic and never an allocation larger than a small multiple of the input. What a value means is not judged
// here: an op that was acknowledged must always decode.

// errDecode is wrapped by every error of the decoder.
var errDecode = errors.New("malformed journal record")

func putInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func putUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

func putString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func putBytes(b, p []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	return append(b, p...)
}

// decoder reads values off the front of b. After the first error every read returns zero and err stays.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errDecode, fmt.Sprintf(format, args...))
		d.b = nil
	}
}

func (d *decoder) uint(what string) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("%s: bad integer", what)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int(what string) int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("%s: bad integer", what)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32(what string) uint32 {
	v := d.uint(what)
	if v > math.MaxUint32 {
		d.fail("%s: %d does not fit 32 bits", what, v)
		return 0
	}
	return uint32(v)
}

func (d *decoder) byte(what string) byte {
	if len(d.b) == 0 {
		d.fail("%s: record ends early", what)
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) bool(what string) bool {
	v := d.byte(what)
	if v > 1 {
		d.fail("%s: %d is neither 0 nor 1", what, v)
	}
	return v == 1
}

// raw returns the next n bytes without copying them.
func (d *decoder) raw(what string, n int) []byte {
	if n > len(d.b) {
		d.fail("%s: wants %d bytes, the record has %d left", what, n, len(d.b))
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

// bytes returns a length-prefixed slice that aliases the record; nil if it is empty.
func (d *decoder) bytes(what string) []byte {
	n := d.uint(what)
	if n > uint64(len(d.b)) {
		d.fail("%s: wants %d bytes, the record has %d left", what, n, len(d.b))
		return nil
	}
	if n == 0 {
		return nil
	}
	return d.raw(what, int(n))
}

func (d *decoder) string(what string) string { return string(d.bytes(what)) }

// count reads the number of elements of a list whose elements take at least size bytes each.
func (d *decoder) count(what string, size int) int {
	n := d.uint(what)
	if n > uint64(len(d.b)/size) {
		d.fail("%s: %d elements cannot be in %d bytes", what, n, len(d.b))
		return 0
	}
	return int(n)
}

// list reads a length-prefixed list; nil if it is empty. min is the least size of an element in bytes.
func list[T any](d *decoder, what string, size int, one func(d *decoder, v *T)) []T {
	n := d.count(what, size)
	if n == 0 {
		return nil
	}
	// A Go value can be far larger than its encoding, so a lying count must not decide what is allocated.
	out := make([]T, 0, min(n, 1024))
	for range n {
		var v T
		one(d, &v)
		if d.err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}
