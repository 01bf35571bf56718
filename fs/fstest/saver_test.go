package fstest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// savers are sessions that save the same files whole, each from what it has read before, whoever saved in between. In each file each
// counts a line of its own, so every two of them can be merged.
type savers struct {
	w     *world
	root  string // of the files
	locks string // outside of the mount
	files []string
	all   []*saver

	survive time.Time // since when the mount outlives its daemon; zero before
}

// saver is one session, and what it was told.
type saver struct {
	name   string
	n      int            // the last that it counted
	saved  map[string]int // by file: what close or rename has acknowledged
	trying map[string]int // by file: what was begun when its last run ended; at most one
	how    string         // in which style
	acks   int
}

// saverScript saves until "stop" is beside the locks or the mount dies. It says "tries FILE N STYLE" before a save and "saved FILE N"
// after it. The locks keep everybody from reading what is truncated and not written yet; between a read and its save there is none.
const saverScript = `
import fcntl, os, random, re, sys, time
root, locks, me, n, seed = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]
files = sys.argv[6:]
os.chdir(root)
dice = random.Random(seed)

def say(*words): os.write(1, (" ".join(map(str, words)) + "\n").encode())

class locked:
    def __init__(self, f, how): self.f, self.how = f, how
    def __enter__(self):
        self.fd = os.open(locks + "/" + self.f, os.O_RDONLY)
        fcntl.flock(self.fd, self.how)
    def __exit__(self, *_): os.close(self.fd)

def write(name, text, sync=False):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    half = len(text) // 2
    os.write(fd, text[:half])
    os.write(fd, text[half:])
    if sync: os.fsync(fd)
    os.close(fd)

def renamed(f, text):
    write(f + "." + me, text)
    os.rename(f + "." + me, f)

def backed_up(f, text):
    if os.path.lexists(f + "~" + me): os.unlink(f + "~" + me)
    while True:
        try: os.link(f, f + "~" + me); break
        except FileNotFoundError: pass # somebody has replaced it since the kernel looked it up: so it is on every file system
    renamed(f, text)

def renamed_open(f, text):
    fd = os.open(f + "." + me, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, text)
    os.rename(f + "." + me, f)
    os.close(fd)

def renamed_synced(f, text):
    write(f + "." + me, text, True)
    write(f + "." + me, text[:40], True)
    renamed(f, text)

styles = {"rename of what was synced": renamed_synced, "write": write, "write and fsync": lambda f, text: write(f, text, True), "rename": renamed, "rename with a backup link": backed_up,
          "rename while open": renamed_open}
try:
    while not os.path.exists(locks + "/stop"):
        f = dice.choice(files)
        with locked(f, fcntl.LOCK_SH), open(f, "rb") as have: text = have.read()
        time.sleep(dice.random() * 0.004)
        n += 1
        edited, count = re.subn(rb"(?m)^%s: \d+$" % me.encode(), b"%s: %d" % (me.encode(), n), text)
        if count != 1: sys.exit("%s reads %r in %s" % (me, text, f))
        how = dice.choice(sorted(styles))
        say("tries", f, n, how)
        with locked(f, fcntl.LOCK_EX if how.startswith("write") else fcntl.LOCK_SH): styles[how](f, edited)
        say("saved", f, n)
except OSError as e:
    say("dies", e.errno)
    say("dies", e.errno)
`

const apart = "#\n# two lines that are counted are never\n# beside each other\n#\n"

// counted is what a file holds with these counters, by saver.
func (s *savers) counted(n map[string]int) string {
	var b strings.Builder
	for _, one := range s.all {
		fmt.Fprintf(&b, "%s: %d\n%s", one.name, n[one.name], apart)
	}
	return b.String()
}

// counters reads a file that is whole.
func (s *savers) counters(text string) (map[string]int, error) {
	n := map[string]int{}
	for _, line := range strings.Split(text, "\n") {
		var k int
		if name, number, ok := strings.Cut(line, ": "); ok {
			if _, err := fmt.Sscan(number, &k); err == nil {
				n[name] = k
			}
		}
	}
	if s.counted(n) != text {
		return nil, fmt.Errorf("it is not whole: %q", text)
	}
	return n, nil
}

func newSavers(w *world, dir string, names ...string) *savers {
	s := &savers{w: w, root: dir, locks: filepath.Join(w.base, "locks"), files: []string{"f0", "f1"}}
	if err := os.Mkdir(s.locks, 0o755); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range names {
		s.all = append(s.all, &saver{name: name, saved: map[string]int{}, trying: map[string]int{}})
	}
	for _, f := range s.files {
		for _, at := range []struct{ name, text string }{{filepath.Join(s.locks, f), ""}, {filepath.Join(dir, f), s.counted(nil)}} {
			if err := os.WriteFile(at.name, []byte(at.text), 0o644); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return s
}

// run lets all work while ends does what ends them, which begins when each has saved something.
func (s *savers) run(seed int, ends func()) {
	t := s.w.t
	var done, begun sync.WaitGroup
	for _, one := range s.all {
		clear(one.trying)
		cmd := exec.Command("python3", append([]string{"-c", saverScript, s.root, s.locks, one.name, fmt.Sprint(one.n), fmt.Sprint(one.name, seed)}, s.files...)...)
		cmd.Env = append(s.w.env(), "WSFS_SESSION="+one.name)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		begun.Add(1)
		first := sync.OnceFunc(begun.Done)
		done.Go(func() {
			defer first()
			hung := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
			defer hung.Stop()
			for lines := bufio.NewScanner(out); lines.Scan(); {
				one.hears(t, lines.Text())
				if strings.HasPrefix(lines.Text(), "saved") {
					first()
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v: %s", one.name, err, errs.String())
			}
		})
	}
	begun.Wait()
	ends()
	done.Wait()
}

func (one *saver) hears(t testing.TB, line string) {
	var f string
	var n int
	switch what, rest, _ := strings.Cut(line, " "); what {
	case "tries":
		_, _ = fmt.Sscan(rest, &f, &n)
		one.n, one.trying[f] = n, n
		_, one.how, _ = strings.Cut(rest, fmt.Sprint(n, " "))
	case "saved":
		_, _ = fmt.Sscan(rest, &f, &n)
		one.saved[f] = n
		one.acks++
		delete(one.trying, f)
	case "dies":
		_, _ = fmt.Sscan(rest, &n)
		if !dead(errnoOf(n)) {
			t.Errorf("%s: %v", one.name, errnoOf(n))
		}
	}
}
