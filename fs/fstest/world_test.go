package fstest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// world is a store of its own with its daemon and its mounts; everything is gone at the end of the test, and the store
// has passed `wsfs check`.
type world struct {
	t      testing.TB
	base   string // holds everything below
	store  string
	mounts []string
	wild   bool // the test damages the store: no check at the end
}

// newWorld makes an empty store. Without /dev/fuse or fusermount3 the test is skipped with the reason.
func newWorld(t testing.TB) *world {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("FUSE is not to be had here: %v", err)
	}
	if _, err := exec.LookPath("fusermount3"); err != nil && os.Geteuid() != 0 {
		t.Skipf("a mount by an ordinary user takes fusermount3: %v", err)
	}
	return newWorldIn(t, "")
}

// newWorldIn is newWorld with its store below dir; "" is where temporary files belong.
func newWorldIn(t testing.TB, dir string) *world {
	t.Helper()
	base, err := os.MkdirTemp(dir, "wsfs-world")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, base: base, store: filepath.Join(base, "store")}
	t.Cleanup(w.end)
	w.wsfs("init")
	return w
}

// newMount makes a store with one empty workspace and mounts it.
func newMount(t testing.TB, args ...string) (*world, string) {
	t.Helper()
	w := newWorld(t)
	w.workspace("main")
	return w, w.mount("main", args...)
}

func (w *world) env() []string {
	env := []string{"WSFS_STORE=" + w.store}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "WSFS_") {
			env = append(env, kv)
		}
	}
	return env
}

// try runs the program and returns what it printed and its exit code.
func (w *world) try(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, *opt.wsfs, args...)
	cmd.Env = w.env()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// A daemon that is started must not keep our pipes open for ever.
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		w.t.Errorf("wsfs %s did not end: %v", strings.Join(args, " "), ctx.Err())
		return out.String(), errs.String(), -1
	case errors.As(err, &exit):
		return out.String(), errs.String(), exit.ExitCode()
	case err != nil:
		w.t.Fatalf("wsfs %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errs.String(), 0
}

// wsfs runs the program, which has to succeed.
func (w *world) wsfs(args ...string) string {
	w.t.Helper()
	out, errs, code := w.try(args...)
	if code != 0 {
		w.t.Fatalf("wsfs %s: exit %d\n%s%s%s", strings.Join(args, " "), code, out, errs, w.logTail())
	}
	return out
}

// workspace makes an empty workspace.
func (w *world) workspace(name string) {
	w.t.Helper()
	dir := filepath.Join(w.base, "empty")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.wsfs("import", dir, name)
}

