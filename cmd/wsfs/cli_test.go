package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wsfs/internal/daemon"
)

// cli is the program with an environment of its own. It never mounts: that is for scripts with real processes.
type cli struct {
	t   *testing.T
	env map[string]string
}

func newCLI(t *testing.T) *cli {
	return &cli{t, map[string]string{"WSFS_STORE": filepath.Join(t.TempDir(), "store")}}
}

// run returns what a command printed, and its exit code.
func (c *cli) run(args ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	file := func() *os.File {
		f, err := os.CreateTemp(c.t.TempDir(), "out")
		if err != nil {
			c.t.Fatal(err)
		}
		return f
	}
	read := func(f *os.File) string {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			c.t.Fatal(err)
		}
		_ = f.Close()
		return string(b)
	}
	out, errOut := file(), file()
	a := &app{in: os.Stdin, stdout: out, stderr: errOut, getenv: func(k string) string { return c.env[k] }}
	code = a.run(context.Background(), args)
	return code, read(out), read(errOut)
}

func (c *cli) want(code int, part string, args ...string) string {
	c.t.Helper()
	got, out, errOut := c.run(args...)
	if got != code || !strings.Contains(out+errOut, part) {
		c.t.Errorf("wsfs %q: exit %d, %s%s; want %d and %q", args, got, out, errOut, code, part)
	}
	return out
}

func (c *cli) file(path, content string) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func TestCommands(t *testing.T) {
	c := newCLI(t)
	src := t.TempDir()
	c.file(src+"/dir/f", "one\n")
	c.file(src+"/odd\n\xff", "")
	c.want(1, "`wsfs init` makes one", "workspaces")
	c.want(0, "made store", "init")
	c.want(3, "there is one already", "init")
	c.want(1, "inside the store", "init", "--store", c.env["WSFS_STORE"]+"/sub")
	c.want(1, "has no workspace yet", "log")
	c.want(0, "3 added", "import", src, "main")
	c.want(3, "equal to it already", "import", src, "main")
	c.want(2, "begin with '-'", "import", src, "--", "-x")
	c.want(1, "no such directory", "import", src+"/nope", "x")
	c.file(src+"/dir/f", "one\ntwo\n")
	c.want(0, "1 changed", "import", src, "main")
	c.want(0, "one\ntwo\n", "cat", "main:dir/f")
	c.want(0, "one\n", "cat", "main@2:dir/f")
	c.want(1, "did you mean", "cat", "mian:dir/f")
	c.want(1, "newest change is", "cat", "main@999:dir/f")
	c.want(2, "unknown unit", "cat", "main@5x:dir/f")
	c.want(1, "is a directory", "cat", "main:dir")
	c.want(1, "no such file", "cat", "main:nope")
	c.want(2, "WS@REV:PATH", "cat", "./nowhere")
	c.want(0, "dir\n$'odd\\n\\xff'\n", "ls", "main:")
	c.want(0, "-rw-r--r--", "ls", "-l", "main@2:dir")
	c.want(0, "@2 created dir/f +4 B", "log")
	c.want(0, "@3 written dir/f +4 B", "log", "main:dir/f", "-n", "1")
	c.want(2, "invalid argument", "log", "-n", "x")
	c.want(1, "no change ever touched", "log", "main:never")
	c.want(0, "restored", "restore", "-w", "main", "dir/f", "--from", "2")
	c.want(3, "as it was then", "restore", "-w", "main", "dir/f", "--from", "2")
	c.want(2, "--from is missing", "restore", "-w", "main", "dir/f")
	c.want(0, "one\n", "cat", "main:dir/f")
	c.want(0, "synced", "sync")
	c.want(0, "none is running", "status")
	c.want(3, "nothing is mounted there", "umount", src)
	c.want(3, "has no mounts", "umount", "--all")
	c.want(2, "one mountpoint", "umount")
	c.want(2, "unknown command \"lgo\", did you mean gc or log or ls?", "lgo")
	c.want(2, "unknown flag", "log", "--nope")
	c.want(2, "no past", "mount", "main@5m", src, "--create")
	c.want(2, "is not known", "mount", "main", src, "-o", "foo")
	c.want(0, ".TH \"WSFS\"", "man")
	c.want(0, "bash completion", "completion", "bash")
	c.want(0, "Exit codes", "help")
	c.want(0, "wsfs ", "--version")
}

