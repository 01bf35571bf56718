package fuse

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMountpointErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	full := filepath.Join(dir, "full")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.MkdirAll(filepath.Join(full, "x"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		point string
		want  error
		hint  string
	}{
		{filepath.Join(dir, "absent"), fs.ErrNotExist, "mkdir -p"},
		{file, syscall.ENOTDIR, "choose a directory"},
		{full, syscall.ENOTEMPTY, "hidden"},
	} {
		_, err := checkMountpoint(c.point, false)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("mount on %s: %v, want %v and %q", c.point, err, c.want, c.hint)
		}
	}
	if _, err := checkMountpoint(full, true); err != nil {
		t.Errorf("a directory with files, allowed: %v", err)
	}
	link := filepath.Join(dir, "link")
	empty := filepath.Join(dir, "empty")
	if err := errors.Join(os.Mkdir(empty, 0o755), os.Symlink("empty", link)); err != nil {
		t.Fatal(err)
	}
	if got, err := checkMountpoint(link, false); err != nil || got != empty {
		t.Errorf("through a symbolic link: %q, %v, want %q", got, err, empty)
	}
}

func TestDeviceErrors(t *testing.T) {
	o := Options{DevFuse: filepath.Join(t.TempDir(), "fuse")}.withDefaults()
	_, err := mountDirect(t.TempDir(), &o, "wsfs:x")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "modprobe fuse") {
		t.Errorf("without a device: %v", err)
	}
	o.Fusermount = filepath.Join(t.TempDir(), "fusermount3")
	_, err = mountHelper(context.Background(), t.TempDir(), &o, "wsfs:x")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "install the package fuse3") {
		t.Errorf("without fusermount3: %v", err)
	}
}

func TestAlreadyMounted(t *testing.T) {
	s := startServer(t, serveConfig{})
	_, err := checkMountpoint(s.point, false)
	if !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "already") {
		t.Errorf("mount on a mount: %v", err)
	}
	list, err := Mounts()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range list {
		found = found || m.Point == s.point && strings.HasPrefix(m.Source, "wsfs:")
	}
	if !found {
		t.Errorf("%s is not among the mounts %v", s.point, list)
	}
}

// A server that was killed leaves a dead mount: it is named as such, and cleared without being touched.
func TestDeadMount(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
			// The kernel takes back what a killed server had on its rings in the background; ECANCELED comes meanwhile.
			waitFor(t, func() bool {
				_, err := os.Stat(s.path("f"))
				if err == nil {
					t.Fatal("stat in a dead mount succeeded")
				}
				return errors.Is(err, syscall.ENOTCONN)
			})
			if _, err := checkMountpoint(s.point, false); err == nil || !strings.Contains(err.Error(), "unmount it first") {
				t.Errorf("mount on a dead mount: %v", err)
			}
			if err := UnmountPath(context.Background(), s.point, false); err != nil {
				t.Fatal(err)
			}
			if err := UnmountPath(context.Background(), s.point, false); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("unmount of nothing: %v", err)
			}
		})
	}
}

func TestUnmountBusyThenLazy(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			f, err := os.Open(s.path("f"))
			if err != nil {
				t.Fatal(err)
			}
			if got := s.do("unmount"); !strings.Contains(got, "busy") || !strings.Contains(got, "fuser") {
				t.Fatalf("unmount in use: %s", got)
			}
			if got := s.do("lazy"); got != "ok" {
				t.Fatalf("lazy unmount: %s", got)
			}
			if _, err := os.Stat(s.path("f")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after a lazy unmount: %v", err)
			}
			b := make([]byte, 16)
			if n, err := f.ReadAt(b, 0); n != 6 {
				t.Errorf("an open file after a lazy unmount: %d bytes, %v", n, err)
			}
			f.Close()
			if got := s.line(); !strings.HasPrefix(got, "ended") {
				t.Errorf("after the last close: %s", got)
			}
		})
	}
}

