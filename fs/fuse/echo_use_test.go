package fuse

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestEchoOpenFiles: what is open and mapped keeps its old bytes whole, who opens anew gets the new ones; what is written
// through the old handle changes neither.
func TestEchoOpenFiles(t *testing.T) {
	s := startStore(t, serveConfig{})
	old, changed := strings.Repeat("old bytes\n", 5000), strings.Repeat("new ones\n", 9000)
	write(t, s.path("f"), old)
	s.must("mark before")
	write(t, s.path("f"), changed)
	s.must("mark after")
	w := watch(t, s.point)
	for range 3 {
		for _, c := range []struct{ to, was, is string }{{"before", changed, old}, {"after", old, changed}} {
			f, err := os.Open(s.path("f"))
			if err != nil {
				t.Fatal(err)
			}
			m, err := syscall.Mmap(int(f.Fd()), 0, len(c.was), syscall.PROT_READ, syscall.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			_ = m[len(m)/2] // one page is in the cache, others are not
			s.must("move " + c.to)
			if got := string(m); got != c.was {
				t.Errorf("%s: the mapping holds %d bytes of something else", c.to, len(got))
			}
			if got, err := io.ReadAll(f); err != nil || string(got) != c.was {
				t.Errorf("%s: the old descriptor reads %d bytes, not the %d of before (%v)", c.to, len(got), len(c.was), err)
			}
			if got, err := os.ReadFile(s.path("f")); err != nil || string(got) != c.is {
				t.Errorf("%s: a new open reads %d bytes, not %d (%v)", c.to, len(got), len(c.is), err)
			}
			if got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20)); err != nil || string(got) != c.was {
				t.Errorf("%s: after that the old descriptor reads %d bytes (%v)", c.to, len(got), err)
			}
			w.events("DELETE f", "CREATE f", "MODIFY f", "CLOSE_WRITE,CLOSE f")
			_ = syscall.Munmap(m)
			_ = f.Close()
		}
	}
}

// TestEchoWorkingDirectory: a shell inside a tree that is taken away gets ENOENT at once, and the tree works again for
// who enters it anew. Nothing waits.
func TestEchoWorkingDirectory(t *testing.T) {
	s := startStore(t, serveConfig{})
	s.must("mark before")
	s.sh("mkdir -p app/build; seq 99 > app/src")
	s.must("mark after")
	w := watch(t, s.point)
	for i := range 5 {
		shell := exec.Command("sh", "-c", `cd app/build || exit 1; echo in; read x
ls > /dev/null; (: > new) 2>&1; cat ../src 2>&1; mkdir ../d 2>&1; cd .. 2>&1; echo end`)
		shell.Dir = s.point
		in, err1 := shell.StdinPipe()
		out, err2 := shell.StdoutPipe()
		if err := errors.Join(err1, err2, shell.Start()); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		if line, err := r.ReadString('\n'); line != "in\n" {
			t.Fatal(line, err)
		}
		s.must("move before")
		w.events("DELETE,ISDIR app/build", "DELETE app/src", "DELETE,ISDIR app")
		start := time.Now()
		fmt.Fprintln(in)
		said, _ := io.ReadAll(r)
		if err := shell.Wait(); err != nil || strings.Count(string(said), "No such file")+strings.Count(string(said), "nonexistent") < 3 || time.Since(start) > time.Minute {
			t.Errorf("the shell in the removed directory: %v, %q", err, said)
		}
		s.must("move after")
		w.events("CREATE,ISDIR app")
		if got := s.sh("cd app/build; echo 1 > new; ls; tail -1 ../src; mkdir -p ../d/e"); got != "new\n99\n" {
			t.Errorf("round %d: entered again: %q", i, got)
		}
	}
}

