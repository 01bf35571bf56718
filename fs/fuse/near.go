package fuse

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// near keeps the leader on the processor of its client, while one thread alone makes requests. What a round trip costs
// is mostly waking the processor that the other side has left: a client that sleeps for its reply halts its own, and the
// scheduler wakes it on one that is idle rather than on the busy one of who answers. On one processor nobody is
// woken: the reply lets the client run at once, and when it waits again the leader goes on where it was.
//
// Two things make the scheduler do that. The leader's thread may run on that processor alone. And it writes the reply as
// one that runs only if nobody else wants to (SCHED_IDLE): a processor that has nothing but such threads counts as
// idle, so the client is put there and takes over at once. The leader is on hold then, inside of write(2), until the
// client waits for something. Should the client compute instead, another one's request would wait too, so the watch
// looks for that (conn.rouse), and nearness is off for a while.
//
// All of it belongs to the leader, but for what is atomic.
type near struct {
	can bool        // the kernel lets our threads come back from SCHED_IDLE
	all unix.CPUSet // where the process may run

	cpu int32 // of the client, or far
	pid uint32

	streak int // requests of pid in a row
	blocks int // waits since the client was last looked for
	moves  int // looks in a row that found it elsewhere

	until time.Time     // not before
	pause time.Duration // the next one

	asked   bool         // for where pid runs; the answer is still to be taken
	looking atomic.Bool  // somebody reads it; at most one
	answer  atomic.Int32 // plus 1; 0 while there is none
	looks   sync.WaitGroup
	roused  atomic.Int32  // rousedIdle or rousedLate if the watch has freed a leader on hold
	held    atomic.Uint64 // replies written from the client's processor
	freed   atomic.Uint64 // leaders for whom somebody else's request waited
}

const (
	far = int32(-1)

	nearStreak   = 32 // requests in a row make a client the only one; one of somebody else ends that
	nearLook     = 16 // waits after which to look where the client is
	nearMoves    = 4  // a client that moves more often is not followed
	nearPauseMin = 10 * time.Millisecond
	nearPauseMax = 2560 * time.Millisecond
	nearSettled  = 4096 // requests without a fault make the next pause the shortest again

	rousedIdle = 1 // after a while without a request
	rousedLate = 2 // somebody's request waited
)

// schedIdle and schedOther are SCHED_IDLE and SCHED_OTHER of sched(7).
const schedOther, schedIdle = 0, 5

func newNear() *near {
	n := &near{cpu: far, pause: nearPauseMin}
	if err := unix.SchedGetaffinity(0, &n.all); err == nil && n.all.Count() > 1 {
		n.can = comesBack()
	}
	// A leader on hold is no reason for the rest of the program to do without one of Go's processors, nor for it to wait for
	// one when it comes back.
	if most := runtime.NumCPU() + 1; n.can && runtime.GOMAXPROCS(0) == most-1 {
		runtime.GOMAXPROCS(most)
	}
	return n
}

// comesBack tries whether a thread may leave SCHED_IDLE again: that takes CAP_SYS_NICE or a limit that allows it.
func comesBack() bool {
	out := make(chan bool)
	go func() {
		runtime.LockOSThread()
		policy, _, e := syscall.RawSyscall(syscall.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
		ok := e == 0 && policy == schedOther && setPolicy(0, schedIdle) == 0
		if ok {
			if ok = setPolicy(0, schedOther) == 0; !ok {
				out <- false
				return // the thread ends with its goroutine
			}
		}
		runtime.UnlockOSThread()
		out <- ok
	}()
	return <-out
}

// setPolicy is sched_setscheduler(2); tid 0 is the calling thread.
func setPolicy(tid int32, policy uintptr) syscall.Errno {
	var priority int32
	_, _, e := syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(tid), policy, uintptr(unsafe.Pointer(&priority)))
	return e
}

// served is called before each reply; pid is the thread that waits for it, 0 if none does.
func (n *near) served(pid uint32, now time.Time) {
	if !n.can || pid == 0 {
		return
	}
	if n.roused.Load() != 0 {
		if n.roused.Swap(0) == rousedLate {
			n.giveUp(now)
			return
		}
		n.cpu, n.streak = far, 0
	}
	if pid != n.pid {
		n.pid, n.cpu, n.streak, n.asked = pid, far, 0, false
	}
	n.streak++
	if n.cpu == far {
		if n.streak >= nearStreak && !now.Before(n.until) {
			if cpu, ok := n.look(); ok {
				n.streak, n.blocks, n.moves = 0, 0, 0
				n.cpu = cpu
			}
		}
		return
	}
	if n.streak >= nearSettled {
		n.streak, n.pause = 0, nearPauseMin
	}
	if n.blocks < nearLook {
		return
	}
	cpu, ok := n.look()
	if !ok {
		return
	}
	n.blocks = 0
	if cpu == n.cpu {
		n.moves = 0
	} else if n.moves++; n.moves > nearMoves {
		n.giveUp(now)
	} else {
		n.cpu = cpu
	}
}

