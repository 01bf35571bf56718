package fuse

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The protocol is that of Documentation/filesystems/fuse/fuse-io-uring.rst and of struct fuse_uring_req_header,
// fuse_uring_ent_in_out and fuse_uring_cmd_req in linux/fuse.h (7.42).
const (
	capOverIOURing = 1 << 41 // FUSE_OVER_IO_URING

	uringRegister       = 1   // FUSE_IO_URING_CMD_REGISTER
	uringCommitAndFetch = 2   // FUSE_IO_URING_CMD_COMMIT_AND_FETCH
	uringOpIn           = 128 // the struct of the opcode; the header is in front, at 0
	uringOpInLen        = 128
	uringCommitID       = 256 + 8
	uringPayloadLen     = 256 + 16
	uringHeaderLen      = 288

	// entryPayload is where the payload begins. The header of a reply is made in the bytes before it.
	entryPayload = 4096
	entryIovec   = 512
)

// entry is one place for a request: the kernel writes a request into it, we write the reply, the kernel takes that and
// may write the next. Its memory is not Go's. Header and struct of a request come apart from names and data.
type entry struct {
	mem []byte
	qid uint16
	out bool // with the kernel, which may write to it at any time
}

// newEntry maps room for a payload of payload bytes; pages are there only once they were used.
func newEntry(qid uint16, payload int) (*entry, error) {
	mem, err := unix.Mmap(-1, 0, entryPayload+payload, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map a buffer of %d bytes: %w", payload, err)
	}
	return &entry{mem: mem, qid: qid}, nil
}

// free gives the memory back. While the kernel might still write to it, only the pages: the addresses must not become
// somebody else's.
func (e *entry) free() {
	if e.out {
		_ = unix.Madvise(e.mem, unix.MADV_DONTNEED)
	} else {
		_ = unix.Munmap(e.mem)
	}
	e.mem = nil
}

// register puts the command on r that shows the entry to the kernel and asks for a request.
func (e *entry) register(r *ring, dev int, user uint64) {
	iov := (*[2]unix.Iovec)(unsafe.Pointer(&e.mem[entryIovec]))
	iov[0].Base = &e.mem[0]
	iov[0].SetLen(uringHeaderLen)
	iov[1].Base = &e.mem[entryPayload]
	iov[1].SetLen(len(e.mem) - entryPayload)
	s := e.command(r, uringRegister, dev, user, 0)
	*(*uint64)(unsafe.Pointer(&s[16])) = uint64(uintptr(unsafe.Pointer(iov)))
	*(*uint32)(unsafe.Pointer(&s[24])) = uint32(len(iov))
}

// refuseRing puts a command on r that the kernel refuses. As long as a queue has no entry, that makes it go on over
// /dev/fuse; until then it would hold all requests back.
func refuseRing(r *ring, dev int, qid uint16, user uint64) {
	s := r.push(ioringOpURingCmd, dev, user)
	*(*uint32)(unsafe.Pointer(&s[8])) = uringRegister
	*(*uint16)(unsafe.Pointer(&s[sqeCommand+16])) = qid
}

// commit puts the command on r that hands the reply over and asks for the next request.
func (e *entry) commit(r *ring, dev int, user uint64) {
	e.command(r, uringCommitAndFetch, dev, user, *(*uint64)(unsafe.Pointer(&e.mem[uringCommitID])))
}

func (e *entry) command(r *ring, op uint32, dev int, user, id uint64) []byte {
	s := r.push(ioringOpURingCmd, dev, user)
	*(*uint32)(unsafe.Pointer(&s[8])) = op
	*(*uint64)(unsafe.Pointer(&s[sqeCommand+8])) = id
	*(*uint16)(unsafe.Pointer(&s[sqeCommand+16])) = e.qid
	e.out = true
	return s
}

// message is the request in hand: header and struct in one piece, as they come over /dev/fuse, and what follows them.
func (e *entry) message() (in, payload []byte) {
	in = e.mem[uringOpIn-inHeaderLen : uringOpIn+uringOpInLen : uringOpIn+uringOpInLen]
	copy(in, e.mem[:inHeaderLen])
	n := min(int(*(*uint32)(unsafe.Pointer(&e.mem[uringPayloadLen]))), len(e.mem)-entryPayload)
	return in, e.mem[entryPayload : entryPayload+n : entryPayload+n]
}

// replyBuffer is where a reply with its header can be made without a copy.
func (e *entry) replyBuffer() []byte { return e.mem[entryPayload-outHeaderLen:] }

// setReply takes a reply as it would be written to /dev/fuse, made in replyBuffer or elsewhere.
func (e *entry) setReply(out []byte) {
	body := out[outHeaderLen:]
	if room := e.replyBuffer()[outHeaderLen:]; len(body) > len(room) {
		(*gofuse.OutHeader)(unsafe.Pointer(&out[0])).Status = -int32(syscall.EIO)
		body = nil
	} else if len(body) > 0 && &room[0] != &body[0] {
		copy(room, body)
	}
	copy(e.mem[:outHeaderLen], out[:outHeaderLen])
	*(*uint32)(unsafe.Pointer(&e.mem[uringPayloadLen])) = uint32(len(body))
}

// uringPayload is the least that the kernel accepts as a payload for requests of up to maxIO bytes.
func uringPayload(maxIO int) int {
	page := os.Getpagesize()
	return max(2*4096, (maxIO+page-1)/page*page)
}
