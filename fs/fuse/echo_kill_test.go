package fuse

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// children of a process, of whatever thread.
func children(pid int) []int {
	var out []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, w := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(w); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// alive reports whether a process does anything yet; one that nobody has reaped does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest != "" && rest[0] != 'Z' && rest[0] != 'X'
}

// TestEchoServerKilled kills a server while its helper is at work, at any moment: nobody is left waiting, the helper
// ends, the mount can be cleared and made again, the tree is one of the two that it can be, and the store is whole.
func TestEchoServerKilled(t *testing.T) {
	const files = 400
	dir := filepath.Join(t.TempDir(), "store")
	s := startServer(t, serveConfig{Store: dir})
	s.sh(fmt.Sprintf("mkdir -p t/a; for i in $(seq %d); do echo $i > t/$i; echo $i > t/a/$i; done", files))
	before, was := s.do("seq"), s.state()
	s.sh("for f in t/[0-9]*; do echo x >> $f; done; rm -r t/a; mkdir n; touch n/f")
	after, is := s.do("seq"), s.state()
	point := s.point
	rounds, met := 8, 0
	if os.Getenv("WSFS_TEST_FULL") != "" {
		rounds = 40
	}
	for round := 0; round < rounds || met == 0 && round < 10*rounds; round++ {
		s.must("known before " + before)
		s.must("known after " + after)
		to := []string{"before", "after"}[round%2]
		if round == 0 && s.state() != is {
			t.Fatal("the tree is not what it was")
		}
		watcher := watch(t, point)
		reader := make(chan struct{})
		go func() { // somebody uses the mount meanwhile
			defer close(reader)
			for {
				if _, err := os.ReadFile(filepath.Join(point, "t", "1")); err != nil {
					return
				}
			}
		}()
		if _, err := fmt.Fprintln(s.in, "move "+to); err != nil {
			t.Fatal(err)
		}
		moved := make(chan string, 1)
		go func(out *bufio.Scanner) {
			if out.Scan() {
				moved <- out.Text()
			}
		}(s.out)
		// The helper may come late on a busy machine, or be gone before it was seen: then the move says that it is done.
		helper, done := 0, false
		for end := time.Now().Add(time.Minute); helper == 0 && !done; time.Sleep(50 * time.Microsecond) {
			if c := children(s.cmd.Process.Pid); len(c) > 0 {
				helper = c[0]
			}
			select {
			case said := <-moved:
				if done = true; said != "ok" {
					t.Fatalf("round %d: the move says %q", round, said)
				}
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("round %d: there was neither a helper nor an end of the move", round)
			}
		}
		time.Sleep(rand.N(40 * time.Millisecond))
		if helper != 0 && alive(helper) {
			met++
		}
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		for end := time.Now().Add(time.Minute); helper != 0 && alive(helper); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("round %d: the helper is still there: %s", round, waitingIn(t, helper))
			}
		}
		select {
		case <-reader:
		case <-time.After(time.Minute):
			t.Fatalf("round %d: a reader is left waiting", round)
		}
		if stuck := waitingIn(t, os.Getpid()); stuck != "" {
			t.Fatalf("round %d: %s", round, stuck)
		}
		watcher.end()
		if err := UnmountPath(context.Background(), point, false); err != nil {
			t.Fatalf("round %d: clear the mount: %v", round, err)
		}
		checkStore(t, dir)
		s = startServer(t, serveConfig{Store: dir, Point: point})
		if got := s.state(); got != was && got != is {
			t.Fatalf("round %d: the tree is neither the one nor the other:\n%.2000s", round, got)
		}
	}
	t.Logf("the helper was at work in %d rounds", met)
	if met == 0 {
		t.Error("no kill met a helper at work")
	}
}

func checkStore(t *testing.T, dir string) {
	t.Helper()
	st, err := store.Open(t.Context(), dir, sqlite.Driver(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.Check(t.Context(), func(p store.Problem) { t.Errorf("check: %+v", p) }); err != nil {
		t.Fatal(err)
	}
}

// TestEchoHelperKilled: a helper that dies, stops or says nonsense costs its events, never the move or the mount.
func TestEchoHelperKilled(t *testing.T) {
	for name, helper := range map[string][]string{
		"is not there":      {"/nonexistent/helper"},
		"fails at once":     {"/bin/false"},
		"says nonsense":     {"/bin/echo", "what?"},
		"never answers":     {"/bin/sleep", "1000"},
		"claims a thread":   {"/bin/sh", "-c", "echo thread 1; sleep 1000"},
		"works elsewhere":   {"/bin/sh", "-c", "echo thread $$; cat > /dev/null; echo done 1000000"},
		"claims to be done": {"/bin/sh", "-c", "echo thread $$; cat > /dev/null; echo done 1"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := startStore(t, serveConfig{Options: Options{EchoHelper: helper}})
			s.sh("mkdir d; echo 1 > d/f")
			s.must("mark before")
			before := s.state()
			s.sh("echo 22 > d/f; rm -r d; echo 3 > g")
			s.must("mark after")
			after := s.state()
			for range 2 {
				start := time.Now()
				s.must("move before")
				if got := s.state(); got != before {
					t.Errorf("the kernel shows\n%s\nand not\n%s", got, before)
				}
				s.must("move after")
				if got := s.state(); got != after {
					t.Errorf("the kernel shows\n%s\nand not\n%s", got, after)
				}
				if took := time.Since(start); took > 90*time.Second {
					t.Errorf("two moves took %v", took)
				}
			}
			for end := time.Now().Add(time.Minute); len(children(s.cmd.Process.Pid)) > 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("processes are left: %v", children(s.cmd.Process.Pid))
				}
			}
			if !strings.Contains(s.log.String(), "may not have heard") && name != "claims to be done" {
				t.Error("the log says nothing of it")
			}
		})
	}
}

// TestNoEcho: without the echo the kernel shows everything all the same, and no helper runs.
func TestNoEcho(t *testing.T) {
	s := startStore(t, serveConfig{Options: Options{NoEcho: true}})
	s.sh("mkdir d; echo 1 > d/f")
	s.must("mark before")
	before := s.state()
	s.sh("rm -r d; echo 3 > g")
	w := watch(t, s.point)
	s.must("move before")
	if got := s.state(); got != before {
		t.Errorf("the kernel shows\n%s\nand not\n%s", got, before)
	}
	if got := w.events(); len(got) > 0 {
		t.Errorf("a watcher heard %q", got)
	}
}
