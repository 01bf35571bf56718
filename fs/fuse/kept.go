package fuse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"wsfs/fs"
)

// A mount that is kept outlives its process: somebody else holds the descriptor of /dev/fuse, and gives it to the next
// process with what the kernel and this one agreed on (the INIT message). That one asks the kernel to send again what was
// read and not answered (FUSE_NOTIFY_RESEND, Linux 6.9), and goes on. Requests come again under the number that they had,
// with the highest bit set; what was done before is answered and not done twice, by the receipts.

// capHasResend: the kernel can send again what was not answered.
const capHasResend = 1 << 39

// notifyResend asks for it.
const notifyResend = 7

// uniqueResend marks a request that was sent before.
const uniqueResend = 1 << 63

// Kept is what outlives the process of a mount besides its descriptor.
type Kept struct {
	// Mount is how the mount is called in the workspace's ledger: one number for as long as the kernel has it, never 0.
	Mount uint64
	// Release is called when the mount has ended, before its descriptor is closed: whoever else holds it has to let go.
	Release func()

	// FD and Init are set for a mount that a process before this one made. It is served, not made.
	FD   int
	Init []byte
	// Starts is how many processes served it before.
	Starts int

	memory int // descriptor of mem
	mem    []byte
	done   map[uint64]fs.Receipt // of requests that may come again, by number: those that were done
}

// Its memory begins with a page that says which of two lists of receipts counts: those of requests that the process before
// did and that did not come again yet. The receipts of the workers of this process are behind the lists.
type keptHead struct {
	magic   uint64
	list    atomic.Uint64 // 0 or 1
	lengths [2]uint64
	views   keptViews
}

const (
	keptMagic   = 0x31_7470_6b73_7773 // changes with fs.Receipt
	keptPage    = 4096
	receiptSize = int(unsafe.Sizeof(fs.Receipt{}))
	keptList    = (maxWorkers + 1) * receiptSize
	keptViewsAt = keptPage + 3*keptList
	keptSize    = keptViewsAt + 2*keptViewsHalf
)

// NewKept makes the memory for a new mount.
func NewKept() (*Kept, error) {
	fd, err := unix.MemfdCreate("wsfs-receipts", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memory that outlives this process: %w", err)
	}
	k := &Kept{memory: fd}
	if err := k.mapMemory(); err != nil {
		return nil, err
	}
	k.head().magic = keptMagic
	return k, nil
}

// OpenKept takes over the memory of a mount.
func OpenKept(memory int) (*Kept, error) {
	k := &Kept{memory: memory}
	if err := k.mapMemory(); err != nil {
		return nil, err
	}
	if h := k.head(); h.magic != keptMagic || h.list.Load() > 1 || h.lengths[h.list.Load()] > maxWorkers+1 {
		k.Close()
		return nil, fmt.Errorf("read the receipts of a mount: they are of another version of this program: %w", syscall.EPROTO)
	}
	return k, nil
}

func (k *Kept) mapMemory() error {
	// One of an older version may be shorter.
	if err := unix.Ftruncate(k.memory, int64(keptSize)); err != nil {
		_ = unix.Close(k.memory)
		return fmt.Errorf("make memory that outlives this process: %w", err)
	}
	mem, err := unix.Mmap(k.memory, 0, keptSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Close(k.memory)
		return fmt.Errorf("map the receipts of a mount: %w", err)
	}
	k.mem = mem
	return nil
}

func (k *Kept) head() *keptHead { return (*keptHead)(unsafe.Pointer(&k.mem[0])) }

// receipts is list 0 or 1, or 2: those of the workers.
func (k *Kept) receipts(list int) []fs.Receipt {
	return unsafe.Slice((*fs.Receipt)(unsafe.Pointer(&k.mem[keptPage+list*keptList])), maxWorkers+1)
}

// Memory is the descriptor to give to whoever outlives this process.
func (k *Kept) Memory() int { return k.memory }

// Close unmaps the memory, after the end of the mount.
func (k *Kept) Close() {
	if k != nil && k.mem != nil {
		_ = errors.Join(unix.Munmap(k.mem), unix.Close(k.memory))
		k.mem = nil
	}
}

