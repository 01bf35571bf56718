package proc

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"wsfs/store"
)

func TestChain(t *testing.T) {
	r := newResolver(t, Options{})
	dir := t.TempDir()
	// The root is the first bash, the command the second, and cat writes.
	k := script(t, `bash -c 'cat <&0 & echo $! $$; wait' two "words here" <&0 & wait`, inSession("agent"), func(c *exec.Cmd) { c.Dir = dir })
	var cat, shell int
	for i, f := range strings.Fields(k.line()) {
		*[]*int{&cat, &shell}[i], _ = strconv.Atoi(f)
	}
	becomes(t, cat, "cat")
	who := resolve(r, cat)
	if who.Session == nil || who.Session.Name != "agent" || who.Session.Workspace != 7 || who.Session.StartedAt == 0 {
		t.Fatalf("session %+v, want agent in workspace 7", who.Session)
	}
	p := who.Process
	if p == nil || p.PID != cat || p.Comm != "cat" || p.Argv != "cat" || p.Cwd != dir || int(p.UID) != os.Getuid() || p.StartTicks == 0 || p.Session != who.Session.ID {
		t.Fatalf("process %+v, want cat in %s", p, dir)
	}
	up := p.Parent
	if up == nil || up.PID != shell || up.Comm != "bash" || !strings.HasPrefix(up.Argv, "bash\x00-c\x00cat <&0") || !strings.HasSuffix(up.Argv, "two\x00words here") {
		t.Fatalf("parent %+v, want the inner bash %d", up, shell)
	}
	if up.Parent == nil || up.Parent.PID != k.pid || up.Parent.Parent != nil {
		t.Fatalf("grandparent %+v, want the outer bash %d, which is the session's root", up.Parent, k.pid)
	}
	c := who.Command
	if c == nil || c.Argv != up.Argv || c.Cwd != dir || c.N != 1 || c.Session != who.Session.ID {
		t.Fatalf("command %+v, want number 1, the inner bash", c)
	}
	if age := who.Session.StartedAt - c.StartedAt; age < 0 || age > 60e9 {
		t.Errorf("the command started %d ns before it was first seen", age)
	}

	if again := resolve(r, cat); again != who {
		t.Errorf("the second time: %+v, want the same pointers as %+v", again, who)
	}
	if of := resolve(r, shell); of.Command != c || of.Process != up || of.Session != who.Session {
		t.Errorf("the inner bash: %+v, want what was seen above cat", of)
	}
	root := resolve(r, k.pid)
	if root.Process != up.Parent || root.Command == nil || root.Command.N != 2 || root.Command.Argv != up.Parent.Argv {
		t.Errorf("the outer bash: %+v, command %+v; want a command of its own, number 2", root, root.Command)
	}
}

func TestExecIsANewImage(t *testing.T) {
	r := newResolver(t, Options{})
	k := script(t, `(echo $BASHPID; read; exec cat) <&0 & wait`, inSession("s"))
	pid := k.number()
	before := resolve(r, pid)
	k.say("")
	becomes(t, pid, "cat")
	after := resolve(r, pid)
	if before.Process == after.Process || after.Process.Comm != "cat" || after.Process.Argv != "cat" {
		t.Errorf("before %+v, after %+v", before.Process, after.Process)
	}
	if before.Process.Parent != after.Process.Parent || after.Process.StartTicks != before.Process.StartTicks {
		t.Errorf("parents %+v, %+v: want the same one, and the same start", before.Process.Parent, after.Process.Parent)
	}
	if before.Command.ID != after.Command.ID || after.Command.Argv != "cat" {
		t.Errorf("commands %+v, %+v: want one, that of what the copy of the shell became", before.Command, after.Command)
	}
	if again := resolve(r, pid); again != after {
		t.Errorf("the second time: %+v, want %+v", again, after)
	}
}

func TestExecOfTheSameName(t *testing.T) {
	r := newResolver(t, Options{})
	k := script(t, `(echo $BASHPID; read; exec bash -c 'echo; cat; :' second) <&0 & wait`, inSession("s"))
	pid := k.number()
	before := resolve(r, pid)
	requireSpace(t, r, pid)
	k.say("")
	k.line()
	if after := resolve(r, pid); after.Process == before.Process || !strings.HasSuffix(after.Process.Argv, "second") {
		t.Errorf("after exec of bash from bash: %+v", after.Process)
	}
}

// requireSpace skips where execs can only be seen by comm.
func requireSpace(t *testing.T, r *Resolver, pid int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.tasks.get(pid); !ok || e.img.space == nil {
		t.Skip("/proc/PID/pagemap is not to be had here")
	}
}

