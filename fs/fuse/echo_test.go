package fuse

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// watcher is `inotifywait -m -r` on a mount.
type watcher struct {
	t    testing.TB
	root string
	pid  int
	end  func()

	mu    sync.Mutex
	lines []string
}

func watch(t testing.TB, root string) *watcher {
	t.Helper()
	bin, err := exec.LookPath("inotifywait")
	if err != nil {
		t.Skip("needs inotifywait (apt-get install inotify-tools):", err)
	}
	cmd := exec.Command(bin, "-m", "-r", "--format", "%e %w%f", root)
	out, err1 := cmd.StdoutPipe()
	said, err2 := cmd.StderrPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &watcher{t: t, root: root, pid: cmd.Process.Pid}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			w.mu.Lock()
			w.lines = append(w.lines, strings.ReplaceAll(sc.Text(), root+"/", ""))
			w.mu.Unlock()
		}
	}()
	w.end = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait()
	})
	t.Cleanup(w.end)
	sc := bufio.NewScanner(said)
	for sc.Scan() {
		if strings.Contains(sc.Text(), "established") {
			go func() {
				for sc.Scan() {
				}
			}()
			return w
		}
	}
	t.Fatal("inotifywait ended")
	return nil
}

// events returns what was heard since the last call, once want all were or some time has passed. Reading is no event here.
func (w *watcher) events(want ...string) []string {
	w.t.Helper()
	var got []string
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		got = nil
		for _, l := range w.lines {
			kind, _, _ := strings.Cut(l, " ")
			switch strings.TrimSuffix(kind, ",ISDIR") {
			case "OPEN", "ACCESS", "CLOSE_NOWRITE,CLOSE":
				continue
			}
			got = append(got, l)
		}
		missing := ""
		for _, e := range want {
			if !contains(strings.Join(got, ","), e) && !strings.Contains(strings.Join(got, "\n")+"\n", e+"\n") {
				missing = e
			}
		}
		if missing == "" || time.Now().After(end) {
			w.lines = nil
			w.mu.Unlock()
			if missing != "" {
				w.t.Errorf("the watcher did not hear %q but:\n%s", missing, strings.Join(got, "\n"))
			}
			return got
		}
		w.mu.Unlock()
	}
}

