package fuse

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nearServer is one whose leader follows its client, on a machine where that is possible.
func nearServer(t *testing.T) *server {
	s := startServer(t, serveConfig{NoCache: true})
	if n := newNear(); !n.can {
		t.Skipf("no second processor, or threads may not come back from SCHED_IDLE here (%d processors)", n.all.Count())
	}
	return s
}

// ask makes requests as one thread until there is what is waited for.
func (s *server) ask(t *testing.T, enough func(Stats) bool) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	waitFor(t, func() bool {
		for range 500 {
			if _, err := os.Stat(s.path("f")); err != nil {
				t.Fatal(err)
			}
		}
		return enough(s.stats())
	})
}

// stray returns the threads of the server that have not the usual policy, or may not run everywhere.
func (s *server) stray() (out []string) {
	s.t.Helper()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		s.t.Fatal(err)
	}
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/task/*")
	if err != nil || len(tasks) == 0 {
		s.t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			s.t.Fatal(err)
		}
		var set unix.CPUSet
		policy, _, e := syscall.Syscall(syscall.SYS_SCHED_GETSCHEDULER, uintptr(tid), 0, 0)
		if e == syscall.ESRCH {
			continue
		}
		if err := unix.SchedGetaffinity(tid, &set); err != nil {
			continue
		}
		if e != 0 || policy != schedOther || set != all {
			out = append(out, task)
		}
	}
	return out
}

func TestNear(t *testing.T) {
	s := nearServer(t)
	was := s.stats().Near
	s.ask(t, func(st Stats) bool { return st.Near > was+1000 })

	// One request of another thread, and the leader runs anywhere again.
	waitFor(t, func() bool {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and end the thread
			_, err := os.Stat(s.path("f"))
			done <- err
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return len(s.stray()) == 0
	})
}

// A client that computes must not keep others from the leader that waits on its processor until it is done.
func TestNearIsRoused(t *testing.T) {
	s := nearServer(t)
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < 2; cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	on := func(cpu int) {
		runtime.LockOSThread() // the thread ends with its goroutine
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Error(err)
		}
	}
	waitFor(t, func() bool {
		var stop atomic.Bool
		near, ended := make(chan struct{}), make(chan struct{})
		go func() { // a few requests, then nothing but work
			defer close(ended)
			on(cpus[0])
			for range 200 {
				_, _ = os.Stat(s.path("f"))
			}
			close(near)
			for !stop.Load() {
			}
		}()
		<-near
		other := make(chan error)
		go func() {
			on(cpus[1])
			_, err := os.Stat(s.path("f"))
			other <- err
		}()
		select {
		case err := <-other:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("a stat beside a thread that computes takes more than a minute")
		}
		stop.Store(true)
		<-ended
		return t.Failed() || s.stats().Roused > 0
	})
	waitFor(t, func() bool { // whoever is left in a reply comes out of it
		_, _ = os.Stat(s.path("f"))
		return len(s.stray()) == 0
	})
}

// A leader on hold whose client is gone or asleep comes back by itself, and an idle server has no thread on hold.
func TestNearThenQuiet(t *testing.T) {
	s := nearServer(t)
	was := s.stats().Near
	s.ask(t, func(st Stats) bool { return st.Near > was+100 })
	waitFor(t, func() bool {
		for _, task := range s.stray() {
			tid, _ := strconv.Atoi(filepath.Base(task))
			policy, _, _ := syscall.Syscall(syscall.SYS_SCHED_GETSCHEDULER, uintptr(tid), 0, 0)
			if policy == schedIdle {
				return false
			}
		}
		return true
	})
}

func TestProcessorOf(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var was, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &was) }()
	for cpu := range runtime.NumCPU() {
		if !was.IsSet(cpu) {
			continue
		}
		one.Zero()
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		if got := processorOf(uint32(unix.Gettid())); got != int32(cpu) {
			t.Errorf("on processor %d: %d", cpu, got)
		}
	}
	if got := processorOf(1 << 30); got != far {
		t.Errorf("of a thread that does not exist: %d", got)
	}
}
