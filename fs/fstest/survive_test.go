package fstest_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startKeeper starts a keeper with its daemon that may die as often as the test wants.
func (w *world) startKeeper() {
	w.t.Helper()
	r, ready, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	log, err := os.OpenFile(w.store+"/daemon.log", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(*opt.wsfs, "keeper", w.store, "1000000")
	cmd.Env, cmd.Dir, cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = w.env(), "/", []*os.File{ready}, log, log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_, _, _ = w.try("umount", "--all") // then both end; of a test that failed, perhaps it cannot
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			w.t.Error("the keeper stays although its daemon has ended")
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	_ = ready.Close()
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || strings.Contains(line, "failed") {
		w.t.Fatalf("the daemon does not start: %s %v%s", line, err, w.logTail())
	}
}

// mustSend skips the test where requests cannot be sent again.
func mustSend(t *testing.T) {
	t.Helper()
	var u unix.Utsname
	var major, minor int
	if err := unix.Uname(&u); err == nil {
		_, _ = fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	}
	if major < 6 || major == 6 && minor < 9 {
		t.Skip("the kernel cannot send requests again: Linux 6.9 is needed")
	}
}

// surviving are programs that notice whatever goes wrong. They work until the file "stop" is in their directory's parent.
func surviving() map[string]string {
	const py = `python3 -c '
import os, sys, fcntl, random
stop = sys.argv[2]
os.chdir(sys.argv[1])
def going(n): return n < 3 or not os.path.exists(stop)
n = 0
%s' "$1" "$2"`
	programs := map[string]string{
		"append": `
fd = os.open("log", os.O_WRONLY|os.O_APPEND|os.O_CREAT)
while going(n):
    assert os.write(fd, b"%07d\n" % n) == 8
    n += 1
assert open("log", "rb").read() == b"".join(b"%07d\n" % i for i in range(n))`,
		"names": `
while going(n):
    os.mkdir("d"); os.rename("d", "e"); os.symlink("t", "s")
    fd = os.open("f", os.O_CREAT|os.O_EXCL|os.O_RDWR); os.write(fd, b"abc")
    os.link("f", "g"); os.unlink("f"); os.rename("g", "h")
    os.setxattr("h", "user.a", b"1", os.XATTR_CREATE); os.removexattr("h", "user.a")
    os.unlink("h"); assert os.pread(fd, 9, 0) == b"abc"; os.write(fd, b"d"); assert os.pread(fd, 9, 0) == b"abcd"; os.close(fd)
    os.unlink("s"); os.rmdir("e")
    assert os.listdir(".") == [], os.listdir(".")
    n += 1`,
		"blocks": `
fd = os.open("big", os.O_RDWR|os.O_CREAT); have = {}
while going(n):
    i, b = random.randrange(6), os.urandom(64) * 16384
    assert os.pwrite(fd, b, i << 20) == len(b)
    have[i] = b; n += 1
    if n %% 7 == 0: os.close(fd); fd = os.open("big", os.O_RDWR)
    j = random.choice(list(have)); assert os.pread(fd, 1 << 20, j << 20) == have[j]
os.close(fd)
fd = os.open("big", os.O_RDONLY)
for j in have: assert os.pread(fd, 1 << 20, j << 20) == have[j]`,
		"editor": `
while going(n):
    with open("t%%d~" %% n, "x") as f: f.write("%%d\n" %% n * 99)
    os.rename("t%%d~" %% n, "text"); assert open("text").read() == "%%d\n" %% n * 99
    n += 1`,
		"locks": `
a, b = os.open("l", os.O_RDWR|os.O_CREAT), os.open("l", os.O_RDWR)
while going(n):
    fcntl.flock(a, fcntl.LOCK_EX)
    try: fcntl.flock(b, fcntl.LOCK_EX|fcntl.LOCK_NB); assert False
    except BlockingIOError: pass
    fcntl.flock(a, fcntl.LOCK_UN); n += 1`,
		"listing": `
want = sorted("name%%d" %% i for i in range(1500))
for name in want: open(name, "x").close()
while going(n):
    got = []
    with os.scandir(".") as it:
        for e in it: got.append(e.name)
    assert sorted(got) == want, (len(got), len(set(got)))
    n += 1
d = os.open(".", os.O_RDONLY)`,
		"sqlite": `
import sqlite3
db = sqlite3.connect("db", timeout=60, isolation_level=None)
db.execute("PRAGMA journal_mode=WAL"); db.execute("CREATE TABLE t(n)")
while going(n):
    db.execute("BEGIN IMMEDIATE"); db.execute("INSERT INTO t VALUES(?)", (n,)); db.execute("COMMIT"); n += 1
assert [r[0] for r in db.execute("SELECT n FROM t ORDER BY n")] == list(range(n))
assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"`,
	}
	for name, text := range programs {
		programs[name] = fmt.Sprintf(py, strings.ReplaceAll(text, "%%", "%"))
	}
	programs["tail"] = `: > "$1/f"; tail -n +1 -f --pid=$$ "$1/f" > "$1/../tailed" & p=$!
n=0; while [ $n -lt 20 ] || [ ! -e "$2" ]; do echo $n >> "$1/f"; n=$((n+1)); sleep 0.01; done
i=0; until cmp -s "$1/f" "$1/../tailed"; do i=$((i+1)); [ $i -lt 600 ]; sleep 0.1; done; kill $p`
	programs["clone"] = `git init -q "$1/a"; cd "$1/a"; git config user.email a@b; git config user.name a
mkdir d; for i in $(seq 150); do echo $i > d/f$i; done; git add -A; git commit -qm one
n=0; while [ $n -lt 1 ] || [ ! -e "$2" ]; do git clone -q "$1/a" "$1/b$n"; git -C "$1/b$n" fsck --strict >/dev/null 2>&1; git -C "$1/b$n" diff --quiet; rm -rf "$1/b$n"; n=$((n+1)); done`
	return programs
}

// TestSurvive kills the daemon again and again under programs that go on and notice nothing.
func TestSurvive(t *testing.T) {
	mustSend(t)
	w := newWorld(t)
	w.workspace("main")
	w.startKeeper()
	w.survive(w.mount("main"), surviving())
}

// survive kills the daemon under programs that work in a directory, once the files ready are there.
func (w *world) survive(point string, programs map[string]string, ready ...string) {
	t := w.t
	stop := w.base + "/stop"
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for name, script := range programs {
		dir := point + "/" + name
		if out, err := exec.Command("mkdir", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		all.Go(func() {
			cmd := exec.CommandContext(ctx, "bash", "-euc", script, name, dir, stop)
			cmd.WaitDelay = 10 * time.Second
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%.3000s", name, err, out)
			}
		})
	}
	for _, name := range ready {
		if !waitFor(time.Minute, func() bool { _, err := os.Stat(name); return err == nil }) {
			t.Errorf("%s does not come", name)
		}
	}
	if len(ready) > 0 { // an upgrade is the same on purpose
		w.wsfs("daemon", "--replace")
	}
	w.killOften(max(*opt.kills/2, 3))
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}

// killOften kills the daemon again and again; each time another one has to come.
func (w *world) killOften(times int) {
	for range times {
		time.Sleep(time.Duration(rand.Int64N(int64(400 * time.Millisecond))))
		pid := w.pid()
		if pid == 0 || keeperOf(pid) == 0 {
			w.t.Errorf("there is no daemon")
			break
		}
		w.killDaemon(pid)
		if !waitFor(time.Minute, func() bool { p := w.pid(); return p != 0 && p != pid }) {
			w.t.Errorf("no daemon comes after %d", pid)
			break
		}
	}
}
