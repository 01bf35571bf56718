package fuse

import (
	"bufio"
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
	w := &watcher{t: t, root: root}
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
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait()
	})
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
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		got = nil
		for _, l := range w.lines {
			kind, _, _ := strings.Cut(l, " ")
			switch strings.TrimSuffix(kind, ",ISDIR") {
			case "OPEN", "ACCESS", "CLOSE_NOWRITE", "CLOSE_NOWRITE,CLOSE":
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

func TestEchoFirst(t *testing.T) {
	s := startStore(t, serveConfig{})
	write(t, s.path("kept"), "1")
	write(t, s.path("changed"), "old content")
	write(t, s.path("gone"), "1")
	for _, d := range []string{"tree/a/b", "dir"} {
		if err := os.MkdirAll(s.path(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, s.path("tree/a/b/f"), "1")
	write(t, s.path("dir/f"), "1")
	s.must("mark old")
	write(t, s.path("created"), "1")
	write(t, s.path("changed"), "new content!")
	if err := os.Remove(s.path("gone")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.path("tree")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.path("dir"), s.path("moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.path("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("mark new")
	w := watch(t, s.point)
	start := time.Now()
	s.must("move old")
	t.Log(time.Since(start))
	t.Log(strings.Join(w.events("DELETE created"), "\n"))
	out, err := exec.Command("find", s.point, "-ls").CombinedOutput()
	t.Log(string(out), err)
	s.must("move new")
	t.Log(strings.Join(w.events("CREATE created"), "\n"))
	out, err = exec.Command("find", s.point, "-ls").CombinedOutput()
	t.Log(string(out), err)
	t.Log(s.log.String())
	_ = filepath.Join
}