func TestExecChangesSession(t *testing.T) {
	r := newResolver(t, Options{})
	k := script(t, `(echo $BASHPID; read; exec env `+SessionVariable+`=inner cat) <&0 & wait`, inSession("outer"))
	pid := k.number()
	if who := resolve(r, pid); who.Session.Name != "outer" || who.Process.Parent == nil {
		t.Errorf("before: %+v", who)
	}
	k.say("")
	becomes(t, pid, "cat")
	who := resolve(r, pid)
	if who.Session.Name != "inner" || who.Process.Parent != nil || who.Command == nil || who.Command.N != 1 {
		t.Errorf("after: %+v, command %+v; want the root of session inner", who, who.Command)
	}
}

func TestThreads(t *testing.T) {
	k := start(t, exec.Command("python3", "-c", `
import threading, os, sys
def run():
    print(threading.get_native_id(), flush=True)
    for line in iter(input, ""):
        open("/proc/self/task/%d/comm" % threading.get_native_id(), "w").write(line)
        print("renamed", flush=True)
    open("/proc/self/comm", "w").write("whole")
    print("renamed", flush=True)
    try: input()
    except EOFError: pass
threading.Thread(target=run).start()`), inSession("s"))
	tid := k.number()
	if tid == k.pid {
		t.Fatal("not a second thread")
	}
	r := newResolver(t, Options{})
	thread, first := resolve(r, tid), resolve(r, k.pid)
	if thread.Process == nil || thread != first || thread.Process.PID != k.pid || !strings.HasPrefix(thread.Process.Comm, "python3") {
		t.Fatalf("thread %+v (process %+v), first thread %+v: want the same process %d", thread, thread.Process, first, k.pid)
	}
	k.say("worker")
	k.line()
	if again := resolve(r, tid); again != first {
		t.Errorf("after the thread got another name: %+v, want %+v", again, first)
	}
	requireSpace(t, r, k.pid)
	k.say("")
	k.line()
	if a, b := resolve(r, tid), resolve(r, k.pid); a != first || b != first {
		t.Errorf("after the process got another name without exec: %+v, %+v; want %+v", a, b, first)
	}
}

