package proc

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"wsfs/store"
)

const helperVariable = "PROC_TEST_AS_NOBODY"

// asNobody runs one test of this binary again as an ordinary user.
func asNobody(t *testing.T, name string) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	// By descriptor: the directory of a test binary is closed to others.
	c := exec.Command("/proc/self/fd/3", "-test.run", "^"+name+"$", "-test.v")
	c.ExtraFiles = []*os.File{self}
	c.Dir = "/"
	c.Env = []string{helperVariable + "=1", "TMPDIR=/tmp"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestDescriptorsAreBounded(t *testing.T) {
	const n, bound = 60, 16
	f := fakeChain(t)
	for pid := 100; pid < 100+n; pid++ {
		f.add(pid, 20, 10, "many", fmt.Sprintf("many\x00%d\x00", pid), SessionVariable+"=a\x00")
	}
	r := newResolver(t, Options{Root: f.root, MaxFiles: bound})
	before := openFiles(t)
	rows := map[int]store.Attribution{}
	for round := range 3 {
		for pid := 100; pid < 100+n; pid++ {
			who := resolve(r, pid)
			if round > 0 && who != rows[pid] {
				t.Fatalf("process %d came back as %+v, want the rows %+v it had", pid, who, rows[pid])
			}
			rows[pid] = who
		}
		waitFor(t, "readers end", func() bool { return len(r.readers) == 0 })
		if now := openFiles(t); now > before+bound+4 {
			t.Errorf("%d descriptors more than before, want %d at most", now-before, bound)
		}
	}
}

func TestConcurrentCallers(t *testing.T) {
	// Many processes, few descriptors, execs and exits meanwhile: no wrong process, and one row per image.
	r := newResolver(t, Options{MaxFiles: 24})
	k := script(t, `for i in 1 2 3 4 5 6 7 8 9 10 11 12; do bash -c 'cat; :' <&0 & echo $!; done; wait`, inSession("s"))
	var pids []int
	for range 12 {
		pids = append(pids, k.number())
	}
	for _, pid := range pids {
		waitFor(t, "bash runs", func() bool { return strings.HasPrefix(resolve(r, pid).Process.Argv, "bash\x00-c\x00cat; :") })
	}
	stop := make(chan struct{})
	var wg, churn sync.WaitGroup
	churn.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			c := exec.Command("true")
			if err := c.Start(); err != nil {
				t.Error(err)
				return
			}
			resolve(r, c.Process.Pid)
			_ = c.Wait()
			resolve(r, c.Process.Pid)
		}
	})
	var mu sync.Mutex
	rows := map[int]map[*store.Process]bool{}
	for range 4 {
		wg.Go(func() {
			for i := range 400 {
				pid := pids[i*7%len(pids)]
				who := resolve(r, pid)
				if who.Process == nil || who.Process.PID != pid || who.Session == nil || who.Session.Name != "s" || who.Process.Parent.PID != k.pid {
					t.Errorf("process %d: %+v, process %+v", pid, who, who.Process)
					return
				}
				mu.Lock()
				if rows[pid] == nil {
					rows[pid] = map[*store.Process]bool{}
				}
				rows[pid][who.Process] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	close(stop)
	churn.Wait()
	for pid, set := range rows {
		if len(set) != 1 {
			t.Errorf("process %d has %d rows", pid, len(set))
		}
	}
}

func TestClosed(t *testing.T) {
	r := newResolver(t, Options{})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	who := resolve(r, os.Getpid())
	if who.Process == nil || who.Process.PID != os.Getpid() {
		t.Errorf("after Close: %+v", who)
	}
}

func BenchmarkResolveCached(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, tid := range map[string]int{"process": os.Getpid(), "thread": syscall.Gettid()} {
		b.Run(name, func(b *testing.B) {
			r := newResolver(b, Options{})
			resolve(r, tid)
			b.ReportAllocs()
			for b.Loop() {
				resolve(r, tid)
			}
		})
	}
}

// BenchmarkResolveNew is the first change by a process whose ancestors are known.
func BenchmarkResolveNew(b *testing.B) {
	k := script(b, `bash -c 'echo $$; cat; :' <&0 & wait`, inSession("s"))
	pid := k.number()
	r := newResolver(b, Options{})
	resolve(r, pid)
	b.ReportAllocs()
	for b.Loop() {
		r.mu.Lock()
		if t, ok := r.tasks.get(pid); ok {
			r.drop(t)
		}
		r.past.remove(processKey{pid, resolveStart(r, pid)})
		r.mu.Unlock()
		resolve(r, pid)
	}
}

func resolveStart(r *Resolver, pid int) uint64 {
	for key := range r.past.items {
		if key.pid == pid {
			return key.start
		}
	}
	return 0
}