// mount mounts a workspace on a directory of its own; as root other users can use it, too.
func (w *world) mount(ws string, args ...string) string {
	w.t.Helper()
	dir := filepath.Join(w.base, fmt.Sprintf("mnt-%s-%d", ws, len(w.mounts)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.remount(ws, dir, args...)
	return dir
}

func (w *world) remount(ws, dir string, args ...string) {
	w.t.Helper()
	all := []string{"mount", ws, dir}
	if os.Geteuid() == 0 {
		all = append(all, "-o", "allow_other")
	}
	w.wsfs(append(all, args...)...)
	for _, m := range w.mounts {
		if m == dir {
			return
		}
	}
	w.mounts = append(w.mounts, dir)
}

// pid is the daemon's process, 0 if there is none.
func (w *world) pid() int {
	b, err := os.ReadFile(filepath.Join(w.store, "lock"))
	if err != nil {
		return 0
	}
	var who struct{ PID int }
	if json.Unmarshal(b, &who) != nil || who.PID == 0 {
		return 0
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", who.PID))
	if err != nil || strings.TrimSuffix(exe, " (deleted)") != *opt.wsfs {
		return 0 // ended; the number may be somebody else's by now
	}
	return who.PID
}

// kill ends the daemon with SIGKILL and waits until it is gone.
func (w *world) kill() {
	pid := w.pid()
	if pid == 0 {
		return
	}
	if parent := keeperOf(pid); parent != 0 {
		_ = unix.Kill(parent, unix.SIGKILL) // or it would start another one, and the mounts went on
	}
	w.killDaemon(pid)
}

// keeperOf is the process that starts the daemon again when it dies, 0 if there is none.
func keeperOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	parent, err := strconv.Atoi(strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[1])
	if err != nil {
		return 0
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", parent)); err != nil || !bytes.Contains(line, []byte("\x00keeper\x00")) {
		return 0
	}
	return parent
}

// killDaemon kills one process with SIGKILL and waits until it is gone.
func (w *world) killDaemon(pid int) {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		w.t.Logf("kill the daemon: %v", err)
	}
	for range 2000 {
		if unix.Kill(pid, 0) != nil {
			return
		}
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(b), ") Z ") {
			return // a zombie waits for its parent, which may be anybody
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Errorf("the daemon %d outlives SIGKILL", pid)
}

// stop ends all mounts and waits until the daemon is gone, too.
func (w *world) stop() {
	w.t.Helper()
	w.wsfs("umount", "--all")
	if !waitFor(time.Minute, func() bool { return w.pid() == 0 }) {
		w.t.Errorf("the daemon stays after its last mount is gone%s", w.logTail())
		w.kill()
	}
}

func (w *world) end() {
	if w.t.Failed() {
		w.t.Logf("%s", w.logTail())
	}
	for _, dir := range w.mounts {
		if connection(dir) == "" {
			continue
		}
		if _, errs, code := w.try("umount", dir); code != 0 {
			w.t.Errorf("wsfs umount %s: exit %d %s", dir, code, errs)
		}
		tear(dir)
	}
	if pid := w.pid(); pid != 0 {
		_ = unix.Kill(pid, unix.SIGTERM)
		if !waitFor(time.Minute, func() bool { return w.pid() == 0 }) {
			w.t.Errorf("the daemon %d ignores SIGTERM", pid)
			w.dump()
			w.kill()
		}
	}
	if !w.wild {
		if out, errs, code := w.try("check"); code != 0 {
			w.t.Errorf("wsfs check: exit %d\n%s%s", code, out, errs)
		}
	}
	if w.t.Failed() && os.Getenv("KEEP") != "" {
		w.t.Logf("kept %s", w.base)
		return
	}
	if err := os.RemoveAll(w.base); err != nil {
		w.t.Logf("clean up: %v", err)
	}
}

// dump makes the daemon write the stacks of its goroutines to its log and shows them.
func (w *world) dump() {
	if pid := w.pid(); pid != 0 {
		_ = unix.Kill(pid, unix.SIGQUIT)
		waitFor(30*time.Second, func() bool { return w.pid() == 0 })
	}
	w.t.Logf("%s", w.logTail())
}

// logTail is the end of the daemon's log.
func (w *world) logTail() string {
	b, err := os.ReadFile(filepath.Join(w.store, "daemon.log"))
	if err != nil || len(b) == 0 {
		return "\n(no daemon.log)"
	}
	// The ordinary life of a daemon is nothing to read here.
	var keep []string
	for _, line := range strings.Split(string(b), "\n") {
		if !strings.Contains(line, `"level":"INFO"`) && !strings.Contains(line, "clear a mount whose daemon died") {
			keep = append(keep, line)
		}
	}
	text := strings.Join(keep, "\n")
	if len(text) > 20_000 {
		text = text[len(text)-20_000:]
	}
	return "\ndaemon.log, without INFO, ends with:\n" + text
}

func waitFor(d time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	return cond()
}

// connection is the kernel's number of the FUSE connection mounted on dir, "" if nothing is. It does not touch dir.
func connection(dir string) string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) > 4 && f[4] == dir {
			_, minor, _ := strings.Cut(f[2], ":")
			return minor
		}
	}
	return ""
}

// tear takes a mount away whatever its daemon does: abort the connection, then detach.
func tear(dir string) {
	minor := connection(dir)
	if minor == "" {
		return
	}
	_ = os.WriteFile("/sys/fs/fuse/connections/"+minor+"/abort", []byte("1"), 0)
	if os.Geteuid() == 0 {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		return
	}
	_ = exec.Command("fusermount3", "-uz", dir).Run()
}
