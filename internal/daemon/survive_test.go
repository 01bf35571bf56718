package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wsfs/internal/keep"
)

const (
	keeperEnv = "WSFS_TEST_KEEPER"
	keptEnv   = "WSFS_TEST_KEPT"
)

// keeper is the keeper of a store in a process of its own, as `wsfs keeper` is, of daemons that are children of tests.
func keeper(dir string) int {
	for k, v := range map[string]string{keeperEnv: "", childEnv: dir, keptEnv: "1"} {
		if err := os.Setenv(k, v); err != nil {
			return 1
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	tries := 1000
	if s := os.Getenv("WSFS_TEST_TRIES"); s != "" {
		_, _ = fmt.Sscan(s, &tries)
	}
	return keep.Run(keep.Options{
		Exe: "/proc/self/exe", Ready: os.NewFile(ReadyFD, "starter"), Tries: tries, Every: time.Hour, Pause: time.Millisecond,
		Log: func(level slog.Level, msg string, args ...any) { log.Log(context.Background(), level, msg, args...) },
	})
}

// dieFile in the store names the opcode before whose answer, or the fault point at which, the daemon dies, once.
func dieFile(dir string) string { return filepath.Join(dir, "die") }

func dieBefore(dir string) func(string) {
	return func(op string) {
		b, err := os.ReadFile(dieFile(dir))
		if err != nil || string(b) != op || os.Remove(dieFile(dir)) != nil {
			return
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// kept is a store with a keeper, a daemon and one mount.
type kept struct {
	t     *testing.T
	dir   string
	point string
}

func newKeptMount(t *testing.T) *kept {
	t.Helper()
	needFUSE(t)
	if !canResend() {
		t.Skip("the kernel cannot send requests again: Linux 6.9 is needed")
	}
	ctx := context.Background()
	k := &kept{t: t, dir: newStore(t), point: t.TempDir()}
	t.Setenv(keeperEnv, k.dir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Spawn(ctx, k.dir, exe); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("umount", "-l", k.point).Run() // of a test that failed
		if t.Failed() {
			b, _ := os.ReadFile(LogFile(k.dir))
			t.Logf("daemon.log: %s", b[max(0, len(b)-8000):])
		}
	})
	c := k.client()
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Mount(ctx, MountRequest{Workspace: "main", Mountpoint: Path(k.point)}); err != nil {
		t.Fatal(err)
	}
	return k
}

// canResend: Linux 6.9 and newer.
func canResend() bool {
	var u syscall.Utsname
	if syscall.Uname(&u) != nil {
		return false
	}
	var release strings.Builder
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		release.WriteByte(byte(c))
	}
	var major, minor int
	_, err := fmt.Sscanf(release.String(), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 9)
}

// client waits for a daemon that answers.
func (k *kept) client() *Client {
	k.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if c, err := Dial(k.dir); err == nil && c != nil {
			return c
		}
	}
	k.t.Fatal("no daemon answers")
	return nil
}

func (k *kept) status() Status {
	k.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if st, err := k.client().Status(context.Background()); err == nil {
			return st
		}
	}
	k.t.Fatal("the daemon tells no status")
	return Status{}
}

// end unmounts and waits until keeper and daemon are gone.
func (k *kept) end() {
	k.t.Helper()
	if _, err := k.client().Unmount(context.Background(), "", false); err != nil {
		k.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Lstat(SocketPath(k.dir)); err != nil {
			return
		}
	}
	k.t.Error("the daemon does not end after its last mount")
}

// TestDieBeforeReply kills the daemon when it has done a request and not answered it. The program that asked must not
// notice: it is done once, and the answer is that of the first time.
func TestDieBeforeReply(t *testing.T) {
	k := newKeptMount(t)
	const py = `python3 -c 'import os, sys, fcntl
os.chdir(sys.argv[1])
%s' "$1"`
	for _, c := range []struct{ op, script string }{
		{"mkdir", `mkdir "$1/d"; test -d "$1/d"`},
		{"rmdir", `rmdir "$1/d"; test ! -e "$1/d"`},
		{"mknod", `mkfifo "$1/p"; test -p "$1/p"`},
		{"symlink", `ln -s target "$1/l"; test "$(readlink "$1/l")" = target`},
		{"create", fmt.Sprintf(py, `fd = os.open("x", os.O_CREAT|os.O_EXCL|os.O_RDWR, 0o640); os.write(fd, b"once"); os.close(fd); assert open("x").read() == "once"`)},
		{"create", fmt.Sprintf(py, `fd = os.open("y", os.O_CREAT|os.O_RDWR); os.unlink("y"); os.write(fd, b"gone"); assert os.pread(fd, 9, 0) == b"gone"`)},
		{"tmpfile", fmt.Sprintf(py, `fd = os.open(".", os.O_TMPFILE|os.O_RDWR, 0o600); os.write(fd, b"t"); os.link("/proc/self/fd/%d" % fd, "t", src_dir_fd=0, follow_symlinks=True); assert open("t").read() == "t"`)},
		{"link", fmt.Sprintf(py, `fd = os.open(".", os.O_TMPFILE|os.O_RDWR, 0o600); os.write(fd, b"u"); os.link("/proc/self/fd/%d" % fd, "u", src_dir_fd=0, follow_symlinks=True); assert open("u").read() == "u"`)},
		{"link", `ln "$1/x" "$1/x2"; test "$(stat -c %h "$1/x")" = 2`},
		{"unlink", `rm "$1/x2"; test ! -e "$1/x2"; test "$(stat -c %h "$1/x")" = 1`},
		{"unlink", fmt.Sprintf(py, `fd = os.open("z", os.O_CREAT|os.O_EXCL|os.O_RDWR); os.write(fd, b"kept"); os.unlink("z"); assert os.pread(fd, 9, 0) == b"kept"; os.ftruncate(fd, 2); assert os.fstat(fd).st_nlink == 0 and os.pread(fd, 9, 0) == b"ke"`)},
		{"unlink", fmt.Sprintf(py, `open("tmp", "x").write("short"); os.unlink("tmp"); assert not os.path.exists("tmp")`)},
		{"unlink", fmt.Sprintf(py, `os.symlink("nowhere", "sl"); os.unlink("sl"); assert not os.path.lexists("sl")`)},
		{"rename", fmt.Sprintf(py, `open("save.tmp", "x").write("saved"); os.rename("save.tmp", "save"); assert open("save").read() == "saved"`)},
		{"rename2", `mv "$1/x" "$1/x3"; test ! -e "$1/x"; test "$(cat "$1/x3")" = once`},
		{"setattr", `chmod 601 "$1/x3"; test "$(stat -c %a "$1/x3")" = 601`},
		{"setattr", fmt.Sprintf(py, `fd = os.open("f", os.O_CREAT|os.O_RDWR); os.write(fd, b"123456"); os.ftruncate(fd, 3); os.fchmod(fd, 0o600); os.close(fd); assert open("f").read() == "123" and os.stat("f").st_mode & 0o777 == 0o600`)},
		{"setxattr", fmt.Sprintf(py, `os.setxattr("x3", "user.a", b"v", os.XATTR_CREATE); assert os.getxattr("x3", "user.a") == b"v"`)},
		{"removexattr", fmt.Sprintf(py, `os.removexattr("x3", "user.a"); assert os.listxattr("x3") == []`)},
		{"write", fmt.Sprintf(py, `
fd = os.open("a", os.O_CREAT|os.O_APPEND|os.O_RDWR)
for i in range(5): os.write(fd, b"%d\n" % i)
os.close(fd)
assert open("a").read() == "0\n1\n2\n3\n4\n", open("a").read()`)},
		{"write", fmt.Sprintf(py, `
b = os.urandom(1<<20); fd = os.open("big", os.O_CREAT|os.O_RDWR)
for i in range(3): os.write(fd, b)
os.close(fd)
assert open("big", "rb").read() == b * 3`)},
		{"open", `echo more >> "$1/a"; test "$(tail -n 1 "$1/a")" = more`},
		{"open", `echo new > "$1/a"; test "$(cat "$1/a")" = new`},
		{"flush", `echo flushed > "$1/b"; test "$(cat "$1/b")" = flushed`},
		{"release", `echo released > "$1/b"; test "$(cat "$1/b")" = released`},
		{"fsync", fmt.Sprintf(py, `fd = os.open("s", os.O_CREAT|os.O_WRONLY); os.write(fd, b"synced"); os.fsync(fd); os.write(fd, b" twice"); os.close(fd); assert open("s").read() == "synced twice"`)},
		{"fallocate", fmt.Sprintf(py, `fd = os.open("r", os.O_CREAT|os.O_WRONLY); os.posix_fallocate(fd, 0, 5000); os.close(fd); assert os.stat("r").st_size == 5000`)},
		{"opendir", `test "$(ls "$1" | wc -l)" -gt 5`},
		{"setlk", fmt.Sprintf(py, `
fd = os.open("lk", os.O_CREAT|os.O_RDWR); fcntl.flock(fd, fcntl.LOCK_EX|fcntl.LOCK_NB); fcntl.lockf(fd, fcntl.LOCK_EX|fcntl.LOCK_NB)
if os.fork() == 0:
    other = os.open("lk", os.O_RDWR)
    for take in fcntl.flock, fcntl.lockf:
        try: take(other, fcntl.LOCK_EX|fcntl.LOCK_NB); os._exit(1)
        except BlockingIOError: pass
    os._exit(0)
assert os.wait()[1] == 0`)},
		{"read", `test "$(cat "$1/b")" = released`},
	} {
		before := k.status().PID
		if err := os.WriteFile(dieFile(k.dir), []byte(c.op), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		out, err := exec.CommandContext(ctx, "sh", "-ec", c.script, "sh", k.point).CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%s: %s: %v\n%s", c.op, c.script, err, out)
		}
		if os.Remove(dieFile(k.dir)) == nil && c.op != "read" { // which the kernel may have in its cache
			t.Errorf("%s: %s: the daemon did not die", c.op, c.script)
		} else if after := k.status().PID; after == before && c.op != "read" {
			t.Errorf("%s: the daemon is still %d", c.op, before)
		}
		if t.Failed() {
			break
		}
	}
	k.end()
}

// TestKeeperGivesUp: a daemon that dies again and again leaves no mount that hangs.
func TestKeeperGivesUp(t *testing.T) {
	t.Setenv("WSFS_TEST_TRIES", "2")
	k := newKeptMount(t)
	sh(t, `echo x > "$1/f"`, k.point)
	for range 3 {
		pid := k.status().PID
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
	}
	out := sh(t, `cat "$1/f" 2>&1 || true`, k.point)
	if !strings.Contains(out, "not connected") {
		t.Errorf("after the last try: %q", out)
	}
	log, err := os.ReadFile(LogFile(k.dir))
	if err != nil || !strings.Contains(string(log), "wsfs mount") {
		t.Errorf("the log does not say what to do: %v\n%s", err, log)
	}
	sh(t, `umount "$1"`, k.point)
}

// TestReplace: another program takes the place of the daemon; a program that cannot changes nothing.
func TestReplace(t *testing.T) {
	k := newKeptMount(t)
	user := newShell(t)
	if got := user.run(fmt.Sprintf(`exec 5> %s/f; echo one >&5; echo $$ > /dev/null; echo ok`, k.point)); got != "ok" {
		t.Fatalf("%q", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := k.status().PID
	pid, err := k.client().Replace(ctx, exe)
	if err != nil || pid == before {
		t.Fatalf("replaced %d by %d: %v", before, pid, err)
	}
	if got := user.run(fmt.Sprintf(`echo two >&5; cat %s/f`, k.point)); got != "one\ntwo" {
		t.Errorf("%q", got)
	}
	if _, err := k.client().Replace(ctx, LogFile(k.dir)); err == nil {
		t.Error("a file that is no program was taken for one")
	}
	if pid, err = k.client().Replace(ctx, "/bin/false"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); got != exe {
		t.Errorf("the daemon is %s", got)
	}
	if got := user.run(fmt.Sprintf(`echo three >&5; exec 5>&-; cat %s/f`, k.point)); got != "one\ntwo\nthree" {
		t.Errorf("%q", got)
	}
	k.end()
}
