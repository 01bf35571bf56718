package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
)

func mustMount(t *testing.T, c *Client, req MountRequest) (Mount, string) {
	t.Helper()
	point := t.TempDir()
	req.Mountpoint = Path(point)
	m, err := c.Mount(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return m, point
}

func pins(t *testing.T, d *Daemon, kind string) []store.Pin {
	t.Helper()
	if err := d.st.Apply(context.Background(), d.st.Last()); err != nil {
		t.Fatal(err)
	}
	list, err := d.st.Pins(context.Background(), kind)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// writer is a process that holds a file open and dirty. It writes its last line when it is told to go on.
func writer(t *testing.T, path string) (goOn func()) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", `exec 5> "$1"; echo unsaved >&5; echo ready; read x; echo later >&5`, "sh", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		_, _ = io.WriteString(in, "\n") // Wait tells if it is gone
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// all is the whole tree below a directory: names, modes, times and contents.
func all(t *testing.T, dir string) string {
	t.Helper()
	return sh(t, `cd "$1"; find . -printf '%p %M %s %T@ %i\n' | sort; find . -type f | sort | xargs cat`, dir)
}

// Past states are mounted beside each other and beside the present, and stay what they are.
func TestPinnedMounts(t *testing.T) {
	needFUSE(t)
	ctx := context.Background()
	dir := newStore(t)
	d, c := serve(t, dir, Options{})
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	live := mountFor(t, c, "main")
	sh(t, `cd "$1"; echo one > f; mkdir d; echo deep > d/deep`, live)
	old, first := mustMount(t, c, MountRequest{Workspace: "main", Revision: "main@0s"})
	firstTree := all(t, first)
	sh(t, `cd "$1"; echo two > f; rm -r d`, live)
	goOn := writer(t, live+"/open")
	_, second := mustMount(t, c, MountRequest{Workspace: "main", Revision: "main"})
	if got := sh(t, `cat "$1/open"`, second); got != "unsaved\n" {
		t.Errorf("what was dirty is %q in the pinned state", got)
	}
	goOn()
	_, again := mustMount(t, c, MountRequest{Workspace: "main", Revision: fmt.Sprintf("main@%d", old.Seq), ReadOnly: true})

	if old.Seq == 0 || !old.ReadOnly || old.Label() != fmt.Sprintf("main@%d", old.Seq) {
		t.Errorf("mount: %+v", old)
	}
	mounts, err := Mounts()
	if err != nil {
		t.Fatal(err)
	}
	if m := MountAt(mounts, first); m == nil || m.Source != "wsfs:"+old.Label()+":"+dir || m.Workspace() != "main" ||
		m.Store() != dir || m.Seq() != fmt.Sprint(old.Seq) {
		t.Errorf("mount table: %+v", m)
	}
	sh(t, `for op in "touch f" "rm f" "mkdir x" "mv f g" "chmod 600 f" "ln f g" "ln -s f g" "truncate -s 0 f"; do
		if (cd "$1"; $op) 2> /dev/null; then echo "$op works in the past"; exit 1; fi; done`, first)
	if list := pins(t, d, store.PinMount); len(list) != 3 {
		t.Errorf("pins: %v", list)
	}
	// A file and a directory stay open in the past while the present goes on; neither the tree nor the log of the
	// database notices.
	reader := exec.Command("sh", "-ec", `cd "$1/d"; exec 5< deep; echo ready; read x; cat <&5; ls`, "sh", first)
	in, err := reader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	reader.Stdout = &out
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	sh(t, `cd "$1"; for i in $(seq 200); do echo $i > f; echo $i > n$i; done; rm n1*`, live)
	if _, err := c.Sync(ctx, SyncRequest{Durable: true}); err != nil {
		t.Fatal(err)
	}
	checkpoints(t, dir)
	_, _ = io.WriteString(in, "\n") // Wait tells if it is gone
	if err := reader.Wait(); err != nil || out.String() != "ready\ndeep\ndeep\n" {
		t.Errorf("a reader of the past: %q, %v", out.String(), err)
	}
	for _, point := range []string{first, again} {
		if got := all(t, point); got != firstTree {
			t.Errorf("the past has changed:\n%s\nwas\n%s", got, firstTree)
		}
	}
	if got := sh(t, `cat "$1/f" "$1/open"; ls "$1" | wc -l`, second); got != "two\nunsaved\n2\n" {
		t.Errorf("the second state is %q", got)
	}
	if got := sh(t, `cat "$1/open"`, live); got != "unsaved\nlater\n" {
		t.Errorf("the present has %q", got)
	}
	// What is shown is not dropped, and its pin goes with the mount.
	if _, err := c.Unmount(ctx, live, false); err != nil {
		t.Fatal(err)
	}
	_, err = c.Drop(ctx, DropRequest{Workspace: "main", Force: true})
	wantExit(t, err, ExitFailed, "mounted on")
	if _, err := c.Unmount(ctx, again, false); err != nil {
		t.Fatal(err)
	}
	if list := pins(t, d, store.PinMount); len(list) != 2 {
		t.Errorf("pins: %v", list)
	}
	for part, req := range map[string]MountRequest{
		"no revision of workspace": {Workspace: "main", Revision: "other@2"},
		"newest change":            {Workspace: "main", Revision: "main@99999"},
		"nothing follows":          {Workspace: "main", Revision: "main@"},
	} {
		req.Mountpoint = Path(t.TempDir())
		if _, err := c.Mount(ctx, req); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("mount %s: %v, want %q", req.Revision, err, part)
		}
	}
	// A mount that fails leaves no pin.
	if _, err := c.Mount(ctx, MountRequest{Workspace: "main", Revision: "main", Mountpoint: Path(t.TempDir() + "/nope")}); err == nil {
		t.Error("mounted on nothing")
	}
	if list := pins(t, d, store.PinMount); len(list) != 2 {
		t.Errorf("pins: %v", list)
	}
}

// checkpoints fails if somebody's transaction keeps the database's log from being folded in.
func checkpoints(t *testing.T, dir string) {
	t.Helper()
	drv := sqlite.Driver()
	db, err := drv.Open(context.Background(), dir, store.ModeWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Reader.Close()
	defer db.Writer.Close()
	if left, err := drv.Checkpoint(context.Background(), db.Writer, 10*time.Second); err != nil || left != 0 {
		t.Errorf("checkpoint beside pinned mounts: %d bytes are left, %v", left, err)
	}
}

// A fork for one mount is dropped with it.
func TestTemporaryFork(t *testing.T) {
	needFUSE(t)
	ctx := context.Background()
	d, c := serve(t, newStore(t), Options{})
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	live := mountFor(t, c, "main")
	sh(t, `echo one > "$1/f"`, live)
	goOn := writer(t, live+"/open")
	m, point := mustMount(t, c, MountRequest{Workspace: "main", Temporary: true})
	goOn()
	if !m.Temporary || !strings.HasPrefix(m.Workspace, "main.tmp-") || m.ReadOnly || m.Seq != 0 {
		t.Errorf("mount: %+v", m)
	}
	if got := sh(t, `cd "$1"; cat open; echo two > f; rm open; mkdir d; ls`, point); got != "unsaved\nd\nf\n" {
		t.Errorf("the fork: %q", got)
	}
	if got := sh(t, `cat "$1/f"`, live); got != "one\n" {
		t.Errorf("the fork shows through: %q", got)
	}
	if list := pins(t, d, store.PinTemporary); len(list) != 1 {
		t.Errorf("pins: %v", list)
	}
	// It can be mounted twice, and forked to keep it.
	_, other := mustMount(t, c, MountRequest{Workspace: m.Workspace})
	_, err := c.Drop(ctx, DropRequest{Workspace: m.Workspace, Force: true})
	wantExit(t, err, ExitFailed, "mounted on")
	mustFork(t, c, m.Workspace, "kept")
	for i, p := range []string{point, other} {
		if _, err := c.Unmount(ctx, p, false); err != nil {
			t.Fatal(err)
		}
		_, err := d.workspace(ctx, m.Workspace)
		if gone := err != nil; gone != (i == 1) {
			t.Errorf("after %d unmounts: %v", i+1, err)
		}
	}
	if list := pins(t, d, store.PinTemporary); len(list) != 0 {
		t.Errorf("pins: %v", list)
	}
	_, kept := mustMount(t, c, MountRequest{Workspace: "kept"})
	if got := sh(t, `cat "$1/f"; ls "$1"`, kept); got != "two\nd\nf\n" {
		t.Errorf("kept: %q", got)
	}
	// Of the past; never written; and what was dropped can be brought back, and is nothing special then.
	_, past := mustMount(t, c, MountRequest{Workspace: "main", Revision: "main@2", Temporary: true})
	if got := sh(t, `ls "$1"`, past); got != "f\n" {
		t.Errorf("of the past: %q", got)
	}
	if _, err := c.Unmount(ctx, past, false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Undrop(ctx, UndropRequest{Workspace: m.Workspace, As: "back"}); err != nil {
		t.Fatal(err)
	}
	_, back := mustMount(t, c, MountRequest{Workspace: "back"})
	if got := sh(t, `cat "$1/f"`, back); got != "two\n" {
		t.Errorf("brought back: %q", got)
	}
	if _, err := c.Unmount(ctx, back, false); err != nil {
		t.Fatal(err)
	}
	if _, err := d.workspace(ctx, "back"); err != nil {
		t.Error(err)
	}
}

// What a killed daemon's mounts kept is let go by the next one.
func TestMarksAfterKill(t *testing.T) {
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
	mustMount(t, c, MountRequest{Workspace: "main", Revision: "main@0s"})
	m, point := mustMount(t, c, MountRequest{Workspace: "main", Temporary: true})
	sh(t, `echo tmp > "$1/f"`, point)
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil { // only then is the lock free
		t.Fatal(err)
	}
	d, c := serve(t, dir, Options{})
	if list := append(pins(t, d, store.PinMount), pins(t, d, store.PinTemporary)...); len(list) != 0 {
		t.Errorf("pins: %v", list)
	}
	if _, err := d.workspace(ctx, m.Workspace); err == nil {
		t.Error("the temporary fork is still there")
	}
	if _, err := c.Undrop(ctx, UndropRequest{Workspace: m.Workspace}); err != nil {
		t.Error(err)
	}
}
