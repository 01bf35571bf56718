package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
)

// shell is a child that runs one line after another.
type shell struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func newShell(t *testing.T) *shell { return shellOf(t, exec.Command("bash")) }

// shellApart is a shell in a mount namespace of its own that has the mount on point, and no copies of mounts that other
// tests have: it would keep those alive.
func shellApart(t *testing.T, point string) *shell {
	cmd := exec.Command("bash")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	s := shellOf(t, cmd)
	s.run(`mount --make-rprivate / && sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - fuse\.wsfs .*/\1/p' /proc/self/mountinfo | while read -r p; do test $p = ` + point + ` || umount -l $p; done`)
	return s
}

func shellOf(t *testing.T, cmd *exec.Cmd) *shell {
	t.Helper()
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	cmd.Stderr = cmd.Stdout
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends
		_ = cmd.Wait()
	})
	return &shell{t, in, bufio.NewReader(out)}
}

// run returns what the line printed.
func (s *shell) run(line string) string {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, "%s\necho; echo END\n", line); err != nil {
		s.t.Fatal(err)
	}
	var b strings.Builder
	for {
		l, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%s: %v after %q", line, err, b.String())
		}
		if l == "END\n" {
			return strings.TrimSpace(b.String())
		}
		b.WriteString(l)
	}
}

// soon waits for what happens in the background.
func soon(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not happen", what)
		}
	}
}

