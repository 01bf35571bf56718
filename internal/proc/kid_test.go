package proc

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
)

// counter gives out row numbers.
type counter struct{ n atomic.Int64 }

func (c *counter) NewSessionID() store.SessionID { return store.SessionID(c.n.Add(1)) }
func (c *counter) NewProcessID() store.ProcessID { return store.ProcessID(c.n.Add(1)) }
func (c *counter) NewCommandID() store.CommandID { return store.CommandID(c.n.Add(1)) }

// newResolver makes one with a deadline that a busy machine does not reach.
func newResolver(t testing.TB, o Options) *Resolver {
	t.Helper()
	if o.IDs == nil {
		o.IDs = &counter{}
	}
	if o.Host == "" {
		o.Host = "host"
	}
	if o.Deadline == 0 {
		o.Deadline = time.Minute
	}
	o.Workspace = 7
	r := New(o)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		waitFor(t, "every reader ends", func() bool { return len(r.readers) == 0 })
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.files != 0 {
			t.Errorf("%d descriptors left after Close", r.files)
		}
	})
	return r
}

func resolve(r *Resolver, pid int) store.Attribution { return r.Resolve(uint32(pid), nil, nil) }

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("gave up waiting: %s", what)
		}
	}
}

// kid is a process of the test's, usually bash with a script that talks to the test through its standard streams.
type kid struct {
	t   testing.TB
	pid int
	in  io.WriteCloser
	out *bufio.Reader
}

type kidOption func(*exec.Cmd)

func inSession(name string) kidOption {
	return func(c *exec.Cmd) { c.Env = append(c.Env, SessionVariable+"="+name) }
}

func script(t testing.TB, text string, opts ...kidOption) *kid {
	return start(t, exec.Command("bash", "-c", text), opts...)
}

func start(t testing.TB, c *exec.Cmd, opts ...kidOption) *kid {
	t.Helper()
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, o := range opts {
		o(c)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	k := &kid{t: t, pid: c.Process.Pid, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		in.Close()                                // ends what reads it, also in groups of its own
		_ = syscall.Kill(-k.pid, syscall.SIGKILL) // the group may be gone
		_ = c.Wait()
	})
	return k
}

func (k *kid) line() string {
	k.t.Helper()
	s, err := k.out.ReadString('\n')
	if err != nil {
		k.t.Fatalf("reading from the child: %v (got %q)", err, s)
	}
	return strings.TrimSuffix(s, "\n")
}

func (k *kid) number() int {
	k.t.Helper()
	n, err := strconv.Atoi(k.line())
	if err != nil {
		k.t.Fatal(err)
	}
	return n
}

func (k *kid) say(s string) {
	k.t.Helper()
	if _, err := io.WriteString(k.in, s+"\n"); err != nil {
		k.t.Fatal(err)
	}
}

// becomes waits until a process has called exec.
func becomes(t testing.TB, pid int, comm string) {
	t.Helper()
	waitFor(t, "process becomes "+comm, func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		return err == nil && string(b) == comm+"\n"
	})
}

// requireNoSession skips tests that need ancestors without a session of their own.
func requireNoSession(t testing.TB) {
	t.Helper()
	for pid := os.Getpid(); pid > 1; {
		dir := "/proc/" + strconv.Itoa(pid)
		env, err := os.ReadFile(dir + "/environ")
		if err == nil && naiveVariable(string(env), SessionVariable) != "" {
			t.Skipf("process %d above the test has %s", pid, SessionVariable)
		}
		line, err := os.ReadFile(dir + "/stat")
		if err != nil {
			return
		}
		st, err := parseStat(line)
		if err != nil {
			t.Fatal(err)
		}
		pid = st.ppid
	}
}

// fakeProc is a /proc of our own making, where a file can be one that never answers.
type fakeProc struct {
	t    testing.TB
	root string
}

func newFakeProc(t testing.TB) *fakeProc { return &fakeProc{t, t.TempDir()} }

func (f *fakeProc) path(pid int, name string) string {
	return filepath.Join(f.root, strconv.Itoa(pid), name)
}

func (f *fakeProc) write(pid int, name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(pid, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// add makes a process of session sid that started at tick pid.
func (f *fakeProc) add(pid, ppid, sid int, comm, argv, env string) {
	f.t.Helper()
	if err := os.Mkdir(filepath.Join(f.root, strconv.Itoa(pid)), 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.write(pid, "comm", comm+"\n")
	f.stat(pid, ppid, sid, 0, 0, comm)
	f.write(pid, "status", "Name:\t"+comm+"\nTgid:\t"+strconv.Itoa(pid)+"\nUid:\t1000\t0\t0\t0\n")
	f.write(pid, "cmdline", argv)
	f.write(pid, "environ", env)
	if err := os.Symlink("/cwd/of/"+strconv.Itoa(pid), f.path(pid, "cwd")); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeProc) stat(pid, ppid, sid, tty, flags int, comm string) {
	f.t.Helper()
	p := strconv.Itoa
	f.write(pid, "stat", p(pid)+" ("+comm+") S "+p(ppid)+" 1 "+p(sid)+" "+p(tty)+" -1 "+p(flags)+
		" 0 0 0 0 0 0 0 0 20 0 1 0 "+p(pid)+" 0 0 0 0 0 0 0 0 0 0\n")
}

// block replaces a file by one whose open waits. The function returned lets it go, with text.
func (f *fakeProc) block(pid int, name, text string) (release func()) {
	f.t.Helper()
	path := f.path(pid, name)
	if err := os.Remove(path); err != nil {
		f.t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		f.t.Fatal(err)
	}
	released := false
	release = func() {
		if released {
			return
		}
		released = true
		// Without a reader yet, this waits for one.
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			f.t.Error(err)
			return
		}
		defer w.Close()
		if _, err := w.WriteString(text); err != nil {
			f.t.Error(err)
		}
	}
	return release
}
