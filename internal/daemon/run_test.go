package daemon

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// TestCommandRuns registers this very process: what it changes is one command, which runs until it says that it has
// ended, and whose row says how.
func TestCommandRuns(t *testing.T) {
	ctx := context.Background()
	dir := newStore(t)
	d, c := serve(t, dir, Options{Store: dir, Driver: sqlite.Driver()})
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	wantExit(t, c.RegisterCommand(ctx, CommandRequest{Workspace: "none", Session: "s"}), ExitFailed, "none")
	wantExit(t, c.RegisterCommand(ctx, CommandRequest{Workspace: "main"}), ExitUsage, "a name of 1 to 255")
	if _, err := c.EndCommand(ctx, EndRequest{}); err == nil || !strings.Contains(err.Error(), "not registered") {
		t.Errorf("the end of what never began: %v", err)
	}
	req := CommandRequest{Workspace: "main", Session: "s", Meta: `{"k":"v"}`, Argv: [][]byte{[]byte("make"), []byte("a\xff")}, Cwd: "/x"}
	if err := c.RegisterCommand(ctx, req); err != nil {
		t.Fatal(err)
	}
	// It has changed nothing so far: its end would leave no trace.
	before := d.st.Last()
	if res, err := c.EndCommand(ctx, EndRequest{Exit: 1}); err != nil || len(res.Commands) != 0 || d.st.Last() != before {
		t.Errorf("the end of a command that did nothing: %+v, %v, %d ops", res, err, d.st.Last()-before)
	}
	if err := c.RegisterCommand(ctx, req); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateWorkspace(ctx, "other"); err != nil { // in which it is a command then
		t.Fatal(err)
	}
	d.runs.mu.Lock()
	reg := d.runs.commands[os.Getpid()].reg
	d.runs.mu.Unlock()
	rows := reg.Commands()
	if len(rows) != 1 || rows[0].Argv != "make\x00a\xff" || rows[0].Cwd != "/x" {
		t.Fatalf("its rows: %+v", rows)
	}
	id := rows[0].ID
	if !d.running(id) || d.running(id+1) {
		t.Errorf("running: %v, and another one %v", d.running(id), d.running(id+1))
	}
	res, err := c.EndCommand(ctx, EndRequest{Exit: 137, Signal: 9})
	if err != nil || len(res.Commands) != 1 || res.Commands[0] != (EndedCommand{int64(id), "other"}) {
		t.Errorf("its end: %+v, %v", res, err)
	}
	if d.running(id) {
		t.Error("it runs after its end")
	}
	if _, err := c.Sync(ctx, SyncRequest{}); err != nil {
		t.Fatal(err)
	}
	row, err := d.st.CommandByID(ctx, id)
	if err != nil || row.State != store.CommandKilled || row.Exit != 137 || row.EndedAt == 0 {
		t.Errorf("its row: %+v, %v", row, err)
	}
	if s, err := d.st.SessionByID(ctx, row.Session); err != nil || s.Name != "s" || s.Meta != `{"k":"v"}` || s.Home == 0 {
		t.Errorf("its session: %+v, %v; want one at home in another workspace", s, err)
	}
}

// TestOnEnd: the end of a process is heard once, also of one that nobody waits for.
func TestOnEnd(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var heard sync.WaitGroup
	heard.Add(3)
	for range 3 {
		if err := onEnd(cmd.Process.Pid, heard.Done); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(20 * time.Millisecond)
	_ = cmd.Process.Kill()
	heard.Wait() // it is a zombie still
	_ = cmd.Wait()
	if err := onEnd(cmd.Process.Pid, func() {}); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("of a process that is gone: %v", err)
	}
}

// TestRunMounts: mounts of runs are shared, lie in a private directory, and do not keep a workspace from being dropped
// once they are idle.
func TestRunMounts(t *testing.T) {
	needFUSE(t)
	ctx := context.Background()
	dir := newStore(t)
	runtime := filepath.Join(t.TempDir(), "run")
	d, c := serve(t, dir, Options{Store: dir, Driver: sqlite.Driver(), RuntimeDir: runtime})
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	var points []string
	for range 2 {
		m, err := c.RunMount(ctx, RunMountRequest{Workspace: "main"})
		if err != nil || m.PID != os.Getpid() {
			t.Fatalf("%+v, %v", m, err)
		}
		points = append(points, string(m.Mountpoint))
	}
	if points[0] != points[1] || filepath.Dir(points[0]) != runtime || !mountedAt(t, points[0]) {
		t.Fatalf("mounted on %q", points)
	}
	if st, err := os.Stat(runtime); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the mounts: %v, %v", st, err)
	}
	_, err := c.Drop(ctx, DropRequest{Workspace: "main", Force: true})
	wantExit(t, err, ExitFailed, "a program that `wsfs run` started works in it")
	ws, err := d.st.Workspace(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	d.runs.mounting.Lock()
	m := d.runs.mounts[ws.ID]
	d.dropUser(ws.ID, m)
	d.dropUser(ws.ID, m)
	d.runs.mounting.Unlock()
	if _, err := c.Drop(ctx, DropRequest{Workspace: "main", Force: true}); err != nil {
		t.Fatal(err)
	}
	if mountedAt(t, points[0]) {
		t.Error("it is mounted still")
	}
	if names, err := os.ReadDir(runtime); err != nil || len(names) != 0 {
		t.Errorf("left in the directory: %v, %v", names, err)
	}
	// Not where somebody else could look in.
	if err := os.Chmod(runtime, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateWorkspace(ctx, "next"); err != nil {
		t.Fatal(err)
	}
	_, err = c.RunMount(ctx, RunMountRequest{Workspace: "next"})
	wantExit(t, err, ExitFailed, "not a directory that only we may use")
}