// liveOnes is how many workspaces are open.
func liveOnes(d *Daemon) int {
	d.mu.Lock()
	var all []*slot
	for _, s := range d.slots {
		all = append(all, s)
	}
	d.mu.Unlock()
	n := 0
	for _, s := range all {
		s.mu.Lock()
		if s.live != nil {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// A past state is open, and pinned, while somebody is in it; who comes back to it afterwards finds it as it was.
func TestPastIsReleased(t *testing.T) {
	needFUSE(t)
	ctx := context.Background()
	d, c := serve(t, newStore(t), Options{})
	d.pastIdle = 300 * time.Millisecond
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	m := mountFor(t, c, "main")
	sh(t, `cd "$1"; mkdir -p d/e; echo one > f; echo deep > d/e/g`, m)
	tag, err := c.Tag(ctx, TagRequest{Revision: "main", Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	sh(t, `echo two > "$1/f"; stat "$1/.wsfs/at/one" > /dev/null; ls -l "$1/.wsfs/at" > /dev/null`, m)
	if got := pins(t, d, store.PinMount); len(got) != 0 {
		t.Errorf("to look at a state from outside pins %v", got)
	}
	inside, root := newShell(t), newShell(t)
	if got := inside.run(fmt.Sprintf("cd %s/.wsfs/at/one/d/e && cat g ../../f", m)); got != "deep\none" {
		t.Fatalf("%q", got)
	}
	if got := root.run(fmt.Sprintf("cd %s/.wsfs/at/%d && cat f", m, tag.Seq)); got != "one" {
		t.Fatalf("%q", got)
	}
	if got := pins(t, d, store.PinMount); len(got) != 1 || int64(got[0].Seq) != tag.Seq {
		t.Errorf("one state, under two names, has the pins %v", got)
	}
	// Whoever stands at the top of a state needs nothing of it; whoever stands below is in it.
	mount := d.mounts[m].m
	soon(t, "closing what nobody is in", func() bool { return len(mount.Open()) == 1 })
	time.Sleep(1500 * time.Millisecond)
	if open := mount.Open(); len(open) != 1 || open[0] != ".wsfs/at/one" {
		t.Errorf("open are %v", open)
	}
	if got := root.run("/bin/pwd; cat f d/e/g"); got != fmt.Sprintf("%s/.wsfs/at/%d\none\ndeep", m, tag.Seq) {
		t.Errorf("%q", got)
	}
	if got := inside.run("/bin/pwd; cat g; cd /"); got != m+"/.wsfs/at/one/d/e\ndeep" {
		t.Errorf("%q", got)
	}
	root.run("cd /")
	soon(t, "closing everything", func() bool { return len(mount.Open()) == 0 && len(pins(t, d, store.PinMount)) == 0 })
	sh(t, `test "$(cat "$1/.wsfs/at/one/f")" = one`, m)
	if _, err := c.Unmount(ctx, m, false); err != nil {
		t.Fatal(err)
	}
	if got := pins(t, d, store.PinMount); len(got) != 0 {
		t.Errorf("after the mount there are the pins %v", got)
	}
}

// A mount of all workspaces opens those that somebody goes into, and closes them again.
func TestAllOpensWhatIsUsed(t *testing.T) {
	needFUSE(t)
	ctx := context.Background()
	d, c := serve(t, newStore(t), Options{})
	d.liveIdle = 300 * time.Millisecond
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	a := mountFor(t, c, "main")
	sh(t, `mkdir -p "$1/d"; echo one > "$1/d/f"`, a)
	if _, err := c.Unmount(ctx, a, false); err != nil {
		t.Fatal(err)
	}
	const forks = 30
	for i := range forks {
		if _, err := c.Fork(ctx, ForkRequest{Revision: "main", Name: fmt.Sprintf("f%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	_, m := mustMount(t, c, MountRequest{All: true})
	sh(t, `cd "$1"; test "$(ls | wc -l)" = 31; ls -la > /dev/null; stat * > /dev/null; find . -maxdepth 1 -ls > /dev/null`, m)
	if n := liveOnes(d); n != 0 {
		t.Errorf("%d workspaces are open to be listed", n)
	}
	sh(t, `cd "$1"; for i in *; do ! test -e $i/new; done; cat */d/f | uniq -c | grep -q "31 one"; for i in *; do echo $i > $i/d/name; done; cat f*/d/name | sort -u | wc -l | grep -q 30`, m)
	if n := liveOnes(d); n != forks+1 {
		t.Errorf("%d workspaces are open, %d were written to", n, forks+1)
	}
	user := newShell(t)
	user.run("cd " + m + "/f7/d")
	used := 1
	if os.Getuid() == 0 {
		// Whoever has another view of the mounts counts if he is in it, and not for the name of his directory.
		inside, named := shellApart(t, m), shellApart(t, m)
		inside.run("cd " + m + "/f5/d")
		named.run("mkdir -p " + t.TempDir() + "/f3/x && cd $_")
		if got := named.run("/bin/pwd"); !strings.HasSuffix(got, "/f3/x") {
			t.Fatalf("%q", got)
		}
		used = 2
	}
	soon(t, "closing what nobody is in", func() bool { return liveOnes(d) == used })
	// The kernel has nothing of them that could be wrong by now.
	b := mountFor(t, c, "f3")
	sh(t, `echo other > "$1/new"; rm "$1/d/f"; cd "$2"; test "$(cat f3/new)" = other; ! test -e f3/d/f; test "$(ls f3 | wc -l)" = 2`, b, m)
	if got := user.run("/bin/pwd; cat name"); got != m+"/f7/d\nf7" {
		t.Errorf("%q", got)
	}
	_, err := c.Drop(ctx, DropRequest{Workspace: "f7", Force: true})
	wantExit(t, err, ExitFailed, "in use")
	_, err = c.Drop(ctx, DropRequest{Workspace: "f3", Force: true})
	wantExit(t, err, ExitFailed, "mounted on")
	user.run("cd ..")
	_, err = c.Drop(ctx, DropRequest{Workspace: "f7", Force: true})
	wantExit(t, err, ExitFailed, "in use")
	user.run("cd /")
	if _, err := c.Drop(ctx, DropRequest{Workspace: "f7", Force: true}); err != nil {
		t.Error(err)
	}
	sh(t, `cd "$1"; ! test -e f7; test "$(ls | wc -l)" = 30`, m)
}

// Trees come and go under readers, writers and forks, and nobody waits for ever.
func TestViewsUnderLoad(t *testing.T) {
	needFUSE(t)
	ctx := context.Background()
	d, c := serve(t, newStore(t), Options{})
	d.liveIdle, d.pastIdle = time.Millisecond, time.Millisecond
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	one := mountFor(t, c, "main")
	_, all := mustMount(t, c, MountRequest{All: true})
	sh(t, `cd "$1"; mkdir d; for i in $(seq 50); do echo $i > d/f$i; done`, one)
	done := make(chan string)
	lines := []string{
		`while :; do cat .wsfs/at/[0-9]*/d/f1 .wsfs/at/20/d/f1 .wsfs/at/0s/d/f1; ls -l .wsfs/at/30/d; done`,
		`while :; do grep -r 1 .wsfs/blame; cat .wsfs/log .wsfs/status .wsfs/commands; done`,
		`for i in $(seq 100000); do echo $i > d/f$((i % 50)); mv d/f1 d/g; mv d/g d/f1; rm d/f2; done`,
		`for i in $(seq 100000); do echo fork w$i > .wsfs/ctl; echo tag --force t > .wsfs/ctl; done`,
		`cd "$2"; while :; do for w in *; do cat $w/d/f3 $w/.wsfs/at/25/d/f4; echo x > $w/d/x; done; done`,
		`cd "$2"; while :; do find . -maxdepth 3 -name f5; sleep 0.01; done`,
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for _, line := range lines {
		go func() {
			cmd := exec.CommandContext(ctx, "bash", "-c", `cd "$1"; `+line, "sh", one, all)
			cmd.WaitDelay = 30 * time.Second
			if err := cmd.Run(); err != nil && ctx.Err() == nil {
				done <- line + ": " + err.Error()
				return
			}
			done <- ""
		}()
	}
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("w%d", 1+i%20)
		if _, err := c.Drop(ctx, DropRequest{Workspace: name, Force: true}); err == nil && i%2 == 0 {
			_, _ = c.Undrop(ctx, UndropRequest{Workspace: name}) // somebody may have made another one
		}
		time.Sleep(5 * time.Millisecond)
	}
	for range lines {
		select {
		case msg := <-done:
			if msg != "" {
				t.Error(msg)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("somebody waits for ever")
		}
	}
	ok := sh(t, `cat "$1/d/f4" "$1/.wsfs/at/10/d/f1"`, one)
	if !strings.HasSuffix(ok, "1\n") {
		t.Errorf("%q", ok)
	}
	mount := d.mounts[one].m
	soon(t, "closing everything", func() bool { return len(mount.Open()) == 0 && len(pins(t, d, store.PinMount)) == 0 })
}
