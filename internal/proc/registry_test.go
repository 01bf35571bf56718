package proc

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"wsfs/store"
)

// register makes a kid what `wsfs run` would be: the process that starts a program.
func register(t *testing.T, y *Registry, k *kid, session, argv string, each bool) *Registration {
	t.Helper()
	start, err := StartTicks(k.pid)
	if err != nil {
		t.Fatal(err)
	}
	g := &Registration{PID: k.pid, StartTicks: start, Session: session, Argv: argv, Each: each}
	y.Add(g)
	return g
}

func TestRegisteredCommand(t *testing.T) {
	y := &Registry{}
	r := newResolver(t, Options{Registry: y, MountSession: "mount"})
	// The environment names another session: below a registered process it says nothing.
	k := script(t, `bash -c 'bash -c "echo \$\$; read; :" <&0 & echo $$; wait' <&0 & wait`, inSession("other"))
	g := register(t, y, k, "run", "make\x00all", false)
	a, b := resolve(r, k.number()), resolve(r, k.number())
	if a.Session == nil || a.Session.Name != "run" || a.Session != b.Session {
		t.Fatalf("sessions %+v and %+v, want run", a.Session, b.Session)
	}
	if a.Command == nil || a.Command.Argv != "make\x00all" || a.Command != b.Command || a.Command.N != 1 {
		t.Errorf("commands %+v and %+v, want the registered one", a.Command, b.Command)
	}
	for p := a.Process; p != nil; p = p.Parent {
		if p.PID == k.pid {
			t.Error("the process that was registered is in the chain")
		}
	}
	if got := g.Commands(); len(got) != 1 || got[0] != a.Command {
		t.Errorf("it collected %v", got)
	}
}

func TestInnerRegistration(t *testing.T) {
	for session, want := range map[string]string{"inner": "in", "outer": "out"} {
		y := &Registry{}
		r := newResolver(t, Options{Registry: y})
		k := script(t, `bash -c 'echo $$; read; bash -c "echo \$\$; read; :" <&0 & wait' <&0 & wait`, inSession("x"))
		register(t, y, k, "outer", "out", false)
		mid := k.number()
		start, err := StartTicks(mid)
		if err != nil {
			t.Fatal(err)
		}
		y.Add(&Registration{PID: mid, StartTicks: start, Session: session, Argv: "in"})
		k.say("")
		who := resolve(r, k.number())
		if who.Session.Name != session || who.Command.Argv != want {
			t.Errorf("inner session %s: session %s, command %s; want command %s", session, who.Session.Name, who.Command.Argv, want)
		}
	}
}

func TestRegisteredEach(t *testing.T) {
	y := &Registry{}
	r := newResolver(t, Options{Registry: y})
	k := script(t, `bash -c 'bash -c "bash -c \"echo \\\$\\\$; read; :\" three <&0 & wait" two <&0 & echo $$; wait' one <&0 & wait`, inSession("x"))
	register(t, y, k, "day", "agent", true)
	got := map[string]string{}
	for range 2 {
		who := resolve(r, k.number())
		got[last(who.Process.Argv)] = last(who.Command.Argv)
	}
	if got["one"] != "one" || got["three"] != "two" {
		t.Errorf("commands %v, want one for itself and two for three", got)
	}
}

func last(argv string) string { return argv[strings.LastIndexByte(argv, 0)+1:] }

func TestBursts(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newResolver(t, Options{Now: func() time.Time { return now }})
	k := script(t, `bash -c 'echo $$; read; :' <&0 & wait`, inSession("s"))
	child := k.number()
	ask := func(pid int) *store.Command { return resolve(r, pid).Command }
	first := ask(k.pid)
	now = now.Add(time.Second)
	if ask(k.pid) != first {
		t.Error("within a second: another command")
	}
	now = now.Add(3 * time.Second)
	second := ask(k.pid)
	if second == first || second.N != first.N+1 || second.StartedAt != now.UnixNano() || second.Argv != first.Argv {
		t.Errorf("after a pause: %+v after %+v", second, first)
	}
	sub := ask(child)
	if sub == second || sub == nil {
		t.Fatalf("the child's command: %+v", sub)
	}
	third := ask(k.pid)
	if third == second {
		t.Error("another command of the session came in between, and the root's did not end")
	}
	now = now.Add(time.Hour)
	if ask(child) != sub {
		t.Error("a command below the root has bursts")
	}
}

// The numbers in a request are those of the daemon's namespace, however many there are below it.
func TestChildPIDNamespace(t *testing.T) {
	if err := exec.Command("unshare", "-p", "-f", "true").Run(); err != nil {
		t.Skip("needs the right to make a PID namespace:", err)
	}
	y := &Registry{}
	r := newResolver(t, Options{Registry: y})
	k := script(t, `exec unshare -p -f bash -c 'read pid rest < /proc/self/stat; echo $pid; read; :'`, inSession("x"))
	register(t, y, k, "boxed", "unshare", false)
	if who := resolve(r, k.number()); who.Session.Name != "boxed" || who.Command.Argv != "unshare" {
		t.Errorf("session %+v, command %+v", who.Session, who.Command)
	}
}

func TestParentsOfSessions(t *testing.T) {
	y := &Registry{}
	r := newResolver(t, Options{Registry: y})
	k := script(t, `bash -c 'echo $$; read; bash -c "echo \$\$; read; :" <&0 & wait' <&0 & wait`, inSession("x"))
	start, _ := StartTicks(k.pid)
	y.Add(&Registration{PID: k.pid, StartTicks: start, Session: "lead", Meta: `{"human":"ada"}`, Home: 7})
	mid := k.number()
	start, _ = StartTicks(mid)
	y.Add(&Registration{PID: mid, StartTicks: start, Session: "lead/helper", Parent: "lead", Meta: `{"model":"m"}`, Home: 9})
	k.say("")
	s := resolve(r, k.number()).Session
	if s.Name != "lead/helper" || s.Meta != `{"model":"m"}` || s.Home != 9 {
		t.Errorf("session %+v, want lead/helper, whose home is workspace 9", s)
	}
	if p := s.Parent; p == nil || p.Name != "lead" || p.Meta != `{"human":"ada"}` || p.Home != 0 {
		t.Errorf("its parent %+v, want lead", p)
	}
	if first := resolve(r, mid).Session; first != s {
		t.Errorf("its own child has session %+v", first)
	}
}