// TestEchoCycles: however often a directory goes and comes, by programs and by moves, it takes new files.
func TestEchoCycles(t *testing.T) {
	s := startStore(t, serveConfig{})
	s.sh("mkdir -p d/e/f g; echo 1 > d/e/f/x")
	s.must("mark there")
	w := watch(t, s.point)
	held, err := os.Open(s.path("d/e")) // somebody keeps the kernel's inode alive
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for i := range 50 {
		switch i % 3 {
		case 0:
			s.sh("rm -r d")
		case 1:
			s.sh("mv d/e g/; rm -r d g")
		case 2:
			s.must("mark now")
		}
		s.must("move there")
		if got := s.sh("for d in . d d/e d/e/f g; do echo $0 > $d/new; mkdir $d/sub; done; cat d/e/f/x d/e/new; ls d/e"); !strings.HasPrefix(got, "1\n") {
			t.Fatalf("round %d: %q", i, got)
		}
		w.events()
	}
	s.must("move there")
	if got := s.sh("find . | sort | xargs"); got != ". ./d ./d/e ./d/e/f ./d/e/f/x ./g\n" {
		t.Errorf("at the end: %s", got)
	}
}

// TestEchoWriters: eight programs write while the workspace moves; nobody hangs, and the last move shows what it was.
func TestEchoWriters(t *testing.T) {
	s := startStore(t, serveConfig{})
	for i := range 8 {
		s.sh(fmt.Sprintf("mkdir -p w%d/d; echo 1 > w%d/d/kept", i, i))
	}
	s.must("mark there")
	want := s.state()
	w := watch(t, s.point)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			dir := s.path(fmt.Sprintf("w%d/d", i))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				// Any of these may find that its directory or its file went away; none may hang or fail otherwise.
				name := filepath.Join(dir, fmt.Sprint(n%7))
				err := os.WriteFile(name, []byte(strings.Repeat("x", n%5000)), 0o644)
				if err == nil && n%3 == 0 {
					err = os.Rename(name, name+"r")
				}
				if err == nil && n%5 == 0 {
					err = os.Remove(filepath.Join(dir, "kept"))
				}
				if err == nil && n%11 == 0 {
					err = os.MkdirAll(filepath.Join(dir, "sub", fmt.Sprint(n)), 0o755)
				}
				if err == nil && n%13 == 0 {
					err = os.RemoveAll(filepath.Join(dir, "sub"))
				}
				if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ESTALE) && !errors.Is(err, syscall.ENOTEMPTY) {
					t.Errorf("writer %d: %v", i, err)
					return
				}
			}
		})
	}
	for range 15 {
		time.Sleep(20 * time.Millisecond)
		s.must("move there")
	}
	close(stop)
	wg.Wait()
	s.must("move there")
	if got := s.state(); got != want {
		t.Errorf("the kernel shows\n%s\nand not\n%s", got, want)
	}
	w.events("CREATE w0/d/kept", "DELETE w0/d/1")
}

// TestEchoManyOpen: thousands of files that are cached, open and mapped change at once, and nobody is left waiting.
func TestEchoManyOpen(t *testing.T) {
	const n = 2000
	s := startStore(t, serveConfig{})
	s.sh(fmt.Sprintf("mkdir t; for i in $(seq %d); do echo $i > t/$i; done", n))
	s.must("mark before")
	s.sh("for f in t/*; do echo x >> $f; done; cat t/* > /dev/null")
	var files []*os.File
	for i := range n {
		f, err := os.Open(s.path(fmt.Sprintf("t/%d", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
		m, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Munmap(m)
		_ = m[0]
	}
	done := make(chan string, 1)
	go func() { done <- s.do("move before") }()
	select {
	case got := <-done:
		if got != "ok" {
			t.Fatal(got)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the move does not end")
	}
	for i, f := range files {
		want := fmt.Sprintf("%d\nx\n", i+1)
		if got, err := io.ReadAll(f); string(got) != want {
			t.Fatalf("the open file reads %q, %v and not %q", got, err, want)
		}
	}
	if got := s.sh("cat t/* | grep -c x || true; cat t/* | wc -l"); got != fmt.Sprintf("0\n%d\n", n) {
		t.Errorf("opened anew: %s", got)
	}
	if stuck := waitingIn(t, s.cmd.Process.Pid, os.Getpid()); stuck != "" {
		t.Error(stuck)
	}
}

// waitingIn names threads of processes that cannot be woken.
func waitingIn(t testing.TB, pids ...int) string {
	t.Helper()
	var stuck []string
	for _, pid := range pids {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				continue
			}
			if _, rest, ok := strings.Cut(string(b), ") "); ok && rest[0] == 'D' {
				stuck = append(stuck, string(b))
			}
		}
	}
	return strings.Join(stuck, "")
}
