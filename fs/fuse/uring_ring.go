package fuse

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What linux/io_uring.h calls these. Everything here is older than FUSE over io_uring (6.14), so nothing is asked for.
const (
	ioringSetupCQSize     = 1 << 3
	ioringSetupSQE128     = 1 << 10
	ioringSetupNoSQArray  = 1 << 16
	ioringFeatSingleMmap  = 1 << 0
	ioringOffRings        = 0
	ioringOffSQEs         = 0x10000000
	ioringEnterGetevents  = 1 << 0
	ioringOpPollAdd       = 6
	ioringOpURingCmd      = 46
	sqeSize               = 128
	sqeCommand            = 48 // where the 80 bytes for a command lie
	cqeSize               = 16
	sizeofIoURingParams   = 120
	ioURingParamsSQOffset = 40
	ioURingParamsCQOffset = 80
)

// ring is an io_uring of our own. One goroutine at a time uses it. Who submits a command of FUSE is whom the kernel
// interrupts to hand over the next request, so that thread must stay one that never waits elsewhere.
type ring struct {
	fd             int
	rings, sqes    []byte
	sqHead, sqTail *uint32
	cqHead, cqTail *uint32
	sqMask, cqMask uint32
	cqes           uint32 // offset in rings
	tail           uint32 // sqTail, which only we write
}

// newRing makes a ring for up to entries commands on their way in, and twice as many answers.
func newRing(entries int) (*ring, error) {
	var params [sizeofIoURingParams]byte
	u32 := func(at int) *uint32 { return (*uint32)(unsafe.Pointer(&params[at])) }
	*u32(4) = uint32(2 * entries)
	*u32(8) = ioringSetupCQSize | ioringSetupSQE128 | ioringSetupNoSQArray
	fd, _, e := syscall.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&params[0])), 0)
	if e != 0 {
		return nil, fmt.Errorf("io_uring_setup: %w", e)
	}
	r := &ring{fd: int(fd)}
	if *u32(20)&ioringFeatSingleMmap == 0 {
		r.close()
		return nil, errors.New("io_uring_setup: a kernel without a single mapping")
	}
	r.cqes = *u32(ioURingParamsCQOffset + 20)
	size := int(r.cqes) + int(*u32(4))*cqeSize
	var err error
	if r.rings, err = unix.Mmap(r.fd, ioringOffRings, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err == nil {
		r.sqes, err = unix.Mmap(r.fd, ioringOffSQEs, int(*u32(0))*sqeSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	if err != nil {
		r.close()
		return nil, fmt.Errorf("map an io_uring: %w", err)
	}
	in := func(at int) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[*u32(at)])) }
	r.sqHead, r.sqTail, r.sqMask = in(ioURingParamsSQOffset), in(ioURingParamsSQOffset+4), *in(ioURingParamsSQOffset + 8)
	r.cqHead, r.cqTail, r.cqMask = in(ioURingParamsCQOffset), in(ioURingParamsCQOffset+4), *in(ioURingParamsCQOffset + 8)
	r.tail = *r.sqTail
	return r, nil
}

// close gives everything back; commands that are still out are cancelled by the kernel soon after.
func (r *ring) close() {
	for _, m := range [][]byte{r.sqes, r.rings} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	_ = unix.Close(r.fd)
}

// full says that a push would overwrite a command that the kernel has not seen.
func (r *ring) full() bool { return r.tail-atomic.LoadUint32(r.sqHead) >= uint32(len(r.sqes)/sqeSize) }

// push returns the place of the next command, zeroed but for op, descriptor and user, the name that its answer will have.
func (r *ring) push(op uint8, fd int, user uint64) []byte {
	at := int(r.tail&r.sqMask) * sqeSize
	s := r.sqes[at : at+sqeSize : at+sqeSize]
	clear(s)
	s[0] = op
	*(*int32)(unsafe.Pointer(&s[4])) = int32(fd)
	*(*uint64)(unsafe.Pointer(&s[32])) = user
	r.tail++
	return s
}

// poll asks for one answer once fd is readable.
func (r *ring) poll(fd int, user uint64) {
	s := r.push(ioringOpPollAdd, fd, user)
	*(*uint32)(unsafe.Pointer(&s[28])) = unix.POLLIN
}

// enter hands over what was pushed and, with wait, waits for an answer. A signal is no error.
func (r *ring) enter(wait bool) error {
	atomic.StoreUint32(r.sqTail, r.tail)
	n, flags := uintptr(0), uintptr(0)
	if wait {
		n, flags = 1, ioringEnterGetevents
	}
	for {
		out := r.tail - atomic.LoadUint32(r.sqHead)
		_, _, e := syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(out), n, flags, 0, 0)
		switch e {
		case 0, syscall.EINTR:
			return nil
		case syscall.EAGAIN, syscall.EBUSY: // no memory for a moment
			continue
		}
		return os.NewSyscallError("io_uring_enter", e)
	}
}

// pop takes the next answer, if there is one.
func (r *ring) pop() (user uint64, res int32, ok bool) {
	head := *r.cqHead
	if head == atomic.LoadUint32(r.cqTail) {
		return 0, 0, false
	}
	c := r.rings[int(r.cqes)+int(head&r.cqMask)*cqeSize:]
	user, res = *(*uint64)(unsafe.Pointer(&c[0])), *(*int32)(unsafe.Pointer(&c[8]))
	atomic.StoreUint32(r.cqHead, head+1)
	return user, res, true
}