// Settle finds out what was done of what may come again. It comes before anything is changed in f, and before any mount
// of it is served. f finds the file system of a view, nil if it has none that goes on.
func (k *Kept) Settle(f func(view uint64) *fs.FS) {
	h, workers := k.head(), k.receipts(2)
	old := h.list.Load()
	k.done = map[uint64]fs.Receipt{}
	for _, list := range [][]fs.Receipt{k.receipts(int(old))[:h.lengths[old]], workers} {
		for i := range list {
			r := &list[i]
			if r.Unique == 0 {
				continue
			}
			if tree := f(r.Node >> viewShift); tree != nil && tree.WasDone(r) {
				r.Settled()
				k.done[r.Unique] = *r
			}
		}
	}
	keep := slices.SortedFunc(maps.Values(k.done), func(a, b fs.Receipt) int { return int(int64(b.Unique - a.Unique)) })
	keep = keep[:min(len(keep), maxWorkers)] // there are no more workers, so the others are old
	copy(k.receipts(int(1-old)), keep)
	h.lengths[1-old] = uint64(len(keep))
	h.list.Store(1 - old)
	for i := range workers {
		if workers[i].Unique != 0 {
			workers[i].End()
		}
	}
}

// again is the receipt of a request that was done by a process before, if it was.
func (k *Kept) again(unique uint64) (fs.Receipt, bool) {
	r, ok := k.done[unique&^uniqueResend]
	return r, ok
}

// passed is called when the first request comes that was never sent before: no other that was will come, so what was done
// of those is not needed any more, unless this process ends, too: then their receipts are with the workers.
func (k *Kept) passed() {
	k.done = nil
	h := k.head()
	h.lengths[h.list.Load()] = 0
}

// changing reports whether a request can change something, and so gets a receipt.
func changing(op uint32) bool {
	const mask = 1<<opSetattr | 1<<opSymlink | 1<<opMknod | 1<<opMkdir | 1<<opUnlink | 1<<opRmdir | 1<<opRename | 1<<opLink |
		1<<opOpen | 1<<opWrite | 1<<opSetxattr | 1<<opRemovexattr | 1<<opOpendir | 1<<opCreate | 1<<opRename2 | 1<<opTmpfile
	return op < 64 && uint64(mask)>>op&1 != 0
}

// resume goes on with a connection that another process has opened: it agrees to what that one agreed to, and has the
// kernel send again what was not answered.
func (c *conn) resume(init []byte) error {
	in := slices.Clone(init)
	var q request
	q.begin(in, make([]byte, smallOutLen), make(chan struct{}))
	if st := c.dispatch(&q); !st.Ok() {
		return fmt.Errorf("fuse: go on with a connection: %w", syscall.Errno(st))
	}
	c.init = init
	var msg [outHeaderLen]byte
	binary.NativeEndian.PutUint32(msg[0:], uint32(outHeaderLen))
	binary.NativeEndian.PutUint32(msg[4:], notifyResend)
	if err := c.notify(msg[:]); err != nil {
		return fmt.Errorf("fuse: have the kernel send again what was not answered: %w", err)
	}
	return nil
}

// canResume reports whether the kernel can send again what was not answered, by the INIT message.
func canResume(init []byte) bool {
	if len(init) < inHeaderLen+20 {
		return false
	}
	return uint64(binary.NativeEndian.Uint32(init[inHeaderLen+16:]))<<32&capHasResend != 0
}

// Kept is what the next process needs of the mount: its descriptor, and the INIT message. ok is false if no process could
// go on with it: on kernels before Linux 6.9, and with other transports than our own.
func (m *Mount) Kept() (fd int, init []byte, ok bool) {
	c, own := m.transport.(*conn)
	if !own || c.kept == nil || c.rings != nil || !canResume(c.init) {
		return -1, nil, false
	}
	return c.fd, c.init, true
}

// touch makes the pages of a buffer be there. A kernel copies a request straight to pages that are; for others it asks for
// memory first, which fails if the process was just killed, and then it ends the request with EIO: nobody gets it again.
func touch(b []byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
}
