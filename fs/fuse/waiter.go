package fuse

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waiter gets the next request for the one who leads. Waking a halted processor costs 10 to 30 us, more than most
// requests take, so it looks again and again for a while before it blocks. That is off while it does not pay
// (requests are far apart) and while others wait for a processor that polling would keep from them.
type waiter struct {
	fd, stopFd int
	max        time.Duration // longest poll
	load       *loadGauge
	near       *near

	// soon is the share of waits, in 1/256, that ended within max: a running mean over about 16.
	soon int
	// quiet: no polling before this time, because the machine is busy.
	quiet    time.Time
	quietFor time.Duration // the next one
	calm     int           // polls since the last disturbance

	hits, misses, blocked atomic.Uint64
}

const (
	soonFull = 256
	// soonWorth: polling pays when at least one wait in 8 ends in time: a miss costs max of idle processor time, a hit
	// saves two wake-ups to somebody who waits.
	soonWorth = soonFull / 8
	// preempted: a gap this long between two looks means that somebody else ran on our processor.
	preempted = 200 * time.Microsecond
	quietMin  = 10 * time.Millisecond
	quietMax  = 640 * time.Millisecond
	calmAfter = 4096
)

func newWaiter(fd, stopFd int, poll time.Duration, near *near) *waiter {
	if runtime.NumCPU() == 1 || poll < 0 { // one processor: the client cannot run while we look
		poll = 0
	}
	return &waiter{fd: fd, stopFd: stopFd, max: poll, load: newLoadGauge(), near: near, soon: soonFull, quietFor: quietMin}
}

func (w *waiter) close() { w.load.close() }

// next reads one request into buf and returns its length; 0 means that the connection ended, with an error if that is
// not the end of every mount.
func (w *waiter) next(buf []byte) (int, error) {
	n, e := w.read(buf)
	for {
		switch e {
		case 0:
			if n == 0 {
				return 0, errors.New("fuse: read of /dev/fuse returned nothing")
			}
			return n, nil
		case syscall.EAGAIN:
			n, e = w.wait(buf)
		case syscall.ENOENT, syscall.EINTR: // the request was interrupted before we got it
			n, e = w.read(buf)
		case syscall.ENODEV, syscall.ECONNABORTED, syscall.ECANCELED:
			return 0, nil
		default:
			return 0, fmt.Errorf("fuse: read a request from /dev/fuse: %w", e)
		}
	}
}

// read never blocks, so it does not tell the scheduler (RawSyscall): that saves 0.1 us of each look.
func (w *waiter) read(buf []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(w.fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// wait polls, then blocks, and returns what its last read did; ECANCELED when the conn was stopped.
func (w *waiter) wait(buf []byte) (int, syscall.Errno) {
	start := time.Now()
	if w.polls(start) {
		last := start
		for {
			if n, e := w.read(buf); e != syscall.EAGAIN {
				w.hits.Add(1)
				w.arrived(true)
				return n, e
			}
			now := time.Now()
			if now.Sub(last) > preempted {
				w.disturbed(now)
				break
			}
			if now.Sub(start) > w.max {
				break
			}
			last = now
		}
		w.misses.Add(1)
	}
	w.blocked.Add(1)
	w.near.blocks++
	fds := [2]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}, {Fd: int32(w.stopFd), Events: unix.POLLIN}}
	if _, err := unix.Ppoll(fds[:], nil, nil); err != nil && !errors.Is(err, syscall.EINTR) {
		return 0, syscall.EIO
	}
	if fds[1].Revents != 0 {
		return 0, syscall.ECANCELED
	}
	// What woke us needed a wake-up's time on top.
	w.arrived(time.Since(start) < 2*w.max)
	return w.read(buf)
}

// polls decides whether to look before blocking.
func (w *waiter) polls(now time.Time) bool {
	if w.max == 0 || w.near.cpu != far || w.soon < soonWorth || now.Before(w.quiet) {
		return false
	}
	if w.load.busy(now) {
		w.disturbed(now)
		return false
	}
	if w.calm++; w.calm >= calmAfter {
		w.calm, w.quietFor = 0, quietMin
	}
	return true
}

// disturbed stops polling for a while, each time longer: somebody else wants the processor, and a reader that spins
// away its share is not woken promptly either.
func (w *waiter) disturbed(now time.Time) {
	w.quiet = now.Add(w.quietFor)
	w.quietFor, w.calm = min(2*w.quietFor, quietMax), 0
}

func (w *waiter) arrived(soon bool) {
	w.soon -= w.soon / 16
	if soon {
		w.soon += soonFull / 16
	}
}
