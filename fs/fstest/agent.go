package fstest

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// agentArg as the first argument makes a test binary an agent.
const agentArg = "fstest-agent"

// Main is called by TestMain of every package that calls [Run]: in a process that was started as an agent it serves
// system calls on standard input and output until its parent closes them, and exits; else it runs the tests.
func Main(m *testing.M) int {
	if len(os.Args) > 1 && os.Args[1] == agentArg {
		runtime.LockOSThread()
		serveAgent(os.Stdin, os.Stdout)
		return 0
	}
	return m.Run()
}

// request is one system call: paths and data in S, numbers in N.
type request struct {
	Op string
	S  []string
	N  []int64
}

// reply carries the errno, or numbers and text as the operation says (agent_ops.go).
type reply struct {
	Errno unix.Errno
	N     []int64
	S     []string
}

func (r reply) err() error {
	if r.Errno == 0 {
		return nil
	}
	return r.Errno
}

func serveAgent(in io.Reader, out io.Writer) {
	dec, enc := gob.NewDecoder(in), gob.NewEncoder(out)
	for {
		var q request
		if dec.Decode(&q) != nil {
			return
		}
		var r reply
		var err error
		if op, known := agentOps()[q.Op]; known {
			r.N, r.S, err = op(q)
		} else {
			err = unix.ENOSYS
		}
		if err != nil && !errors.As(err, &r.Errno) {
			r.Errno = unix.EIO
		}
		if enc.Encode(r) != nil {
			return
		}
	}
}

// agent is a second process of a test. Its working directory is the test's directory at first.
type agent struct {
	e   *env
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
	enc *gob.Encoder
	dec *gob.Decoder
	mu  sync.Mutex
	// Pid and the thread that does every system call of the agent.
	pid, tid int
}

// who is the identity an agent runs as; the zero value is the test's own.
type who struct {
	uid, gid int
	groups   []int
}

// agent starts a second process with the test's own identity.
func (e *env) agent() *agent { return e.agentAs(who{}) }

// agentAs starts a second process as somebody else; this needs root.
func (e *env) agentAs(w who) *agent {
	e.Helper()
	// Not the path of the test binary: go test puts it below a directory that only its owner can search.
	cmd := exec.Command("/proc/self/exe", agentArg)
	cmd.Dir = e.dir
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	e.ok(err, "agent")
	out, err := cmd.StdoutPipe()
	e.ok(err, "agent")
	e.ok(cmd.Start(), "start agent")
	a := &agent{e: e, cmd: cmd, in: in, out: out, enc: gob.NewEncoder(in), dec: gob.NewDecoder(out), pid: cmd.Process.Pid}
	e.Cleanup(a.kill)
	r := a.must("whoami")
	a.tid = int(r.N[0])
	if w.uid != 0 {
		groups := []int64{int64(w.uid), int64(w.gid)}
		for _, g := range w.groups {
			groups = append(groups, int64(g))
		}
		a.must("become", groups)
	}
	return a
}

// call sends one request: strings and ints, in any order, become S and N.
func (a *agent) call(op string, args ...any) reply {
	a.e.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	q := request{Op: op}
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			q.S = append(q.S, v)
		case int:
			q.N = append(q.N, int64(v))
		case int64:
			q.N = append(q.N, v)
		case uint32:
			q.N = append(q.N, int64(v))
		case []int64:
			q.N = append(q.N, v...)
		default:
			a.e.Fatalf("agent: argument of type %T", arg)
		}
	}
	if err := a.enc.Encode(q); err != nil {
		return reply{Errno: unix.EPIPE, S: []string{fmt.Sprint(err)}}
	}
	var r reply
	if err := a.dec.Decode(&r); err != nil {
		return reply{Errno: unix.EPIPE, S: []string{fmt.Sprint(err)}}
	}
	return r
}

// must is call for what has to succeed.
func (a *agent) must(op string, args ...any) reply {
	a.e.Helper()
	r := a.call(op, args...)
	if r.Errno != 0 {
		a.e.Fatalf("agent: %s %s: %v", op, short(fmt.Sprint(args...)), r.err())
	}
	return r
}

// fails requires an errno.
func (a *agent) fails(want unix.Errno, op string, args ...any) {
	a.e.Helper()
	a.e.fails(a.call(op, args...).err(), want, "agent: %s %s", op, short(fmt.Sprint(args...)))
}

// start sends a request that may block; the reply comes on the channel.
func (a *agent) start(op string, args ...any) <-chan reply {
	c := make(chan reply, 1)
	go func() { c <- a.call(op, args...) }()
	return c
}

// blocked waits until the agent's thread sleeps in the kernel, doing the call that was started.
func (a *agent) blocked(call ...int) {
	a.e.Helper()
	a.e.eventually("agent blocks in its system call", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", a.pid, a.tid))
		if err != nil {
			return false
		}
		for _, nr := range call {
			if n := 0; func() bool { _, err := fmt.Sscan(string(b), &n); return err == nil }() && n == nr {
				return true
			}
		}
		return false
	})
}

func (a *agent) signal(sig unix.Signal) {
	a.e.Helper()
	a.e.ok(unix.Tgkill(a.pid, a.tid, sig), "signal agent")
}

// kill ends the agent with SIGKILL and waits for it.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill()
	_ = a.in.Close()
	_ = a.cmd.Wait()
}