// Shutdown ends a mount that is in use, with requests in flight that wait for ever.
func TestShutdownCutsOff(t *testing.T) {
	for _, tr := range ours() {
		t.Run(string(tr), func(t *testing.T) {
			s := startServer(t, serveConfig{Options: Options{Transport: tr}})
			f, err := os.Open(s.path("f"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			blocked := make(chan error, 1)
			go func() {
				_, err := os.Open(s.path("block"))
				blocked <- err
			}()
			waitFor(t, func() bool { return s.waiting() > 0 })
			if got := s.do("shutdown"); !strings.HasPrefix(got, "ok") && !strings.HasPrefix(got, "ended") {
				t.Fatalf("shutdown: %s", got)
			}
			if err := <-blocked; err == nil {
				t.Error("a blocked open succeeded")
			}
			if _, ok, _ := mountAt(s.point); ok {
				t.Error("it is still mounted")
			}
		})
	}
}

// An aborted connection, by us or by the administrator, ends the server and leaves no dead mount.
func TestAbort(t *testing.T) {
	for _, how := range []string{"abort", "sysfs"} {
		for _, tr := range transports() {
			t.Run(string(tr)+"/"+how, func(t *testing.T) {
				s := startServer(t, serveConfig{Options: Options{Transport: tr}})
				f, err := os.Open(s.path("f"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				e, _, err := mountAt(s.point)
				if err != nil {
					t.Fatal(err)
				}
				if how == "abort" {
					if got := s.do("abort"); !strings.HasPrefix(got, "ok") && !strings.HasPrefix(got, "ended <nil>") {
						t.Fatalf("abort: %s", got)
					}
				} else if err := abortConnection(e.Minor); err != nil {
					t.Skip("fusectl is not mounted here:", err)
				} else if got := s.line(); !strings.HasPrefix(got, "ended <nil>") {
					t.Fatalf("the server: %s", got)
				}
				if _, ok, _ := mountAt(s.point); ok {
					t.Error("a dead mount is left")
				}
			})
		}
	}
}

func TestOptionsReachTheKernel(t *testing.T) {
	s := startServer(t, serveConfig{Options: Options{ReadOnly: true, NoExec: true, AllowOther: true, Name: "a,b"}})
	e, ok, err := mountAt(s.point)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for _, want := range []string{"ro", "nosuid", "nodev", "noexec"} {
		if !contains(e.Options, want) {
			t.Errorf("mount options %q lack %s", e.Options, want)
		}
	}
	for _, want := range []string{"allow_other", "default_permissions", "user_id=0"} {
		if !contains(e.Super, want) {
			t.Errorf("super block options %q lack %s", e.Super, want)
		}
	}
	if e.Source != "wsfs:a,b" || e.Type != "fuse.wsfs" {
		t.Errorf("it is shown as %q of type %q", e.Source, e.Type)
	}
	if err := os.WriteFile(s.path("new"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("create on a read-only mount: %v", err)
	}
}

func contains(list, want string) bool {
	for _, o := range strings.Split(list, ",") {
		if o == want {
			return true
		}
	}
	return false
}

// A user who is not root mounts through fusermount3. The device is private to a mount namespace, because it belongs to
// root on some machines.
func TestMountAsUser(t *testing.T) {
	needFuse(t)
	for _, tool := range []string{"unshare", "setpriv", "fusermount3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	bin, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "server"), bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script := `set -eu
# Copies of mounts that other tests have would keep those alive.
sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - fuse\.wsfs .*/\1/p' /proc/self/mountinfo | while read -r point; do umount -l "$point" || echo "$point went by itself" >&2; done
cd "$1"
as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
mknod -m 666 fusedev c 10 229
mount --bind fusedev /dev/fuse
mkdir mnt; chown 65534:65534 mnt; chmod 755 .
as env ` + serveEnv + `="{\"Point\":\"$1/mnt\",\"Options\":{\"AllowOther\":true}}" ./server </dev/null || true
mkfifo ctl; exec 3<>ctl
as env ` + serveEnv + `="{\"Point\":\"$1/mnt\",\"Options\":{\"Name\":\"a,b\"}}" ./server <&3 >out 2>err &
for i in $(seq 100); do grep -q . out && break; sleep .05; done
echo "read: $(as cat mnt/f)"
cat mnt/f >/dev/null 2>&1 || echo "root is kept out"
grep -F " $1/mnt " /proc/self/mountinfo
echo unmount >&3
wait
cat out err
`
	cmd := exec.Command("timeout", "-k", "5", "40", "unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wants := []string{"read: hello", "root is kept out", "wsfs:a,b", "user_id=65534", "ended <nil>"}
	if conf, err := os.ReadFile("/etc/fuse.conf"); err != nil || !strings.Contains("\n"+string(conf), "\nuser_allow_other") {
		wants = append(wants, "user_allow_other", "or mount without it")
	}
	for _, want := range wants {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}
