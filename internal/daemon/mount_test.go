package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"wsfs/internal/keep"
	"wsfs/store/sqlite"
)

// A daemon must not touch its own mounts, and neither must a test that is one: whatever looks into a mount is a child.

const childEnv = "WSFS_TEST_DAEMON"

func TestMain(m *testing.M) {
	if dir := os.Getenv(keeperEnv); dir != "" {
		os.Exit(keeper(dir))
	}
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child is a daemon in a process of its own, as `wsfs daemon --started` is.
func child(dir string) int {
	pipe := os.NewFile(ReadyFD, "starter")
	o := Options{Store: dir, Driver: sqlite.Driver(), Serve: true, AutoExit: true, Version: "child"}
	var err error
	if os.Getenv(keptEnv) != "" {
		o.beforeReply, o.crashPoint = dieBefore(dir), dieBefore(dir)
		o.Keeper, err = keep.Attach(keep.FD)
	}
	var d *Daemon
	if err == nil {
		d, err = Open(context.Background(), o)
	}
	if err == nil {
		err = d.Listen(context.Background())
	}
	Report(pipe, err)
	if err != nil {
		return ExitCode(err)
	}
	<-d.Done()
	return ExitCode(d.Close())
}

func needFUSE(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no real mounts here: ", err)
	}
	_ = f.Close()
}

// sh runs a script in a child and returns what it printed.
func sh(t *testing.T, script string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", append([]string{"-ec", script, "sh"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func mountFor(t *testing.T, c *Client, workspace string) string {
	t.Helper()
	point := t.TempDir()
	if _, err := c.Mount(context.Background(), MountRequest{Workspace: workspace, Mountpoint: Path(point)}); err != nil {
		t.Fatal(err)
	}
	return point
}

func mountedAt(t *testing.T, point string) bool {
	t.Helper()
	mounts, err := Mounts()
	if err != nil {
		t.Fatal(err)
	}
	return MountAt(mounts, point) != nil
}

// TestMountAfterUmount mounts again in the moment after umount(8), which the server has not noticed yet.
func TestMountAfterUmount(t *testing.T) {
	needFUSE(t)
	ctx := context.Background()
	_, c := serve(t, newStore(t), Options{})
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	point := mountFor(t, c, "main")
	for i := range 30 {
		sh(t, `echo $2 > "$1/f" && fusermount3 -u "$1"`, point, strconv.Itoa(i))
		if _, err := c.Mount(ctx, MountRequest{Workspace: "main", Mountpoint: Path(point)}); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		sh(t, `test "$(cat "$1/f")" = $2`, point, strconv.Itoa(i))
	}
}

func TestMountUnmount(t *testing.T) {
	needFUSE(t)
	ctx := context.Background()
	dir := newStore(t)
	d, c := serve(t, dir, Options{AutoExit: true})
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	a, b := mountFor(t, c, "main"), mountFor(t, c, "main")
	sh(t, `echo hello > "$1/f"; test "$(cat "$2/f")" = hello`, a, b)
	_, err := c.Mount(ctx, MountRequest{Workspace: "main", Mountpoint: Path(a)})
	wantExit(t, err, ExitFailed, "is mounted there")
	_, err = c.Mount(ctx, MountRequest{Workspace: "main", Mountpoint: Path(a + "/sub")})
	wantExit(t, err, ExitFailed, "inside the mount")
	_, err = c.Import(ctx, ImportRequest{Workspace: "x", Dir: Path(a)}, func(ImportLine) {})
	wantExit(t, err, ExitFailed, "versioned there already")
	var saved []savedMount
	if raw, err := os.ReadFile(mountsFile(dir)); err != nil || json.Unmarshal(raw, &saved) != nil || len(saved) != 2 {
		t.Errorf("saved mounts: %+v, %v", saved, err)
	}
	list, err := c.Mounts(ctx)
	if err != nil || len(list) != 2 || list[0].Workspace != "main" {
		t.Errorf("mounts: %+v, %v", list, err)
	}
	if _, err := c.Unmount(ctx, a, false); err != nil || mountedAt(t, a) {
		t.Errorf("unmount: %v", err)
	}
	if st, err := c.Status(ctx); err != nil || st.Ending {
		t.Errorf("one mount is left, but: %+v, %v", st, err)
	}
	// Taken away behind the daemon's back.
	sh(t, `umount "$1"`, b)
	select {
	case <-d.Done():
	case <-time.After(time.Minute):
		t.Error("the daemon goes on without mounts")
	}
	_, err = c.Mount(ctx, MountRequest{Workspace: "main", Mountpoint: Path(a)})
	wantExit(t, err, ExitFailed, "ending")
}

func TestUnmountBusy(t *testing.T) {
	needFUSE(t)
	ctx := context.Background()
	_, c := serve(t, newStore(t), Options{})
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	point := mountFor(t, c, "main")
	user := exec.Command("sh", "-c", `cd "$1" && echo in && exec sleep 600`, "sh", point)
	out, err := user.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := user.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = user.Process.Kill()
		_ = user.Wait()
	})
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	_, err = c.Unmount(ctx, point, false)
	wantExit(t, err, ExitFailed, "busy")
	if !mountedAt(t, point) {
		t.Error("a refused unmount took the mount away")
	}
	if _, err := c.Unmount(ctx, point, true); err != nil || mountedAt(t, point) {
		t.Errorf("lazy unmount: %v", err)
	}
	// The cleanup ends the daemon while the user is still there: it must not wait for it.
}

func TestSpawnKillAgain(t *testing.T) {
	needFUSE(t)
	ctx := context.Background()
	dir := newStore(t)
	t.Setenv(childEnv, dir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := Spawn(ctx, dir, exe)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(dir)
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	// A second one is refused, and says by whom.
	if _, err := Spawn(ctx, dir, exe); err == nil || !strings.Contains(err.Error(), fmt.Sprint(pid)) {
		t.Errorf("a second daemon: %v", err)
	}
	point := mountFor(t, c, "main")
	sh(t, `for i in 1 2 3 4 5; do echo $i > "$1/f$i"; done`, point)
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	for {
		if c, err := Dial(dir); c == nil && err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !mountedAt(t, point) {
		t.Error("the dead mount is not in the mount table")
	}
	stale, err := StaleMounts(dir)
	if err != nil || len(stale) != 1 || stale[0].Point != point || stale[0].Workspace() != "main" {
		t.Errorf("stale mounts: %+v, %v", stale, err)
	}
	if pid, err = Spawn(ctx, dir, exe); err != nil {
		t.Fatal(err)
	}
	if mountedAt(t, point) {
		t.Error("the dead mount was not cleared")
	}
	c, err = Dial(dir)
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	if _, err := c.Mount(ctx, MountRequest{Workspace: "main", Mountpoint: Path(point)}); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, `cat "$1"/f?`, point); got != "1\n2\n3\n4\n5\n" {
		t.Errorf("after the kill: %q", got)
	}
	if _, err := c.Unmount(ctx, "", false); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if _, err := os.Lstat(filepath.Join(dir, socketName)); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("daemon %d does not end after its last mount", pid)
}

// What a started daemon has to say reaches its starter, with the exit code.
func TestSpawnFails(t *testing.T) {
	dir := t.TempDir() // no store
	t.Setenv(childEnv, dir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Spawn(context.Background(), dir, exe); err == nil || ExitCode(err) != ExitFailed {
		t.Errorf("a daemon without a store: %v", err)
	}
	if _, err := Spawn(context.Background(), dir, "/bin/true"); err == nil || !strings.Contains(err.Error(), "without a word") {
		t.Errorf("a daemon that says nothing: %v", err)
	}
}
