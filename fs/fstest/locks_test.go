package fstest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLocksAcross: locks hold between all mounts of a workspace, a wait is ended by a signal, and what a process or a mount
// held is free when it is no more. Within one mount the suite shows the same.
func TestLocksAcross(t *testing.T) {
	w := newWorld(t)
	w.workspace("main")
	places := []string{w.mount("main"), w.mount("main"), filepath.Join(w.mount("--all"), "main")}
	if err := os.WriteFile(places[0]+"/l", make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `
import fcntl, os, signal, struct, subprocess, sys, time
places = sys.argv[1:4]
OFD_SETLK, OFD_SETLKW = 37, 38
def region(typ, start, n): return struct.pack("hhqqi4x", typ, 0, start, n, 0)
kinds = {
    "flock": lambda f, typ, wait: fcntl.flock(f, {fcntl.F_WRLCK: fcntl.LOCK_EX, fcntl.F_RDLCK: fcntl.LOCK_SH, fcntl.F_UNLCK: fcntl.LOCK_UN}[typ] | (0 if wait else fcntl.LOCK_NB)),
    "fcntl": lambda f, typ, wait: fcntl.fcntl(f, fcntl.F_SETLKW if wait else fcntl.F_SETLK, region(typ, 10, 5)),
    "ofd": lambda f, typ, wait: fcntl.fcntl(f, OFD_SETLKW if wait else OFD_SETLK, region(typ, 10, 5)),
}
def denied(kind, f, typ=fcntl.F_WRLCK):
    try: kinds[kind](f, typ, False)
    except BlockingIOError: return
    raise AssertionError(kind + ": was to be had")
def holder(kind, place):
    "another process that has the lock; ends when its standard input does"
    r, w = os.pipe(); go, stop = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(stop); f = open(place + "/l", "r+b", buffering=0); kinds[kind](f, fcntl.F_WRLCK, True)
        os.write(w, b"x"); os.read(go, 1); os._exit(0)
    os.close(go); os.close(w); assert os.read(r, 1) == b"x"; os.close(r)
    return pid, stop
class Interrupted(Exception): pass
def ring(*_): raise Interrupted
signal.signal(signal.SIGALRM, ring)
for kind in kinds:
    for there in places[1:]:
        f = open(there + "/l", "r+b", buffering=0)
        pid, stop = holder(kind, places[0])
        denied(kind, f); denied(kind, f, fcntl.F_RDLCK)
        if kind != "flock": fcntl.fcntl(f, fcntl.F_SETLK, region(fcntl.F_WRLCK, 15, 5)); fcntl.fcntl(f, fcntl.F_SETLK, region(fcntl.F_UNLCK, 15, 5))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try: kinds[kind](f, fcntl.F_WRLCK, True); raise AssertionError(kind + ": granted while another process has it")
        except Interrupted: pass
        os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0); os.close(stop)
        kinds[kind](f, fcntl.F_WRLCK, True) # of the killed one nothing is left
        pid, stop = os.fork(), None
        if pid == 0:
            g = open(places[0] + "/l", "r+b", buffering=0); denied(kind, g); os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        kinds[kind](f, fcntl.F_UNLCK, True); f.close()
# A mount that is no more holds nothing: neither what was released nor what was not.
f = open(places[1] + "/l", "r+b", buffering=0)
held = [holder(kind, places[0]) for kind in ("flock", "fcntl")]
denied("flock", f); denied("fcntl", f)
if os.geteuid() != 0: sys.exit() # only root may
subprocess.run(["umount", "-f", places[0]], stderr=subprocess.DEVNULL) # it says that it is busy, and ends the connection
kinds["flock"](f, fcntl.F_WRLCK, True); kinds["fcntl"](f, fcntl.F_WRLCK, True)
for pid, stop in held: os.close(stop)
for pid, stop in held: os.waitpid(pid, 0)
`
	out, err := exec.Command("timeout", append([]string{"120", "python3", "-c", script}, places...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
