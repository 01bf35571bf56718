package fstest

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// aioWrite is pwrite(2) by io_submit(2): the kernel may answer before the bytes are written, and tells the end as an
// event. ctx is of io_setup(2).
func aioWrite(ctx uintptr, fd int, p []byte, off int64) (int64, error) {
	cb := struct { // struct iocb of linux/aio_abi.h
		data      uint64
		key, rw   uint32
		op, prio  uint16
		fd        uint32
		buf       uintptr
		n         uint64
		off       int64
		_         uint64
		flags, to uint32
	}{op: 1, fd: uint32(fd), buf: uintptr(unsafe.Pointer(&p[0])), n: uint64(len(p)), off: off}
	var event struct {
		data, obj uint64
		res, res2 int64
	}
	list := &cb
	if _, _, e := unix.Syscall(unix.SYS_IO_SUBMIT, ctx, 1, uintptr(unsafe.Pointer(&list))); e != 0 {
		return 0, e
	}
	for {
		n, _, e := unix.Syscall6(unix.SYS_IO_GETEVENTS, ctx, 1, 1, uintptr(unsafe.Pointer(&event)), 0, 0)
		runtime.KeepAlive(p)
		switch {
		case e == unix.EINTR || e == 0 && n == 0:
			continue
		case e != 0:
			return 0, e
		case event.res < 0:
			return 0, unix.Errno(-event.res)
		}
		return event.res, nil
	}
}

// ioDirectPages reads through the page cache while a file is written past it, asynchronously: when a write has ended
// nobody may read what was there before.
func ioDirectPages(e *env) {
	const size = 640 << 10
	page, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	e.ok(err, "mmap")
	defer func() { _ = unix.Munmap(page) }()
	fill := func(b byte) []byte {
		for i := range page {
			page[i] = b
		}
		return page
	}
	e.write("f", string(fill(0)))
	fd, err := unix.Open(e.p("f"), unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err == unix.EINVAL {
		e.Skip("no O_DIRECT here")
	}
	e.ok(err, "open with O_DIRECT")
	defer unix.Close(fd)
	var ctx uintptr
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&ctx)), 0); errno != 0 {
		e.Skipf("io_setup: %v", errno)
	}
	defer unix.Syscall(unix.SYS_IO_DESTROY, ctx, 0, 0)
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			buf := make([]byte, size)
			for !stop.Load() {
				r, err := unix.Open(e.p("f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					e.Errorf("open: %v", err)
					return
				}
				_, _ = unix.Pread(r, buf, 0)
				_ = unix.Close(r)
			}
		})
	}
	defer readers.Wait()
	defer stop.Store(true)
	r := e.open("f", unix.O_RDONLY, 0)
	got := make([]byte, size)
	for i, end := 1, time.Now().Add(2*time.Second); time.Now().Before(end); i++ {
		want := fill(byte(i))
		n, err := aioWrite(ctx, fd, want, 0)
		e.ok(err, "asynchronous direct write")
		e.eq(n, int64(size), "bytes written")
		for at := 0; at < size; {
			n, err := unix.Pread(r, got[at:], int64(at))
			e.ok(err, "pread")
			if n == 0 {
				break
			}
			at += n
		}
		if !bytes.Equal(got, want) {
			e.Fatalf("write %d: what is read after its end is not what was written: first at %d", i, firstDifference(got, want))
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
