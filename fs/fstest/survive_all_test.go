package fstest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSurviveAll is TestSurvive under a mount of all workspaces, with files and listings of past states that stay open: in
// .wsfs, and in a mount of a past state.
func TestSurviveAll(t *testing.T) {
	mustSend(t)
	w := newWorld(t)
	w.workspace("main")
	w.workspace("other")
	w.startKeeper()
	all := w.mount("--all")
	main := filepath.Join(all, "main")
	const old = `python3 -c '
import os, sys
for i in range(600): open(sys.argv[1] + "/old%d" % i, "w").write("x%d" % i * 9999 if 6 < i < 9 else "")' "$1"`
	shell(t, old, main)
	w.wsfs("tag", "main", "v1")
	past := w.mount("main@v1")
	shell(t, `rm "$1"/old*; touch "$2/here"`, main, filepath.Join(all, "other"))
	programs := map[string]string{"past": `python3 -c '
import os, sys
where, stop, want = sys.argv[3:], sys.argv[2], b"x7" * 9999
at = [(open(d + "/old7", "rb", buffering=0), os.scandir(d), os.open(d, os.O_RDONLY)) for d in where]
got = [{next(l).name for i in range(9)} for f, l, d in at]
log = open(sys.argv[3] + "/../../log", "rb", buffering=0); first = log.read(10)
open(stop + ".open", "w").close(); n = 0
while n < 3 or not os.path.exists(stop):
    for f, l, d in at:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED); f.seek(0); assert f.read(99999) == want
        fd = os.open("old8", os.O_RDONLY, dir_fd=d); assert os.read(fd, 99999) == b"x8" * 9999; os.close(fd)
    n += 1
for (f, l, d), names in zip(at, got):
    for e in l: assert e.name not in names, e.name; names.add(e.name)
    assert names == {"old%d" % i for i in range(600)}, len(names)
    os.close(d); f.close()
log.seek(0); assert len(log.read(10)) == 10; log.close()
' "$1" "$2" "$1/../.wsfs/at/v1" "` + past + `"`}
	from := surviving()
	for _, name := range []string{"append", "blocks", "locks"} {
		programs[name] = from[name]
	}
	w.survive(main, programs, filepath.Join(w.base, "stop.open"))
	if _, err := os.Stat(filepath.Join(all, "other", "here")); err != nil {
		t.Error(err)
	}
	w.wsfs("umount", past)
	w.wsfs("drop", "--force", "main") // nobody is in it any more
}

// shell runs a script that has to succeed.
func shell(t *testing.T, script string, args ...string) {
	t.Helper()
	if out, err := exec.Command("bash", append([]string{"-euc", script, "shell"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}