// giveUp ends nearness for a while, each time longer.
func (n *near) giveUp(now time.Time) {
	n.cpu, n.streak = far, 0
	n.until = now.Add(n.pause)
	n.pause = min(2*n.pause, nearPauseMax)
}

// look asks where the client runs; ok says that this is known. The leader must not read that by itself: in the middle of
// execve(2), which closes files and waits for our replies, the kernel lets nobody read it (Linux 6.18).
func (n *near) look() (cpu int32, ok bool) {
	if !n.looking.Load() {
		if a := n.answer.Swap(0); a != 0 && n.asked {
			n.asked = false
			return a - 1, true
		}
		n.asked = true
		n.looking.Store(true)
		pid := n.pid
		n.looks.Go(func() {
			defer n.looking.Store(false)
			n.answer.Store(processorOf(pid) + 1)
		})
	}
	return far, false
}

// processorOf is where the thread last ran, far if that is not known. It may wait for the thread; see look.
func processorOf(tid uint32) int32 {
	const processor = 39 // field of /proc/PID/stat, counted from 1; the second may contain anything
	var buf [1024]byte
	fd, err := unix.Open("/proc/"+strconv.FormatUint(uint64(tid), 10)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return far
	}
	m, err := unix.Read(fd, buf[:])
	_ = unix.Close(fd)
	if err != nil {
		return far
	}
	i := bytes.LastIndexByte(buf[:m], ')')
	if i < 0 {
		return far
	}
	fields := bytes.Fields(buf[i+1 : m])
	if len(fields) <= processor-3 {
		return far
	}
	cpu, err := strconv.ParseInt(string(fields[processor-3]), 10, 32)
	if err != nil {
		return far
	}
	return int32(cpu)
}

// settle moves the leader's thread to where it shall be.
func (w *worker) settle() {
	cpu := w.c.near.cpu
	if cpu == w.cpu {
		return
	}
	var one unix.CPUSet
	if one.Set(int(cpu)); cpu == far || unix.SchedSetaffinity(0, &one) != nil {
		w.wander()
		w.c.near.cpu = far
		return
	}
	w.cpu = cpu
}

// wander lets the thread run anywhere again.
func (w *worker) wander() {
	if w.cpu != far {
		w.cpu = far
		_ = unix.SchedSetaffinity(0, &w.c.near.all)
	}
}

// hold writes a reply to a client on this processor. write(2) tells Go's scheduler: this thread may be kept from coming
// back for as long as the client runs.
func (w *worker) hold(out []byte) syscall.Errno {
	if w.tid == 0 {
		w.tid = int32(unix.Gettid())
	}
	w.c.near.held.Add(1)
	w.held.Store(w.tid)
	setPolicy(0, schedIdle)
	_, _, e := syscall.Syscall(syscall.SYS_WRITE, uintptr(w.c.fd), uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)))
	setPolicy(0, schedOther)
	w.held.Store(0)
	return e
}

// rouse is called by the watch while no request is begun: a leader that is on hold while somebody else's request waits
// gets its share of a processor, any one. last: also if nobody waits, because the watch ends.
func (c *conn) rouse(last bool) {
	if !c.near.can {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.next {
		w := c.workers[id].Load()
		if w == nil {
			continue
		}
		// A worker's thread ends with it, which takes c.mu.
		tid := w.held.Load()
		if tid == 0 {
			continue
		}
		late := c.waiting()
		if !late && !last {
			continue
		}
		setPolicy(tid, schedOther)
		_ = unix.SchedSetaffinity(int(tid), &c.near.all)
		if late {
			c.near.roused.Store(rousedLate)
			c.near.freed.Add(1)
		} else {
			c.near.roused.Store(rousedIdle)
		}
	}
}

// waiting reports whether there is a request that nobody has read.
func (c *conn) waiting() bool {
	fds := [1]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds[:], 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
}
