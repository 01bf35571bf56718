package fuse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A kernel that does not offer the rings, and one that refuses them: requests come over /dev/fuse.
func TestUringFallsBack(t *testing.T) {
	s := startServer(t, serveConfig{Options: Options{Transport: TransportUring}, NoRings: true, Fallback: true})
	if got := s.stats().Transport; got != TransportOwn {
		t.Errorf("refused by the kernel, the transport is %s", got)
	}
	if b, err := os.ReadFile(s.path("f")); err != nil || string(b) != "hello\n" {
		t.Errorf("read: %q, %v", b, err)
	}
	if !strings.Contains(s.log.String(), "was refused") {
		t.Errorf("the log does not say it:\n%s", s.log.String())
	}
}

// A server that is killed at any moment under load leaves nobody waiting, and no process of its own.
func TestKilledUnderLoad(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			for round := range 8 {
				s := startServer(t, serveConfig{Options: Options{Transport: tr}, NoCache: true})
				var wg sync.WaitGroup
				for i := range 6 {
					name := []string{"f", "f", "f", "hold", "lock", "f"}[i]
					wg.Go(func() { use(s.path(name)) })
				}
				time.Sleep(rand.N(30 * time.Millisecond))
				_ = s.cmd.Process.Kill()
				ended := make(chan struct{})
				go func() { wg.Wait(); _ = s.cmd.Wait(); close(ended) }()
				select {
				case <-ended:
				case <-time.After(40 * time.Second):
					t.Fatalf("round %d: somebody is left waiting", round)
				}
				if err := UnmountPath(context.Background(), s.point, true); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// use opens, locks, reads and looks at a file until that fails because the server is gone.
func use(path string) {
	for {
		f, err := os.Open(path)
		if err == nil {
			if filepath.Base(path) == "lock" {
				err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
			}
			_, serr := f.Stat()
			err = errors.Join(err, serr)
			_ = f.Close()
		}
		if err != nil {
			return
		}
	}
}

// Mounts that come and go, with users who hold files open and requests that wait.
func TestMountStorm(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			point, rings := t.TempDir(), countFDs(t, s.cmd.Process.Pid, "io_uring")
			for i, how := range []string{"unmount", "lazy", "abort", "shutdown"} {
				for range []int{4, 4, 4, 1}[i] {
					if got := s.do("more " + point); got != "ok" {
						t.Fatalf("mount %d: %s", i, got)
					}
					var wg sync.WaitGroup
					if how == "abort" || how == "shutdown" {
						wg.Go(func() { use(filepath.Join(point, "f")) })
						wg.Go(func() { _, _ = os.Open(filepath.Join(point, "block")) })
						time.Sleep(rand.N(5 * time.Millisecond))
					} else if _, err := os.ReadFile(filepath.Join(point, "f")); err != nil {
						t.Fatal(err)
					}
					if got := s.do("less " + how); got != "ok" {
						t.Fatalf("%s: %s", how, got)
					}
					wg.Wait()
				}
			}
			if n := countFDs(t, s.cmd.Process.Pid, "io_uring"); n > rings {
				t.Errorf("%d rings are open, %d before", n, rings)
			}
			if n := countFDs(t, s.cmd.Process.Pid, "/dev/fuse"); n != 1 {
				t.Errorf("%d connections are open, want 1", n)
			}
		})
	}
}

// onProcessor runs f on a thread of its own that is bound to a processor.
func onProcessor(cpu int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and ends with its thread
		var set unix.CPUSet
		set.Set(cpu)
		_ = unix.SchedSetaffinity(0, &set) // without that processor, on any
		done <- f()
	}()
	return <-done
}

func countFDs(t *testing.T, pid int, what string) (n int) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.Contains(to, what) {
			n++
		}
	}
	return n
}

// Requests that wait, in more ways than there are entries of workers, on each processor: everybody else is answered.
// The order of events shows it: those that wait are let go only after the others were answered.
func TestWaitersOnOneProcessor(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			const n = 30
			var wg sync.WaitGroup
			errs := make(chan error, n)
			for i := range n {
				wg.Go(func() {
					errs <- onProcessor(0, func() error {
						f, err := os.Open(s.path([]string{"hold", "lock"}[i%2]))
						if err == nil && i%2 == 1 {
							err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
						}
						return err
					})
				})
			}
			waitFor(t, func() bool { return s.waiting() == n })
			for cpu := range 2 {
				err := onProcessor(cpu, func() error {
					for range 50 {
						var st unix.Statx_t
						if err := unix.Statx(unix.AT_FDCWD, s.path("f"), unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(errs) > 0 {
				t.Fatal("somebody did not wait")
			}
			_, _ = os.Stat(s.path("unblock"))
			wg.Wait()
			close(errs)
			for err := range errs {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}
