package fuse

import (
	"bytes"
	"unsafe"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

const (
	inHeaderLen  = int(unsafe.Sizeof(gofuse.InHeader{}))
	outHeaderLen = int(unsafe.Sizeof(gofuse.OutHeader{}))
)

// request is one message of the kernel and the reply that grows for it. Both lie in buffers of the worker; the structs
// of the protocol are looked at in place.
type request struct {
	h      *gofuse.InHeader
	in     []byte
	rest   []byte // of in, behind the fixed struct: names, data
	out    []byte // the whole reply buffer
	n      int    // bytes of out used so far
	cancel chan struct{}
	// split: in ends with the opcode's struct, or has none; what follows is payload.
	split   bool
	payload []byte
}

// begin readies q for a message of at least inHeaderLen bytes.
func (q *request) begin(in, out []byte, cancel chan struct{}) {
	q.h, q.in, q.rest, q.out, q.n = (*gofuse.InHeader)(unsafe.Pointer(&in[0])), in, nil, out, outHeaderLen
	q.cancel = cancel
}

// input looks at the message as a T, nil if it is too short; what follows is in q.rest.
func input[T any](q *request) *T {
	size := int(unsafe.Sizeof(*new(T)))
	if len(q.in) < size {
		return nil
	}
	q.rest = q.behind(size)
	return (*T)(unsafe.Pointer(&q.in[0]))
}

// short copies a message that is an older, shorter form of T: only size bytes count, the rest stays zero.
func short[T any](q *request, size int) *T {
	if len(q.in) < size {
		return nil
	}
	v := new(T)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)), q.in[:size])
	q.rest = q.behind(size)
	return v
}

// behind is what follows the first size bytes, which are all structs.
func (q *request) behind(size int) []byte {
	if q.split {
		return q.payload
	}
	return q.in[size:]
}

// output appends a zeroed T to the reply.
func output[T any](q *request) *T {
	size := int(unsafe.Sizeof(*new(T)))
	b := q.out[q.n : q.n+size]
	clear(b)
	q.n += size
	return (*T)(unsafe.Pointer(&b[0]))
}

// room is where up to size bytes of payload go, nil if the reply buffer has not that much; take counts them.
func (q *request) room(size int) []byte {
	if size < 0 || q.n+size > len(q.out) {
		return nil
	}
	return q.out[q.n : q.n+size : q.n+size]
}

func (q *request) take(n int) { q.n += n }

// name cuts a string that ends with NUL off q.rest.
func (q *request) name() (string, bool) {
	i := bytes.IndexByte(q.rest, 0)
	if i < 0 {
		return "", false
	}
	s := string(q.rest[:i])
	q.rest = q.rest[i+1:]
	return s, true
}

// finish writes the header and returns the reply; an error has no body.
func (q *request) finish(st gofuse.Status) []byte {
	if st != gofuse.OK {
		q.n = outHeaderLen
	}
	*(*gofuse.OutHeader)(unsafe.Pointer(&q.out[0])) = gofuse.OutHeader{
		Length: uint32(q.n), Status: -int32(st), Unique: q.h.Unique,
	}
	return q.out[:q.n]
}