// settle returns when the watcher watches as many directories as there are, or after some time: it adds those that appear
// when it has heard of them, and finds nothing in one that has gone again meanwhile.
func (w *watcher) settle() {
	w.t.Helper()
	dirs := 0
	err := filepath.WalkDir(w.root, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs++
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		watched := 0
		for _, path := range glob(w.t, fmt.Sprintf("/proc/%d/fdinfo/*", w.pid)) {
			b, _ := os.ReadFile(path) // it may have gone
			watched += strings.Count(string(b), "inotify wd:")
		}
		if watched == dirs {
			return
		}
	}
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (s *server) must(cmd string) {
	s.t.Helper()
	if got := s.do(cmd); got != "ok" {
		s.t.Fatalf("%s: %s", cmd, got)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a script in the mount.
func (s *server) sh(script string) string {
	s.t.Helper()
	cmd := exec.Command("sh", "-euc", script)
	cmd.Dir = s.point
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// state is every name below the mount with all that stat(2) and a reader see.
func (s *server) state() string {
	s.t.Helper()
	return s.sh(`find . -type d -printf '%P %y %m %n\n' -o -printf '%P %y %m %s %l %n\n' | sort; find . -type f -print0 | sort -z | xargs -0r cat`)
}

// TestEchoEvents moves a workspace there and back: a watcher hears of everything that differs, as if a program had done
// it on the mount, the kernel shows the other state at once, and nothing is added to the history.
//
// What moved into a directory that appears is told as moved unless the watcher enters that first: then the kernel finds it
// there and takes the old name away by itself. TestPlanEcho has that case.
func TestEchoEvents(t *testing.T) {
	for _, c := range []struct {
		name, before, change string
		back, forth          []string // events of the way back to before and of the way to after the change
	}{
		{"file created", "", "echo 1 > f", []string{"DELETE f"}, []string{"CREATE f", "CLOSE_WRITE,CLOSE f"}},
		{"file deleted", "echo 1 > f", "rm f", []string{"CREATE f", "CLOSE_WRITE,CLOSE f"}, []string{"DELETE f"}},
		{"file changed", "echo 1 > f", "echo longer > f", []string{"MODIFY f", "CLOSE_WRITE,CLOSE f"}, []string{"MODIFY f", "CLOSE_WRITE,CLOSE f"}},
		{"file replaced", "echo 1 > f", "echo longer > t; mv t f", []string{"DELETE f", "CREATE f", "MODIFY f"}, []string{"DELETE f", "CREATE f", "MODIFY f"}},
		{"mode", "echo 1 > f", "chmod 600 f", []string{"ATTRIB f"}, []string{"ATTRIB f"}},
		{"mode of a directory", "mkdir d", "chmod 700 d", []string{"ATTRIB,ISDIR d"}, []string{"ATTRIB,ISDIR d"}},
		{"file that none may write", "echo 1 > f; chmod 444 f", "chmod 644 f; echo 22 > f; chmod 444 f", []string{"MODIFY f"}, []string{"MODIFY f"}},
		{"file renamed", "echo 1 > f", "mv f g", []string{"MOVED_FROM g", "MOVED_TO f"}, []string{"MOVED_FROM f", "MOVED_TO g"}},
		{"directory renamed", "mkdir -p d/e; echo 1 > d/e/f", "mv d g", []string{"MOVED_FROM,ISDIR g", "MOVED_TO,ISDIR d"}, []string{"MOVED_FROM,ISDIR d", "MOVED_TO,ISDIR g"}},
		{
			"directory renamed and changed", "mkdir -p d/e; echo 1 > d/e/f; echo 1 > d/e/h", "mv d g; echo 22 > g/e/f; rm g/e/h; echo 3 > g/e/i",
			[]string{"MOVED_TO,ISDIR d", "MODIFY d/e/f", "CREATE d/e/h", "DELETE d/e/i"}, []string{"MOVED_TO,ISDIR g", "DELETE g/e/h", "CREATE g/e/i", "MODIFY g/e/f"},
		},
		{"names exchanged", "echo 1 > f; echo 22 > g", "mv f t; mv g f; mv t g", []string{"MOVED_FROM f", "MOVED_TO g", "MOVED_FROM g", "MOVED_TO f"}, []string{"MOVED_FROM f", "MOVED_TO g"}},
		{"directories exchanged", "mkdir a b; echo 1 > a/f; echo 22 > b/g", "mv a t; mv b a; mv t b; echo 333 > a/g", []string{"MOVED_TO,ISDIR a", "MOVED_TO,ISDIR b"}, []string{"MOVED_TO,ISDIR a", "MOVED_TO,ISDIR b"}},
		{"three names in a circle", "echo 1 > f; echo 22 > g; echo 333 > h", "mv f t; mv g f; mv h g; mv t h", []string{"MOVED_TO f", "MOVED_TO g", "MOVED_TO h"}, []string{"MOVED_TO f", "MOVED_TO g", "MOVED_TO h"}},
		{"directories in a circle", "mkdir f g h; echo 1 > g/x", "mv f t; mv g f; mv h g; mv t h; touch g/y", []string{"MOVED_TO,ISDIR f", "MOVED_TO,ISDIR g", "MOVED_TO,ISDIR h"}, []string{"MOVED_TO,ISDIR f", "MOVED_TO,ISDIR g", "MOVED_TO,ISDIR h"}},
		{"renamed into each other", "mkdir -p a/b; echo 1 > a/f; echo 2 > a/b/g", "mv a/b .; mv a b/", []string{"MOVED_TO,ISDIR a/b", "MOVED_TO,ISDIR a"}, []string{"MOVED_TO,ISDIR b", "MOVED_TO,ISDIR b/a"}},
		{"moved out of what goes", "mkdir d; echo 1 > d/f", "mv d/f .; rmdir d", []string{"CREATE,ISDIR d", "DELETE f"}, []string{"MOVED_FROM d/f", "MOVED_TO f", "DELETE,ISDIR d"}},
		{"moved into what comes", "mkdir d; echo 1 > d/f", "mkdir n; mv d n/", []string{"MOVED_FROM,ISDIR n/d", "MOVED_TO,ISDIR d", "DELETE,ISDIR n"}, []string{"CREATE,ISDIR n"}},
		{"moved far into what comes", "mkdir d; echo 1 > d/f", "mkdir -p n/m/o; mv d n/m/o/e; echo 22 > n/m/o/e/f", []string{"MOVED_TO,ISDIR d", "MODIFY d/f", "DELETE,ISDIR n"}, []string{"CREATE,ISDIR n"}},
		{"renamed onto what goes", "echo 1 > f; echo 22 > g", "mv f g", []string{"MOVED_FROM g", "MOVED_TO f", "CREATE g"}, []string{"DELETE g", "MOVED_FROM f", "MOVED_TO g"}},
		{"tree removed", "mkdir -p d/e; echo 1 > d/e/f; echo 1 > d/g", "rm -r d", []string{"CREATE,ISDIR d"}, []string{"DELETE d/e/f", "DELETE,ISDIR d/e", "DELETE d/g", "DELETE,ISDIR d", "DELETE_SELF d/"}},
		{"file to directory", "echo 1 > x", "rm x; mkdir -p x/y", []string{"DELETE,ISDIR x/y", "DELETE,ISDIR x", "CREATE x"}, []string{"DELETE x", "CREATE,ISDIR x"}},
		{"links and others", "", "ln -s a l; mkfifo p; echo 1 > f; ln f h", []string{"DELETE l", "DELETE p", "DELETE f", "DELETE h"}, []string{"CREATE l", "CREATE p", "CREATE f", "CREATE h"}},
		{"link to another place", "ln -s a l", "ln -sfn b l", []string{"DELETE l", "CREATE l"}, []string{"DELETE l", "CREATE l"}},
		{"one of two names", "echo 1 > f; ln f g", "rm g", []string{"CREATE g"}, []string{"DELETE g"}},
		{"odd names", `mkdir "$(printf 'a\nb \377')"; cd "$(printf 'a\nb \377')"; echo 1 > " "`, `echo 22 > " "; echo 1 > '*'`, nil, nil},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			s := startStore(t, serveConfig{})
			s.sh(c.before)
			s.must("mark before")
			before := s.state()
			s.sh(c.change)
			s.must("mark after")
			after := s.state()
			w := watch(t, s.point)
			rounds := 1
			if os.Getenv("WSFS_TEST_FULL") != "" {
				rounds = 2
			}
			for range rounds {
				w.settle()
				s.must("move before")
				at := s.do("seq")
				w.events(c.back...)
				w.settle()
				if got := s.state(); got != before {
					t.Fatalf("the kernel shows\n%s\nand not\n%s", got, before)
				}
				s.must("move after")
				w.events(c.forth...)
				w.settle()
				if got := s.state(); got != after {
					t.Fatalf("the kernel shows\n%s\nand not\n%s", got, after)
				}
				s.must("move before")
				if again := s.do("seq"); again != at {
					t.Errorf("the echo added to the history: %s, then %s", at, again)
				}
				w.settle()
				s.must("move after")
				w.settle()
				w.events()
			}
			if log := s.log.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
				t.Error("the server complains")
			}
		})
	}
}
