package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mountedStore is the built program with a store of its own and workspace main, imported from src and mounted on mnt.
// At the end everything is unmounted and the store passes `wsfs check`.
type mountedStore struct {
	t              *testing.T
	bin, src, mnt  string
	store, outside string // outside is a directory for what a test keeps
	env            []string
}

// newMountedStore makes the store; fill puts into src what is to be imported.
func newMountedStore(t *testing.T, fill func(s *mountedStore)) *mountedStore {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no /dev/fuse")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &mountedStore{t: t, bin: filepath.Join(buildForScripts(t), "wsfs"), src: dir + "/src", mnt: dir + "/m", store: dir + "/store", outside: dir + "/out"}
	for _, d := range []string{s.src, s.mnt, s.outside, dir + "/home"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.env = append(os.Environ(), "WSFS_STORE="+s.store, "HOME="+dir+"/home", "GIT_CONFIG_NOSYSTEM=1", "TZ=UTC", "LC_ALL=C",
		"PATH="+filepath.Dir(s.bin)+":"+os.Getenv("PATH"), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	fill(s)
	s.wsfs(0, "init")
	s.wsfs(0, "import", s.src, "main")
	s.wsfs(0, "mount", "main", s.mnt)
	t.Cleanup(s.end)
	return s
}

func (s *mountedStore) end() {
	s.wsfs(0, "umount", "--all")
	var who struct{ PID int }
	if b, err := os.ReadFile(s.store + "/lock"); err == nil && json.Unmarshal(b, &who) == nil && who.PID > 0 {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", who.PID)); err == nil && exe == s.bin {
			_ = syscall.Kill(who.PID, syscall.SIGTERM)
			until(func() bool { return syscall.Kill(who.PID, 0) != nil })
		}
	}
	s.wsfs(0, "check")
}

// command is a program to be run in dir with a deadline, in the session.
func (s *mountedStore) command(dir, session string, env []string, argv ...string) (int, string, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(append([]string{}, s.env...), env...)
	if session != "" {
		cmd.Env = append(cmd.Env, "WSFS_SESSION="+session)
	}
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		s.t.Fatalf("%q: %v", argv, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// wsfs runs the program outside of the mount, and wants an exit code.
func (s *mountedStore) wsfs(code int, args ...string) string {
	s.t.Helper()
	got, out, errOut := s.command(s.outside, "", nil, append([]string{s.bin}, args...)...)
	if got != code {
		s.t.Fatalf("wsfs %q: exit %d, want %d\n%s%s", args, got, code, out, errOut)
	}
	return out
}

// in runs a script by bash in a directory of the mount, as one command of a session: there is a process above it that
// has the session's name, as an agent has.
func (s *mountedStore) in(dir, session, script string, env ...string) string {
	s.t.Helper()
	code, out, errOut := s.command(filepath.Join(s.mnt, dir), session, env, "sh", "-c", `bash -euc "$0"; exit $?`, script)
	if code != 0 {
		s.t.Fatalf("in %s: %s: exit %d\n%s%s", dir, script, code, out, errOut)
	}
	return out
}

// objects parses NDJSON.
func objects[T any](t *testing.T, text string) []T {
	t.Helper()
	var list []T
	for line := range strings.Lines(text) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		list = append(list, v)
	}
	return list
}
