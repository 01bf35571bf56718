package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunAsUser runs `wsfs run` and `wsfs apply` without any privilege: the namespace is a user's, the mount comes from
// fusermount3. The device is private to a mount namespace, because it belongs to root on some machines.
func TestRunAsUser(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root, to be somebody else, and /dev/fuse")
	}
	for _, tool := range []string{"unshare", "setpriv", "fusermount3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	bin := buildForScripts(t)
	dir := t.TempDir()
	for _, p := range []string{bin, filepath.Dir(dir), dir} {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := `set -eu
# Copies of mounts that other tests have would keep those alive.
sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - fuse\.wsfs .*/\1/p' /proc/self/mountinfo | while read -r point; do umount -l "$point" || echo "$point went by itself" >&2; done
cd "$1"
mknod -m 666 fusedev c 10 229
mount --bind fusedev /dev/fuse
mkdir home proj run; echo a > proj/a; chown -R 65534:65534 home proj run
export HOME=$1/home XDG_RUNTIME_DIR=$1/run WSFS_STORE=$1/home/store
unset WSFS_SESSION
as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
cd proj
as wsfs run -s u -- sh -c 'echo "in $PWD as $(id -u):$(id -g)"; cat a; echo b > b; rm a; grep -E "Cap(Inh|Prm|Eff|Amb)" /proc/self/status; ls -ln b' || echo failed
echo "outside: $(ls)"
as wsfs run -s u -- sh -c 'exit 5' || echo "code $?"
as wsfs apply || echo failed
echo "applied: $(ls)"
as wsfs log -w proj --json -n 1
`
	cmd := exec.Command("timeout", "-k", "5", "60", "unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", dir)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "make a private mount namespace") {
		t.Skipf("users may not make namespaces here:\n%s", out)
	}
	zero := "0000000000000000"
	for _, want := range []string{
		"in " + dir + "/proj as 65534:65534\na\n", "CapInh:\t" + zero, "CapPrm:\t" + zero, "CapEff:\t" + zero, "CapAmb:\t" + zero,
		" 65534 65534 2 ", "c2 created 1, removed 1 in proj", "outside: a\n", "code 5\n", "removed a\ncreated b\n",
		"applied: b\n", `"session":"u"`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}
