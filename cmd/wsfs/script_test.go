package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScript runs testdata/script: the commands as a person types them, on real mounts. Each script has a directory and
// a store of its own ($WSFS_STORE). At its end everything is unmounted and the store passes `wsfs check`, unless the
// script says `wild`. Besides testscript's own commands there are:
//
//	code N CMD...     CMD ends with exit code N
//	lines FILE N      FILE (or stdout) has N lines
//	flip FILE OFFSET  one byte becomes another; an offset below 0 counts from the end
//	cut FILE SIZE     the file is truncated
//	kill9             the store's daemon dies
//	nodaemon          wait until the store has no daemon
//	mounted DIR       something is mounted there; with ! nothing is
//	wild              the script damages the store: no check at the end
func TestScript(t *testing.T) {
	bin := buildForScripts(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("..", "..", "testdata", "script"),
		Setup: func(env *testscript.Env) error {
			s := &scriptStore{env: env, store: filepath.Join(env.WorkDir, "store"), bin: filepath.Join(bin, "wsfs")}
			env.Setenv("WSFS_STORE", s.store)
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			env.Setenv("TZ", "UTC")
			scripts, err := filepath.Abs(filepath.Join("..", "..", "scripts"))
			if err != nil {
				return err
			}
			env.Setenv("SCRIPTS", scripts)
			env.Values["store"] = s
			env.Defer(s.end)
			return os.MkdirAll(filepath.Join(env.WorkDir, "home"), 0o755)
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "fuse":
				_, err := os.Stat("/dev/fuse")
				return err == nil, nil
			case "root":
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":     scriptCode,
			"lines":    scriptLines,
			"flip":     scriptFlip,
			"cut":      scriptCut,
			"kill9":    scriptKill,
			"nodaemon": scriptNoDaemon,
			"mounted":  scriptMounted,
			"wild":     func(ts *testscript.TestScript, _ bool, _ []string) { scriptOf(ts).wild = true },
		},
	})
}

// buildForScripts builds the program: a daemon is started from its own file, so the test binary cannot stand in.
func buildForScripts(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wsfs-script-bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "wsfs"), ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// scriptStore is the store of one script.
type scriptStore struct {
	env        *testscript.Env
	store, bin string
	wild       bool
}

func scriptOf(ts *testscript.TestScript) *scriptStore { return ts.Value("store").(*scriptStore) }

// pid is the daemon's process, 0 if there is none.
func (s *scriptStore) pid() int {
	b, err := os.ReadFile(filepath.Join(s.store, "lock"))
	if err != nil {
		return 0
	}
	var who struct{ PID int }
	if json.Unmarshal(b, &who) != nil || who.PID == 0 {
		return 0
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", who.PID))
	if err != nil || exe != s.bin {
		return 0
	}
	return who.PID
}

// mounts below the script's directory, innermost first.
func (s *scriptStore) mounts() []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var all []string
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], s.env.WorkDir+"/") {
			all = append([]string{f[4]}, all...)
		}
	}
	return all
}

func (s *scriptStore) run(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.bin, args...)
	cmd.Env = append(os.Environ(), "WSFS_STORE="+s.store, "HOME="+s.env.WorkDir)
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

func (s *scriptStore) end() {
	t := s.env.T()
	var bad []string
	for _, m := range s.mounts() {
		var out []byte
		var err error
		// What a run leaves behind uses its mount for a moment more, and then the mount goes by itself.
		if !until(func() bool {
			if !slices.Contains(s.mounts(), m) {
				return true
			}
			out, err = s.run("umount", m)
			return err == nil
		}) {
			bad = append(bad, fmt.Sprintf("wsfs umount %s: %v %s", m, err, out))
			_ = exec.Command("umount", "-l", m).Run()
		}
	}
	if pid := s.pid(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		if !until(func() bool { return s.pid() == 0 }) {
			bad = append(bad, "the daemon ignores SIGTERM")
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if _, err := os.Stat(s.store); err == nil && !s.wild {
		if out, err := s.run("check"); err != nil {
			bad = append(bad, fmt.Sprintf("wsfs check: %v\n%s", err, out))
		}
	}
	if len(bad) > 0 {
		log, _ := os.ReadFile(filepath.Join(s.store, "daemon.log"))
		t.Fatal(strings.Join(bad, "\n") + "\n" + string(log))
	}
}

// until waits for at most 20 s.
func until(cond func() bool) bool {
	for range 4000 {
		if cond() {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N CMD ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func scriptLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines FILE N")
	}
	text := ts.ReadFile(args[0])
	if got := strconv.Itoa(strings.Count(text, "\n")); got != args[1] {
		ts.Fatalf("%s has %s lines, want %s:\n%s", args[0], got, args[1], text)
	}
}

func scriptFlip(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	off, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	ts.Check(err)
	defer f.Close()
	if off < 0 {
		st, err := f.Stat()
		ts.Check(err)
		off += st.Size()
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, off)
	ts.Check(err)
	b[0] ^= 0xff
	_, err = f.WriteAt(b, off)
	ts.Check(err)
}

func scriptCut(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

func scriptKill(ts *testscript.TestScript, _ bool, _ []string) {
	s := scriptOf(ts)
	pid := s.pid()
	if pid == 0 {
		ts.Fatalf("the store has no daemon")
	}
	killKeeper(pid)
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
	if !until(func() bool { return s.pid() == 0 }) {
		ts.Fatalf("the daemon %d outlives SIGKILL", pid)
	}
}

// killKeeper kills whoever would start the daemon again, so that its mounts die with it.
func killKeeper(daemon int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", daemon))
	if err != nil {
		return
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", parent)); err == nil && bytes.Contains(line, []byte("\x00"+keeperName+"\x00")) {
		_ = syscall.Kill(parent, syscall.SIGKILL)
	}
}

func scriptNoDaemon(ts *testscript.TestScript, neg bool, _ []string) {
	s := scriptOf(ts)
	if neg {
		if s.pid() == 0 {
			ts.Fatalf("the store has no daemon")
		}
		return
	}
	if !until(func() bool { return s.pid() == 0 }) {
		ts.Fatalf("the daemon %d stays", s.pid())
	}
}

func scriptMounted(ts *testscript.TestScript, neg bool, args []string) {
	want := ts.MkAbs(args[0])
	for _, m := range scriptOf(ts).mounts() {
		if m == want {
			if neg {
				ts.Fatalf("something is mounted on %s", want)
			}
			return
		}
	}
	if !neg {
		ts.Fatalf("nothing is mounted on %s", want)
	}
}
