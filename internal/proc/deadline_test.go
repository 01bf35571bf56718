package proc

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
)

// fakeChain makes init 1, agent 10 (session a), command 20 and caller 30.
func fakeChain(t testing.TB) *fakeProc {
	f := newFakeProc(t)
	f.add(1, 0, 1, "init", "init\x00", "")
	f.add(10, 1, 10, "agent", "agent\x00", SessionVariable+"=a\x00")
	f.add(20, 10, 10, "bash", "bash\x00-c\x00x\x00", "HOME=/\x00"+SessionVariable+"=a\x00")
	f.add(30, 20, 10, "tool", "tool\x00-v\x00", SessionVariable+"=a\x00")
	return f
}

func TestFakeChain(t *testing.T) {
	r := newResolver(t, Options{Root: fakeChain(t).root})
	who := resolve(r, 30)
	if who.Session.Name != "a" || who.Command.Argv != "bash\x00-c\x00x" || who.Process.Parent.Parent.PID != 10 ||
		who.Process.UID != 1000 || who.Process.Cwd != "/cwd/of/30" || who.Process.StartTicks != 30 {
		t.Errorf("%+v, process %+v", who, who.Process)
	}
}

// TestDeadline proves, with files that never answer, that Resolve yields first, returns in time with what it has, does
// not wait a second time, and uses the answer once it is there.
func TestDeadline(t *testing.T) {
	for _, c := range []struct {
		name    string
		pid     int
		file    string
		text    string
		session string // known before the answer
		argv    string // known before the answer
		command bool
		process bool
		parent  bool
	}{
		{"own command line", 30, "cmdline", "tool\x00-v\x00", "a", "", true, true, true},
		{"own environment", 30, "environ", SessionVariable + "=a\x00", "mount", "", false, true, false},
		{"own status", 30, "cwdless", "", "mount", "", false, false, false},
		{"parent's command line", 20, "cmdline", "bash\x00-c\x00x\x00", "a", "tool\x00-v", false, true, false},
		{"parent's environment", 20, "environ", SessionVariable + "=a\x00", "a", "tool\x00-v", false, true, false},
		{"agent's environment", 10, "environ", SessionVariable + "=a\x00", "a", "tool\x00-v", false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := fakeChain(t)
			if c.file == "cwdless" {
				c.file, c.text = "stat", "30 (tool) S 20 1 10 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 30 0 0 0 0 0 0 0 0 0 0\n"
			}
			release := f.block(c.pid, c.file, c.text)
			r := newResolver(t, Options{Root: f.root, MountSession: "mount", Deadline: time.Second})
			defer release()
			yielded := false
			asked := make(chan store.Attribution, 1)
			go func() { asked <- r.Resolve(30, func() { yielded = true }, nil) }()
			var who store.Attribution
			select {
			case who = <-asked:
			case <-time.After(20 * time.Second):
				t.Fatal("Resolve waits for a process that waits for us")
			}
			if !yielded {
				t.Error("it waited without yield")
			}
			if who.Session == nil || who.Session.Name != c.session || (who.Command != nil) != c.command || (who.Process != nil) != c.process {
				t.Fatalf("before the answer: %+v (session %+v), want session %s", who, who.Session, c.session)
			}
			if p := who.Process; p != nil && (p.Argv != c.argv || p.Comm != "tool" || (p.Parent != nil) != c.parent) {
				t.Errorf("before the answer: process %+v, want argv %q", p, c.argv)
			}
			yielded = false
			if again := r.Resolve(30, func() { yielded = true }, nil); again != who || yielded {
				t.Errorf("before the answer, again: %+v (yield called: %v), want %+v at once", again, yielded, who)
			}
			release()
			waitFor(t, "the reader ends", func() bool { return len(r.readers) == 0 })
			after := r.Resolve(30, nil, nil)
			if after.Session.Name != "a" || after.Process.Argv != "tool\x00-v" || after.Command.Argv != "bash\x00-c\x00x" || after.Process.Parent.Parent.PID != 10 {
				t.Errorf("after the answer: %+v, process %+v; want everything", after, after.Process)
			}
			if after.Process == who.Process {
				t.Error("a row that may be written already was changed")
			}
			if again := r.Resolve(30, nil, nil); again != after {
				t.Errorf("after the answer, again: %+v, want %+v", again, after)
			}
		})
	}
}

