package fuse

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func transports() []Transport { return []Transport{TransportOwn, TransportUring, TransportStock} }

// ours are the transports that are not the library's: those that count, and that can be asked to yield.
func ours() []Transport { return []Transport{TransportOwn, TransportUring} }

func TestRoundTrip(t *testing.T) {
	for _, tr := range transports() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			b, err := os.ReadFile(s.path("f"))
			if err != nil || string(b) != "hello\n" {
				t.Fatalf("read: %q, %v", b, err)
			}
			if _, err := os.Stat(s.path("absent")); !errors.Is(err, syscall.ENOENT) {
				t.Fatalf("stat of an absent name: %v", err)
			}
			if got := s.do("unmount"); !strings.HasPrefix(got, "ok") && !strings.HasPrefix(got, "ended") {
				t.Fatalf("unmount: %s", got)
			}
		})
	}
}

func TestLargeRequests(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			s.do("content " + strings.Repeat("x", 40<<10))
			b, err := os.ReadFile(s.path("f"))
			if err != nil || len(b) != 40<<10 {
				t.Fatalf("read %d bytes, %v", len(b), err)
			}
			f, err := os.OpenFile(s.path("f"), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if n, err := f.Write(make([]byte, 3<<20)); err != nil || n != 3<<20 {
				t.Fatalf("wrote %d bytes, %v", n, err)
			}
			for _, op := range s.stats().Ops {
				if op.Name == "write" && op.Count > 4 {
					t.Errorf("3 MiB took %d WRITE requests, want 3: MAX_PAGES is not negotiated", op.Count)
				}
			}
		})
	}
}

func TestPanicIsEIO(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			if _, err := os.ReadFile(s.path("panic")); !errors.Is(err, syscall.EIO) {
				t.Fatalf("open of what panics: %v, want EIO", err)
			}
			if _, err := os.ReadFile(s.path("f")); err != nil {
				t.Fatalf("after a panic: %v", err)
			}
			if n := s.stats().Panics; n != 1 {
				t.Errorf("panics counted: %d, want 1", n)
			}
			waitFor(t, func() bool {
				log := s.log.String()
				return strings.Contains(log, "as asked") && strings.Contains(log, "fake).Open") // the panic and its stack
			})
		})
	}
}

// A handler that waits must not keep others from being answered, however many wait.
func TestBlockedHandlersDoNotStall(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			const n = 40
			var wg sync.WaitGroup
			errs := make(chan error, n)
			for range n {
				wg.Go(func() {
					f, err := os.Open(s.path("hold"))
					if err == nil {
						err = f.Close()
					}
					errs <- err
				})
			}
			waitFor(t, func() bool { return s.waiting() == n })
			for range 100 {
				if _, err := os.ReadFile(s.path("f")); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = os.Stat(s.path("unblock"))
			wg.Wait()
			close(errs)
			for err := range errs {
				if err != nil {
					t.Errorf("a blocked open: %v", err)
				}
			}
			// The crowd is gone.
			most := uint64(keepParked + 1)
			if tr == TransportUring {
				most += uint64(keepRings * runtime.NumCPU())
			}
			waitFor(t, func() bool { return s.stats().Workers <= most })
		})
	}
}

// More waiters for locks than handlers may otherwise wait.
func TestManyLockWaiters(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			const n = maxBusy + 50
			var wg sync.WaitGroup
			files := make([]*os.File, n)
			for i := range files {
				f, err := os.Open(s.path("lock"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				files[i] = f
			}
			for _, f := range files {
				wg.Go(func() {
					if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
						t.Error(err)
					}
				})
			}
			waitFor(t, func() bool { return s.waiting() == n })
			if _, err := os.ReadFile(s.path("f")); err != nil {
				t.Fatal(err)
			}
			_, _ = os.Stat(s.path("unblock"))
			wg.Wait()
		})
	}
}

func TestInterrupt(t *testing.T) {
	for _, tr := range transports() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			cmd := exec.Command("cat", s.path("block"))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { return s.waiting() == 1 })
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Fatal("cat was not ended by the signal")
			}
			if _, err := os.ReadFile(s.path("f")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestNotifications(t *testing.T) {
	for _, tr := range transports() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			read := func() string {
				b, err := os.ReadFile(s.path("f"))
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			exists := func() bool { _, err := os.Stat(s.path("appears")); return err == nil }
			if read() != "hello\n" || exists() {
				t.Fatal("wrong start")
			}
			s.do("content HELLO!")
			if got := read(); got != "hello\n" {
				t.Fatalf("the kernel did not cache: %q", got)
			}
			if exists() {
				t.Fatal("the kernel did not cache an absent name")
			}
			s.do("inode")
			if got := read(); got != "HELLO!" {
				t.Fatalf("after INVAL_INODE: %q", got)
			}
			s.do("entry appears")
			if !exists() {
				t.Fatal("after INVAL_ENTRY the name is still absent")
			}
			s.do("content a longer one, seen by its size alone")
			if got := read(); len(got) < 20 || strings.Contains(got, "\x00") {
				t.Fatalf("after a change of size without notice: %q", got)
			}
			if s.do("epoch") != "true" {
				t.Log("this kernel has no NOTIFY_INC_EPOCH")
			} else if exists() {
				t.Fatal("after INC_EPOCH the old name is still there")
			}
		})
	}
}

// An idle mount uses no processor time.
func TestIdle(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			_, _ = os.ReadFile(s.path("f"))
			time.Sleep(200 * time.Millisecond)
			before := cpuTicks(t, s.cmd.Process.Pid)
			time.Sleep(1500 * time.Millisecond)
			if used := cpuTicks(t, s.cmd.Process.Pid) - before; used > 1 {
				t.Errorf("an idle server used %d ticks (10 ms each) in 1.5 s, want at most 1", used)
			}
		})
	}
}

// cpuTicks is user and system time of a process.
func cpuTicks(t *testing.T, pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	var u, k int
	if _, err := fmt.Sscan(f[11]+" "+f[12], &u, &k); err != nil {
		t.Fatal(err)
	}
	return u + k
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	n := 0
	for end := time.Now().Add(time.Minute); n < 3000 || time.Now().Before(end); n++ { // a clock may be set on by a minute
		if cond() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("it did not happen within a minute, asked %d times", n)
}