func TestOwnThreads(t *testing.T) {
	r := newResolver(t, Options{})
	var mu sync.Mutex
	seen := map[*store.Process]bool{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for range 50 {
				who := resolve(r, syscall.Gettid())
				mu.Lock()
				seen[who.Process] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for p := range seen {
		if p == nil || p.PID != os.Getpid() || len(seen) != 1 {
			t.Fatalf("%d rows, one of them %+v; want one, of this process", len(seen), p)
		}
	}
}

func TestParentExits(t *testing.T) {
	r := newResolver(t, Options{})
	k := script(t, `(bash -c 'echo $$; read; echo; cat; :' <&0 &); exec sleep 1000`, inSession("s"))
	pid := k.number()
	waitFor(t, "the process between exits", func() bool { return procStat(t, procStat(t, pid).ppid).ppid != k.pid })
	first := resolve(r, pid)
	if first.Session.Name != "s" || first.Process.Parent != nil || first.Command == nil || first.Command.Argv != first.Process.Argv {
		t.Errorf("orphan: %+v, want itself as root and command", first)
	}
	k.say("")
	k.line()
	if again := resolve(r, pid); again != first {
		t.Errorf("the second time: %+v, want %+v", again, first)
	}

	k = script(t, `exec 2>/dev/null; (bash -c 'echo $$; read; exec cat' <&0 & read -u 0); echo; read`, inSession("s"))
	pid = k.number()
	before := resolve(r, pid)
	if before.Process.Parent == nil || before.Process.Parent.Parent == nil {
		t.Fatalf("before its parent exits: %+v, want two above", before.Process)
	}
	if err := syscall.Kill(before.Process.Parent.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	k.line()
	if again := resolve(r, pid); again != before {
		t.Errorf("after its parent was killed: %+v, want %+v", again, before)
	}
	k.say("")
	k.say("")
	becomes(t, pid, "cat")
	if after := resolve(r, pid); after.Process.Comm != "cat" || after.Process.Parent != before.Process.Parent {
		t.Errorf("exec after its parent was killed: %+v, want the parent it had", after.Process)
	}
}

func TestGone(t *testing.T) {
	r := newResolver(t, Options{MountSession: "mount"})
	k := script(t, `echo $$; read`, inSession("s"))
	pid := k.number()
	who := resolve(r, pid)
	k.say("")
	waitFor(t, "zombie", func() bool { return procStat(t, pid).state == 'Z' })
	// What an exiting process still closes is its own.
	if again := resolve(r, pid); again != who {
		t.Errorf("zombie: %+v, want %+v", again, who)
	}
	fresh := newResolver(t, Options{MountSession: "mount"})
	if z := resolve(fresh, pid); z.Session.Name != "mount" || z.Command != nil || z.Process == nil || z.Process.Argv != "" || z.Process.Comm != "bash" {
		t.Errorf("a zombie never seen before: %+v, process %+v; want the mount's session and no argv", z, z.Process)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	if gone := resolve(r, pid); gone.Session.Name != "mount" || gone.Process != nil || gone.Command != nil {
		t.Errorf("reaped: %+v, want the mount's session only", gone)
	}
	if nobody := resolve(r, 0); nobody.Session.Name != "mount" || nobody.Process != nil || nobody.Command != nil {
		t.Errorf("pid 0: %+v, want the mount's session only", nobody)
	}
	if nobody := resolve(newResolver(t, Options{}), 0); nobody != (store.Attribution{}) {
		t.Errorf("pid 0 without a mount session: %+v, want nothing", nobody)
	}
}

func procStat(t *testing.T, pid int) stat {
	t.Helper()
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	st, err := parseStat(line)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestReusedNumber(t *testing.T) {
	const lastPID = "/proc/sys/kernel/ns_last_pid"
	if f, err := os.OpenFile(lastPID, os.O_WRONLY, 0); err != nil {
		t.Skipf("cannot choose process numbers: %v", err)
	} else {
		f.Close()
	}
	r := newResolver(t, Options{})
	for try := range 200 {
		k := script(t, `echo $$; read`, inSession("first"))
		pid := k.number()
		before := resolve(r, pid)
		k.say("")
		waitFor(t, "zombie", func() bool { return procStat(t, pid).state == 'Z' })
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(lastPID, []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Skipf("cannot choose process numbers: %v", err)
		}
		k = script(t, `echo $$; read`, inSession("second"))
		if k.number() != pid {
			continue // some other program was faster
		}
		after := resolve(r, pid)
		if after.Session.Name != "second" || after.Process == before.Process || after.Process.PID != pid {
			t.Errorf("try %d: number %d reused: %+v, want session second", try, pid, after)
		}
		return
	}
	t.Skip("no number was reused in 200 tries: the machine is too busy")
}

func TestNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: cannot make a process namespace")
	}
	k := start(t, exec.Command("unshare", "--pid", "--fork", "--kill-child", "bash", "-c", `echo $$; bash -c 'cat <&0 & wait' <&0`), inSession("boxed"))
	if n := k.number(); n != 1 {
		t.Fatalf("process %d, want the first of a namespace", n)
	}
	inner := children(t, k.pid)[0]
	var command, cat int
	waitFor(t, "cat below bash", func() bool {
		for _, command = range children(t, inner) {
			for _, cat = range children(t, command) {
				b, _ := os.ReadFile("/proc/" + strconv.Itoa(cat) + "/comm")
				if string(b) == "cat\n" {
					return true
				}
			}
		}
		return false
	})
	who := resolve(newResolver(t, Options{}), cat)
	var pids []int
	for p := who.Process; p != nil; p = p.Parent {
		pids = append(pids, p.PID)
	}
	if len(pids) != 4 || pids[0] != cat || pids[1] != command || pids[2] != inner || pids[3] != k.pid || who.Session.Name != "boxed" {
		t.Errorf("%+v with chain %v, want %d %d %d %d", who, pids, cat, command, inner, k.pid)
	}
}

func children(t *testing.T, pid int) []int {
	t.Helper()
	p := strconv.Itoa(pid)
	b, err := os.ReadFile("/proc/" + p + "/task/" + p + "/children")
	if err != nil {
		t.Skipf("the kernel does not list children: %v", err)
	}
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, n)
	}
	return pids
}

func TestKernelThread(t *testing.T) {
	if b, err := os.ReadFile("/proc/2/comm"); err != nil || string(b) != "kthreadd\n" {
		t.Skip("process 2 is not kthreadd: in a container")
	}
	who := resolve(newResolver(t, Options{MountSession: "m"}), 2)
	if who.Process == nil || who.Process.Comm != "kthreadd" || who.Session.Name != "m" {
		t.Errorf("kthreadd: %+v, process %+v", who, who.Process)
	}
	resolve(newResolver(t, Options{}), 1)
}
