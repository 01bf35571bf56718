package proc

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wsfs/store"
)

// describe resolves n processes whose numbers a script prints, one line each. Sorted.
func describe(r *Resolver, k *kid, n int) []string {
	var got []string
	for range n {
		who := resolve(r, k.number())
		depth := 0
		for p := who.Process.Parent; p != nil; p = p.Parent {
			depth++
		}
		name, _, _ := strings.Cut(who.Session.Name, "@")
		got = append(got, fmt.Sprintf("%s depth %d command %s", name, depth, strings.ReplaceAll(who.Command.Argv, "\x00", " ")))
	}
	slices.Sort(got)
	return got
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

const say = `echo $$; read; :` // the body of a bash -c that names itself and stays

func TestNestedSessions(t *testing.T) {
	r := newResolver(t, Options{MountSession: "mount"})
	v := SessionVariable
	// a > b > a: the inner a is the same session, but its root is its own.
	k := script(t, `export S='`+say+`'; bash -c "$S" a1 <&0 & `+
		v+`=b bash -c 'bash -c "$S" b1 <&0 & `+v+`=a bash -c "bash -c \"\$S\" a2 <&0 & wait" a3 <&0 & wait' b2 <&0 & wait`, inSession("a"))
	wantLines(t, describe(r, k, 3),
		"a depth 1 command bash -c "+say+" a1", "a depth 1 command bash -c "+say+" a2", "b depth 1 command bash -c "+say+" b1")
}

func TestCleanedEnvironment(t *testing.T) {
	r := newResolver(t, Options{MountSession: "mount"})
	// The nearest process that has the variable decides, however far up, and an empty value is none.
	k := script(t, `env -i "PATH=$PATH" bash -c '`+say+`' <&0 & wait`, inSession("a"))
	wantLines(t, describe(r, k, 1), "a depth 1 command bash -c "+say)
	k = script(t, SessionVariable+`= bash -c '`+say+`' <&0 & wait`, inSession("a"))
	wantLines(t, describe(r, k, 1), "a depth 1 command bash -c "+say)
	// With another one in between, the value further down stands for itself.
	k = script(t, `env -i bash -c 'exec bash -c "`+SessionVariable+`=a bash -c \"echo \\\$\\\$; read; :\"; :"' <&0 & wait`, inSession("a"))
	wantLines(t, describe(r, k, 1), "a depth 2 command bash -c "+SessionVariable+`=a bash -c "echo \$\$; read; :"; :`)
}

func TestMountSession(t *testing.T) {
	requireNoSession(t)
	r := newResolver(t, Options{MountSession: "mount"})
	k := script(t, `bash -c '`+say+`' <&0 & setsid bash -c 'bash -c "echo \$\$; read; :" <&0 & wait' two <&0 & wait`, leader)
	// One writer for all, but a command has its place in a login session.
	wantLines(t, describe(r, k, 2), "mount depth 1 command bash -c "+say, "mount depth 1 command bash -c echo $$; read; :")
}

// leader puts a kid into a login session of its own, without a terminal.
func leader(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func TestLoginSession(t *testing.T) {
	requireNoSession(t)
	r := newResolver(t, Options{})
	k := script(t, `bash -c '`+say+`' <&0 & wait`, leader)
	name := "bash-" + strconv.Itoa(k.pid)
	wantLines(t, describe(r, k, 1), name+" depth 1 command bash -c "+say)
	who := resolve(r, k.pid)
	if !strings.HasSuffix(who.Session.Name, "@host") || who.Process.Parent != nil || who.Command == nil || who.Command.N != 2 {
		t.Errorf("the leader: %+v %+v, want the root, and its second command", who, who.Session)
	}

	// Without a terminal, setsid begins another login session.
	k = script(t, `setsid bash -c '`+say+`' <&0 & wait`, leader)
	pid := k.number()
	who = resolve(r, pid)
	if want := "bash-" + strconv.Itoa(pid) + "@host"; who.Session.Name != want || who.Process.Parent != nil {
		t.Errorf("after setsid: %+v, want %s", who.Session, want)
	}

	// With the leader gone, those left are still in its session; the topmost one is the command.
	k = script(t, `bash -c 'echo $$; read; bash -c "echo \$\$; read; :"; :' <&0 & exec sleep 1000`, leader)
	old, _ := resolve(r, k.pid), k.number()
	if err := syscall.Kill(k.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(k.pid, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	k.say("")
	who = resolve(r, k.number())
	if who.Session != old.Session || who.Process.Parent == nil || who.Process.Parent.Parent != nil {
		t.Errorf("without its leader: %+v in %+v, want the same session %+v and one process above", who, who.Session, old.Session)
	}
	if !strings.HasPrefix(who.Command.Argv, "bash\x00-c\x00echo $$; read; bash") {
		t.Errorf("command %q, want the topmost process left", who.Command.Argv)
	}
}

func TestTerminal(t *testing.T) {
	requireNoSession(t)
	master, tty := openTerminal(t)
	defer master.Close()
	defer tty.Close()
	r := newResolver(t, Options{})
	k := script(t, `setsid bash -c 'bash -c "echo \$\$; read; :" <&0 & wait' tool <&0 & wait`, func(c *exec.Cmd) {
		c.ExtraFiles = []*os.File{tty}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	})
	// A tool that puts its children into sessions of their own stays one writer, whose command is the whole subtree.
	wantLines(t, describe(r, k, 1), "bash-"+strconv.Itoa(k.pid)+` depth 2 command bash -c bash -c "echo \$\$; read; :" <&0 & wait tool`)
}

func openTerminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	return master, tty
}

func TestSharedSessions(t *testing.T) {
	ids := &counter{}
	shared := NewSessions(ids, 7, "host", nil)
	row := &store.Session{ID: 99, Name: "a", Workspace: 7}
	shared.Adopt(row, 41)
	k := script(t, `bash -c '`+say+`' <&0 & wait`, inSession("a"))
	pid := k.number()
	one, two := New(Options{Sessions: shared}), newResolver(t, Options{Sessions: shared, MountSession: "a"})
	defer one.Close()
	w1, w2, w0 := resolve(one, pid), resolve(two, pid), resolve(two, 0)
	if w1.Session != row || w2.Session != row || w0.Session != row {
		t.Errorf("sessions %+v, %+v, %+v: want the adopted one", w1.Session, w2.Session, w0.Session)
	}
	if w1.Command.N != 42 || w2.Command.N != 43 {
		t.Errorf("commands %d and %d, want 42 and 43", w1.Command.N, w2.Command.N)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	s := NewSessions(&counter{}, 7, "host", nil)
	first := s.get(sessionKey{name: "0"}, "")
	for i := range maxSessions + 10 {
		s.get(sessionKey{name: strconv.Itoa(i)}, "")
		s.get(sessionKey{name: "0"}, "")
	}
	if n := len(s.known.items); n != maxSessions {
		t.Errorf("%d sessions remembered, want %d", n, maxSessions)
	}
	if s.get(sessionKey{name: "0"}, "") != first {
		t.Error("a session in use was forgotten")
	}
	if s.get(sessionKey{}, "x") != nil {
		t.Error("the unknown session has a row")
	}
}

// TestPlace covers what real processes make hard.
func TestPlace(t *testing.T) {
	mk := func(pid, sid int, env environ) facts {
		return facts{stat: stat{pid: pid, sid: sid, start: uint64(pid)}, env: env}
	}
	absent := environ{state: envAbsent}

	// A parent that we may not read hides what is above it.
	a := place(mk(1, 1, environ{envSet, "a"}), nil, "", nil)
	sudo := place(mk(2, 1, environ{state: envDenied}), a, "", nil)
	tool := place(mk(3, 1, absent), sudo, "", nil)
	if sudo.byEnv || sudo.key.sid != 1 || tool.key != sudo.key || tool.owner != sudo || !tool.inner || sudo.inner {
		t.Errorf("sudo %+v, its child %+v: want the login session from sudo down", sudo, tool)
	}
	if m := place(mk(2, 1, environ{state: envDenied}), a, "mount", nil); m.key.name != "mount" {
		t.Errorf("with a mount session: %+v", m.key)
	}
	// Not read at all: the mount's session or none, and no command.
	for _, mount := range []string{"", "mount"} {
		if n := place(mk(2, 1, environ{}), a, mount, nil); n.key != (sessionKey{name: mount}) || n.inner || n.root || n.owner != nil {
			t.Errorf("unknown environment, mount session %q: %+v", mount, n)
		}
	}
	// Leaders outside our namespace all have number 0: the topmost process that we see stands for its own.
	top := place(mk(1, 0, absent), nil, "", nil)
	sub := place(mk(2, 0, absent), top, "", nil)
	own := place(mk(3, 3, absent), sub, "", nil)
	if top.key.sid != 1 || !top.root || sub.key != top.key || !sub.inner || own.key.sid != 3 || !own.root {
		t.Errorf("foreign leader: %+v, %+v, %+v", top, sub, own)
	}
}

func TestChainIsBounded(t *testing.T) {
	f := func(pid int) facts {
		return facts{stat: stat{pid: pid, sid: 1, start: uint64(pid)}, env: environ{state: envAbsent}}
	}
	r := newResolver(t, Options{})
	root := f(1)
	root.env = environ{envSet, "a"}
	n := place(root, nil, "", nil)
	var command *store.Command
	for pid := 2; pid < 1000; pid++ {
		n = place(f(pid), n, "", nil)
		who := r.rows(n)
		if pid == 2 {
			command = who.Command
		}
		if who.Command != command || who.Session.Name != "a" {
			t.Fatalf("process %d: %+v, want command %+v of session a", pid, who, command)
		}
	}
	above, rows := 0, 0
	for m := n; m != nil; m = m.up {
		above++
	}
	for p := r.row(n); p != nil; p = p.Parent {
		rows++
	}
	if above > maxDepth+2 || rows > maxDepth+2 {
		t.Errorf("%d images and %d rows kept", above, rows)
	}
}
