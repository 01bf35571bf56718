package fstest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"

	"wsfs/fs/fstest"
)

// posixArea is go-fuse's own suite, run as one more area.
const posixArea = "posixtest"

// TestDir runs the suite on the directory of -dir. The other tests start it in a process of its own.
func TestDir(t *testing.T) {
	if *opt.dir == "" {
		t.Skipf("no -dir: this test is for trying a directory by hand and for children of the others")
	}
	areas := append(fstest.Areas(), posixArea)
	if *opt.areas != "" {
		areas = strings.Split(*opt.areas, ",")
	}
	if slices.Contains(areas, posixArea) {
		t.Run(posixArea, func(t *testing.T) { runPosixtest(t, *opt.dir, *opt.plain) })
		areas = slices.DeleteFunc(slices.Clone(areas), func(a string) bool { return a == posixArea })
	}
	if len(areas) > 0 {
		o := fstest.Options{Areas: areas, BigDir: bigDir()}
		fstest.Run(t, *opt.dir, o)
	}
}

// bigDir is the size of large directories: a run by hand with -dir does the full 100,000.
func bigDir() int {
	switch {
	case raced:
		return 5_000
	case *opt.fork:
		return 20_000
	}
	return 100_000
}

func runPosixtest(t *testing.T, dir string, plain bool) {
	for _, name := range sortedKeys(posixtest.All) {
		t.Run(name, func(t *testing.T) {
			switch {
			case name == "FcntlFlockLocksFile":
				t.Skipf("it wants two F_SETLK locks of one process to conflict; fcntl(2) says they do not, and on ext4 they do not")
			case name == "OpenSymlinkRace" && plain:
				t.Skipf("it wants the directory to be on another device than /etc")
			}
			sub, err := os.MkdirTemp(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(sub)
			posixtest.All[name](t, sub)
		})
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// TestPosixtestPlain asks of go-fuse's suite, too, whether it is right.
func TestPosixtestPlain(t *testing.T) {
	runPosixtest(t, t.TempDir(), true)
}

// TestMount runs every area on a real mount, each in a child process with a deadline: one that hangs costs that area a
// failure, and the next one gets a mount that works.
func TestMount(t *testing.T) {
	w, dir := newMount(t)
	for _, area := range append(fstest.Areas(), posixArea) {
		t.Run(area, func(t *testing.T) {
			if out, err := child(3*time.Minute, "-test.run=^TestDir$", "-dir="+dir, "-areas="+area); err != nil {
				t.Errorf("area %s: %v\n%s", area, err, parseVerbose(out).failures())
				if errors.Is(err, context.DeadlineExceeded) {
					w.dump()
				}
			} else if skips := parseVerbose(out).skips(); skips != "" {
				t.Log(skips)
			}
			if !alive(dir) {
				t.Errorf("the mount is dead after area %s%s", area, w.logTail())
				w.kill()
				tear(dir)
				w.remount("main", dir)
			}
		})
	}
}

// TestMountAll runs what has to do with names, handles and numbers in one of the workspaces of a mount of all: there the
// nodes of a workspace are those of another view.
func TestMountAll(t *testing.T) {
	w := newWorld(t)
	w.workspace("main")
	w.workspace("other")
	dir := filepath.Join(w.mount("--all"), "main")
	for _, area := range []string{"rename", "link", "unlinked", "stable", "users", posixArea} {
		t.Run(area, func(t *testing.T) {
			if out, err := child(3*time.Minute, "-test.run=^TestDir$", "-dir="+dir, "-areas="+area); err != nil {
				t.Errorf("area %s: %v\n%s%s", area, err, parseVerbose(out).failures(), w.logTail())
			}
		})
	}
}

// alive asks for the mount's root with a deadline.
func alive(dir string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return exec.CommandContext(ctx, "ls", "-A", dir).Run() == nil
}

// child runs this binary again and returns its output. It never waits longer than the deadline, whatever state the
// child's threads are in.
func child(deadline time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	return runChild(ctx, exec.CommandContext(ctx, "/proc/self/exe", childArgs(args)...))
}

func childArgs(args []string) []string {
	return append([]string{"-test.v", "-test.timeout=30m", "-fork", "-wsfs=" + *opt.wsfs}, args...)
}

func runChild(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it prints its stacks
	cmd.WaitDelay = 10 * time.Second                                         // then SIGKILL, and its pipes are closed
	err := cmd.Start()
	if err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
	case <-time.After(time.Until(deadlineOf(ctx)) + 30*time.Second):
		// Not even SIGKILL helped: a thread is stuck in the kernel. Its output is lost with it.
		return "(the child cannot be killed)", context.DeadlineExceeded
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out.String(), err
}

func deadlineOf(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}

// verbose is the output of a run with -test.v, taken apart.
type verbose struct {
	said  map[string][]string // what each test logged
	state map[string][]string // names of tests by PASS, FAIL and SKIP
	rest  []string            // what belongs to no test: panics, stacks
}

func parseVerbose(out string) verbose {
	v := verbose{map[string][]string{}, map[string][]string{}, nil}
	current := ""
	for _, line := range strings.Split(out, "\n") {
		trimmed := strings.TrimSpace(line)
		f := strings.Fields(trimmed)
		switch {
		case strings.HasPrefix(line, "=== ") && len(f) == 3:
			current = f[2]
		case strings.HasPrefix(trimmed, "--- ") && len(f) >= 3:
			state := strings.TrimSuffix(f[1], ":")
			v.state[state] = append(v.state[state], f[2])
			current = ""
		case current != "":
			v.said[current] = append(v.said[current], line)
		case trimmed != "" && trimmed != "PASS" && trimmed != "FAIL":
			v.rest = append(v.rest, line)
		}
	}
	return v
}

// failures is what a person needs of a run that failed: the failed tests with what they said, and what broke the run.
func (v verbose) failures() string {
	var b strings.Builder
	for _, name := range v.state["FAIL"] {
		if len(v.said[name]) > 0 {
			b.WriteString("--- FAIL: " + name + "\n" + strings.Join(v.said[name], "\n") + "\n")
		}
	}
	ended := map[string]bool{}
	for _, names := range v.state {
		for _, n := range names {
			ended[n] = true
		}
	}
	for _, name := range sortedKeys(v.said) {
		if !ended[name] {
			b.WriteString("--- did not end: " + name + "\n" + strings.Join(v.said[name], "\n") + "\n")
		}
	}
	b.WriteString(strings.Join(v.rest, "\n"))
	if s := b.String(); len(s) < 60_000 {
		return s
	}
	return b.String()[:60_000] + "\n(cut)"
}

// skips lists the tests that were skipped, with their reasons.
func (v verbose) skips() string {
	var b strings.Builder
	for _, name := range v.state["SKIP"] {
		b.WriteString("skipped " + name + ": " + strings.TrimSpace(strings.Join(v.said[name], " ")) + "\n")
	}
	return b.String()
}

// TestMountAsUser runs the tests of mounts as an ordinary user. A private device node makes that possible where
// /dev/fuse belongs to root alone.
func TestMountAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skipf("runs as root only: it makes a device node and becomes somebody else; TestMount has run as you")
	}
	if *opt.fork {
		t.Skipf("already the child of another run")
	}
	const uid = "65534"
	dir, err := os.MkdirTemp("", "wsfs-user")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "fstest.test")
	copyFile(t, "/proc/self/exe", self)
	script := `set -e
		mount --make-rprivate /
		mknod -m 666 "$1/fusedev" c 10 229
		mount --bind "$1/fusedev" /dev/fuse
		cd "$1"; shift
		exec setpriv --reuid=` + uid + ` --regid=` + uid + ` --clear-groups "$@"`
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	args := append([]string{"--mount", "bash", "-c", script, "bash", dir, self}, childArgs([]string{"-test.run=^(TestMount|TestUser.*)$"})...)
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	out, err := runChild(ctx, cmd)
	if err != nil {
		t.Errorf("as user %s: %v\n%s", uid, err, parseVerbose(out).failures())
	}
	if !strings.Contains(out, "--- PASS: TestMount") && err == nil {
		t.Errorf("as user %s nothing was tested:\n%s", uid, out)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}
