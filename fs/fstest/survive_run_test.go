package fstest_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestSurviveRun kills the daemon under a command of `wsfs run`, on a mount of its own: it goes on, stays one command, and
// what it ended with is noted. The mount is found again by the next run, and goes when nobody is in it.
func TestSurviveRun(t *testing.T) {
	mustSend(t)
	w := newWorld(t)
	w.workspace("main")
	place, stop := w.base+"/place", w.base+"/stop"
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", w.base)
	w.startKeeper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	run := func(script string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, *opt.wsfs, "run", "-w", "main", "--at", place, "--session", "s", "--", "bash", "-euc", script)
		cmd.Env, cmd.WaitDelay = w.env(), 10*time.Second
		return cmd
	}
	var out, errs bytes.Buffer
	long := run(`stopped=; exec 5>>log; echo 0 >&5; touch $0; for ((n = 1; n < 10 || ${#stopped} == 0; n++)); do
	echo $n >&5; echo $n > f.new; mv f.new f; test "$(cat f)" = $n; [ ! -e "$0.stop" ] || stopped=1; done; cmp log <(seq 0 $((n-1))); exit 7`)
	long.Args = append(long.Args, stop)
	long.Stdout, long.Stderr = &out, &errs
	if err := long.Start(); err != nil {
		t.Fatal(err)
	}
	if !waitFor(time.Minute, func() bool { _, err := os.Stat(stop); return err == nil }) {
		t.Error("the command does not begin")
	}
	w.wsfs("daemon", "--replace")
	w.killOften(max(*opt.kills/10, 2))
	if got, err := run("cat f; echo other > g").CombinedOutput(); err != nil {
		t.Errorf("another run: %v\n%s", err, got)
	}
	if n := len(w.runMounts()); n != 1 {
		t.Errorf("%d mounts for two runs of one workspace: %v", n, w.runMounts())
	}
	if err := os.WriteFile(stop+".stop", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := long.Wait(); long.ProcessState.ExitCode() != 7 {
		t.Errorf("the command: %v\n%s%s", err, out.String(), errs.String())
	}
	if !strings.Contains(errs.String(), "created 2 in main") {
		t.Errorf("it is told to have changed: %s", errs.String())
	}
	if list := w.wsfs("commands", "-w", "main"); strings.Count(list, "bash -euc") != 2 || !strings.Contains(list, "exit 7") {
		t.Errorf("the commands:\n%s", list)
	}
	// It waits for the next run for some seconds.
	if *opt.kills >= 50 && !waitFor(time.Minute, func() bool { return len(w.runMounts()) == 0 }) {
		t.Errorf("these mounts stay: %v", w.runMounts())
	}
}

// runMounts are the mounts of runs of this world.
func (w *world) runMounts() []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], w.base+"/wsfs/") {
			list = append(list, f[4])
		}
	}
	return list
}