// Every line of every --json output is one object, with nothing lost of names that are not UTF-8.
func TestJSONOutput(t *testing.T) {
	c := newCLI(t)
	src := t.TempDir()
	c.file(src+"/odd\n\xff", "x")
	c.want(0, "", "init")
	c.want(0, "", "import", src, "main")
	for _, args := range [][]string{
		{"workspaces", "--json"}, {"log", "--json"}, {"ls", "--json", "main:"}, {"status", "--json"}, {"sync", "--json"},
		{"doctor", "--json"}, {"import", "--json", src, "main"},
	} {
		code, out, errOut := c.run(args...)
		if code > 1 || out == "" {
			t.Errorf("%q: exit %d, %q %s", args, code, out, errOut)
		}
		for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
			var v map[string]any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Errorf("%q: %v in %q", args, err, line)
			}
		}
		if (args[0] == "log" || args[0] == "ls") && !strings.Contains(out, `_base64":"b2RkCv8="`) {
			t.Errorf("%q does not carry the name's bytes: %s", args, out)
		}
	}
}

func TestWhere(t *testing.T) {
	c := newCLI(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", dir+"/loop"); err != nil {
		t.Fatal(err)
	}
	a := &app{getenv: func(k string) string { return c.env[k] }}
	for in, want := range map[string]string{
		dir + "/link/link/x/../y": dir + "/y", dir + "/nope/a": dir + "/nope/a", "/": "/", dir + "/loop": dir + "/loop",
	} {
		if got, err := a.realPath(nil, in); err != nil || got != want {
			t.Errorf("realPath(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	// A mountpoint of ours is not touched, not even if it looks like a link.
	mounts := []daemon.MountInfo{{Root: "/", Point: dir + "/link", Type: "fuse.wsfs", Source: "wsfs:main:/store"}}
	if got, err := a.realPath(mounts, dir+"/link/x"); err != nil || got != dir+"/link/x" {
		t.Errorf("realPath through a mount = %q, %v", got, err)
	}
	for _, bad := range []string{"a\x00b", strings.Repeat("x", 5000)} {
		if _, err := a.realPath(nil, bad); daemon.ExitCode(err) != daemon.ExitUsage {
			t.Errorf("realPath(%.10q...): %v", bad, err)
		}
	}
	for _, env := range []struct{ store, xdg, home, want string }{
		{"/s", "/x", "/h", "/s"}, {"", "/x", "/h", "/x/wsfs"}, {"", "rel", "/h", "/h/.local/share/wsfs"}, {"", "", "", ""},
	} {
		c.env = map[string]string{"WSFS_STORE": env.store, "XDG_DATA_HOME": env.xdg, "HOME": env.home}
		if got, err := a.defaultStore(); got != env.want || (err != nil) != (env.want == "") {
			t.Errorf("defaultStore %+v = %q, %v", env, got, err)
		}
	}
	a.storeFlag = dir + "/link/other"
	if w, err := a.here(); err != nil || w.store != dir+"/other" {
		t.Errorf("--store through a link: %+v, %v", w, err)
	}
}

func TestMountOptions(t *testing.T) {
	var req daemon.MountRequest
	if err := mountOptions(&req, []string{"allow_other", "ro", "suid", "noexec", "nonempty", "noatime", "nodiratime", "relatime"}); err != nil {
		t.Fatal(err)
	}
	if !req.AllowOther || !req.ReadOnly || !req.Suid || !req.NoExec || !req.NonEmpty || req.Dev {
		t.Errorf("%+v", req)
	}
	if err := mountOptions(&daemon.MountRequest{Transport: "pigeon"}, nil); daemon.ExitCode(err) != daemon.ExitUsage {
		t.Error(err)
	}
}

// A mount that its owner takes away after the mounts were listed, as a `wsfs run` that ends does, is no failure of `umount --all`.
func TestUmountAllMeetsAnEnd(t *testing.T) {
	c := newCLI(t)
	dir := t.TempDir()
	a := &app{getenv: func(k string) string { return c.env[k] }} // nothing is printed: there is no place for it
	ended := daemon.MountInfo{ID: 1 << 30, Root: "/", Point: dir + "/gone", Type: "fuse.wsfs", Source: "wsfs:main:" + dir}
	if err := a.umountAll(t.Context(), dir, []daemon.MountInfo{ended}, false); err != nil {
		t.Errorf("umount --all of what is gone: %v", err)
	}
}