func TestNoYieldWhenKnown(t *testing.T) {
	r := newResolver(t, Options{Root: fakeChain(t).root})
	yields := 0
	for range 3 {
		r.Resolve(30, func() { yields++ }, nil)
		r.Resolve(20, func() { yields++ }, nil) // an ancestor of one that is known
	}
	if yields != 1 {
		t.Errorf("yield was called %d times, want once", yields)
	}
}

func TestCancel(t *testing.T) {
	f := fakeChain(t)
	release := f.block(30, "cmdline", "")
	defer release()
	r := newResolver(t, Options{Root: f.root, Deadline: time.Hour})
	cancel := make(chan struct{})
	asked := make(chan store.Attribution, 1)
	go func() { asked <- r.Resolve(30, func() { close(cancel) }, cancel) }()
	select {
	case <-asked:
	case <-time.After(20 * time.Second):
		t.Fatal("Resolve goes on waiting after its caller was interrupted")
	}
}

// A process that waits for us in exec does not hold up who asks when it started.
func TestStartTicksInTime(t *testing.T) {
	f := fakeChain(t)
	const line = "30 (tool) S 20 1 10 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0 0 0 0 0 0 0 0 0\n"
	release := f.block(30, "stat", line)
	defer release()
	if start, err := startTicks(f.root, 30, 20*time.Millisecond); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("of a process that does not answer: %d, %v", start, err)
	}
	release()
	if start, err := startTicks(f.root, 20, time.Minute); err != nil || start != 20 {
		t.Errorf("of one that does: %d, %v", start, err)
	}
	if start, err := startTicks(f.root, 99, time.Minute); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("of none: %d, %v", start, err)
	}
}

func TestReadersAreBounded(t *testing.T) {
	f := fakeChain(t)
	const n, bound = 40, 4
	var releases []func()
	for pid := 100; pid < 100+n; pid++ {
		f.add(pid, 20, 10, "stuck", "stuck\x00", SessionVariable+"=a\x00")
		releases = append(releases, f.block(pid, "environ", SessionVariable+"=a\x00"))
	}
	r := newResolver(t, Options{Root: f.root, MountSession: "mount", Deadline: 20 * time.Millisecond, MaxReaders: bound})
	var most atomic.Int64
	for pid := 100; pid < 100+n; pid++ {
		if who := r.Resolve(uint32(pid), nil, nil); who.Session.Name != "mount" {
			t.Errorf("process %d: session %+v, want the mount's", pid, who.Session)
		}
		most.Store(max(most.Load(), int64(len(r.readers))))
	}
	if most.Load() != bound {
		t.Errorf("%d readers at once, want %d", most.Load(), bound)
	}
	// Whoever found no reader is read when there is room again; the files of those that never got one stay unopened.
	for i, release := range releases {
		pid := 100 + i
		if i >= bound {
			r.Resolve(uint32(pid), nil, nil)
		}
		release()
		waitFor(t, "a reader ends", func() bool { return len(r.readers) < bound })
	}
	waitFor(t, "all readers end", func() bool { return len(r.readers) == 0 })
	for pid := 100; pid < 100+n; pid++ {
		f.restore(pid)
		if who := r.Resolve(uint32(pid), nil, nil); who.Session.Name != "a" || who.Command == nil {
			t.Errorf("process %d in the end: %+v, want session a", pid, who)
		}
	}
}

// restore puts an environment that answers in the place of a blocked one.
func (f *fakeProc) restore(pid int) {
	f.t.Helper()
	if err := os.Remove(f.path(pid, "environ")); err != nil {
		f.t.Fatal(err)
	}
	f.write(pid, "environ", SessionVariable+"=a\x00")
}

func TestFakeLoop(t *testing.T) {
	f := newFakeProc(t)
	f.add(5, 6, 5, "five", "", "A=1\x00")
	f.add(6, 5, 5, "six", "", "A=1\x00")
	f.add(7, 7, 5, "seven", "", "A=1\x00")
	r := newResolver(t, Options{Root: f.root})
	for _, pid := range []int{5, 6, 7} {
		if who := resolve(r, pid); who.Process == nil || who.Process.PID != pid {
			t.Errorf("%d: %+v", pid, who)
		}
	}
}

// TestFailureIsNotKept has each process of the chain fail to be read for a reason that passes.
func TestFailureIsNotKept(t *testing.T) {
	for _, file := range []string{"stat", "status", "environ", "cmdline"} {
		for _, pid := range []int{10, 20, 30} {
			f := fakeChain(t)
			good, err := os.ReadFile(f.path(pid, file))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(f.path(pid, file)); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(f.path(pid, file), 0o755); err != nil { // reading it is EISDIR
				t.Fatal(err)
			}
			r := newResolver(t, Options{Root: f.root, MountSession: "mount"})
			want := "a"
			if pid == 30 && file != "cmdline" {
				want = "mount"
			}
			if who := resolve(r, 30); who.Session.Name != want || (pid != 30 && (who.Process == nil || who.Process.PID != 30)) {
				t.Errorf("no %s of process %d: %+v (%+v), want session %s", file, pid, who, who.Session, want)
			}
			if err := os.Remove(f.path(pid, file)); err != nil {
				t.Fatal(err)
			}
			f.write(pid, file, string(good))
			if who := resolve(r, 30); who.Session.Name != "a" || who.Command == nil || who.Command.Argv != "bash\x00-c\x00x" || who.Process.Parent.Parent.PID != 10 {
				t.Errorf("%s of process %d is back: %+v, process %+v; want everything", file, pid, who, who.Process)
			}
		}
	}
}

// TestInExec has a process without arguments and environment, as one is for an instant inside exec.
func TestInExec(t *testing.T) {
	f := fakeChain(t)
	f.write(20, "cmdline", "")
	f.write(20, "environ", "")
	r := newResolver(t, Options{Root: f.root, MountSession: "mount"})
	if who := resolve(r, 30); who.Session.Name != "a" || who.Command != nil || who.Process.Parent != nil {
		t.Errorf("in exec: %+v, process %+v; want session and process only", who, who.Process)
	}
	f.write(20, "environ", SessionVariable+"=a\x00")
	f.write(20, "cmdline", "bash\x00")
	if who := resolve(r, 30); who.Command == nil || who.Command.Argv != "bash" || who.Process.Parent.Parent.PID != 10 {
		t.Errorf("after exec: %+v, process %+v; want everything", who, who.Process)
	}
}

func TestLongChain(t *testing.T) {
	f := newFakeProc(t)
	const n = 200
	for pid := 1; pid <= n; pid++ {
		env := ""
		if pid == 1 {
			env = SessionVariable + "=a\x00"
		}
		f.add(pid, pid-1, 1, "sh", "sh\x00-"+strconv.Itoa(pid)+"\x00", env+"A=1\x00")
	}
	r := newResolver(t, Options{Root: f.root})
	// There may be more processes than readers: then it takes more than one try.
	var who store.Attribution
	waitFor(t, "the chain is known", func() bool { who = resolve(r, n); return who.Session != nil && who.Session.Name == "a" })
	if who.Command.Argv != "sh\x00-2" {
		t.Errorf("command %q, want the one below the root", who.Command.Argv)
	}
}

func TestUnreadableEnvironment(t *testing.T) {
	if os.Getuid() == 0 {
		if os.Getenv(helperVariable) == "" {
			asNobody(t, "TestUnreadableEnvironment")
			return
		}
	}
	f := fakeChain(t)
	if err := os.Chmod(f.path(30, "environ"), 0); err != nil {
		t.Fatal(err)
	}
	if who := resolve(newResolver(t, Options{Root: f.root, MountSession: "mount"}), 30); who.Session.Name != "mount" || who.Process.Argv != "tool\x00-v" {
		t.Errorf("with a mount session: %+v (%+v)", who, who.Session)
	}
	if who := resolve(newResolver(t, Options{Root: f.root}), 30); who.Session.Name != "agent-10@host" {
		t.Errorf("without a mount session: %+v (%+v), want the login session", who, who.Session)
	}
	// A process of root: its name and command line are known, its environment is not.
	r := New(Options{IDs: &counter{}, MountSession: "mount"})
	defer r.Close()
	if who := resolve(r, 1); who.Session.Name != "mount" || who.Process == nil || who.Process.PID != 1 || who.Process.Argv == "" {
		t.Errorf("process 1: %+v, process %+v", who, who.Process)
	}
	waitFor(t, "readers end", func() bool { return len(r.readers) == 0 })
}
