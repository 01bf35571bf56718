package fstest

import (
	"errors"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

func execTests() []test {
	return []test{
		{"exec right after write and close (s42)", execAfterWrite},
		{"exec of a script", execScript},
		{"a running program cannot be written", execBusy},
		{"a program is replaced while it runs", execReplace},
		{"exec of what is open for writing fails", execWriting},
		{"no x bit, no exec", execMode},
		{"cp and run, in parallel (s42)", execParallel},
		{"working directory of a child", execCwd},
	}
}

// program copies a small binary.
func (e *env) program(name string) {
	e.Helper()
	b, err := os.ReadFile("/bin/true")
	e.ok(err, "read /bin/true")
	e.ok(os.WriteFile(e.p(name), b, 0o755), "write %s", name)
}

func execAfterWrite(e *env) {
	busy := 0
	for i := range 60 {
		n := "x" + itoa(int64(i))
		e.program(n)
		switch err := exec.Command(e.p(n)).Run(); {
		case errors.Is(err, unix.ETXTBSY):
			busy++
		case err != nil:
			e.Fatalf("run %s: %v", n, err)
		}
		if i%2 == 0 {
			e.unlink(n)
		}
	}
	// Go forks while other descriptors are open: golang.org/issue/22315. Agents do not run here, so 0 is right.
	e.eq(busy, 0, "runs that failed with ETXTBSY")
}

func execScript(e *env) {
	e.write("s", "#!/bin/sh\necho \"$0 says $1\"\n")
	e.ok(unix.Chmod(e.p("s"), 0o755), "chmod")
	out, err := exec.Command(e.p("s"), "hi").CombinedOutput()
	e.ok(err, "run a script")
	e.eq(string(out), e.p("s")+" says hi\n", "output")
	e.write("bad", "#!/no/such/interpreter\n")
	e.ok(unix.Chmod(e.p("bad"), 0o755), "chmod")
	e.fails(exec.Command(e.p("bad")).Run(), unix.ENOENT, "script without an interpreter")
}

// sleeper starts a program of the directory that runs until the test ends.
func (e *env) sleeper(name string) {
	e.Helper()
	b, err := os.ReadFile("/bin/sleep")
	e.ok(err, "read /bin/sleep")
	e.ok(os.WriteFile(e.p(name), b, 0o755), "write %s", name)
	cmd := exec.Command(e.p(name), "60")
	e.ok(cmd.Start(), "start %s", name)
	e.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func execBusy(e *env) {
	e.sleeper("x")
	_, err := unix.Open(e.p("x"), unix.O_WRONLY, 0)
	if err == nil {
		e.Skipf("this kernel does not deny writing to a running program here")
	}
	e.fails(err, unix.ETXTBSY, "open of a running program for writing")
	e.fails(unix.Truncate(e.p("x"), 0), unix.ETXTBSY, "truncate of a running program")
	e.unlink("x")
	e.program("x")
	e.ok(exec.Command(e.p("x")).Run(), "run the new program")
}

func execReplace(e *env) {
	e.sleeper("x")
	e.program("new")
	e.rename("new", "x")
	e.ok(exec.Command(e.p("x")).Run(), "run the new program")
}

func execWriting(e *env) {
	e.program("x")
	fd := e.open("x", unix.O_WRONLY, 0)
	e.fails(exec.Command(e.p("x")).Run(), unix.ETXTBSY, "exec of a program that is open for writing")
	e.close(fd)
	e.ok(exec.Command(e.p("x")).Run(), "exec after close")
}

func execMode(e *env) {
	e.program("x")
	e.ok(unix.Chmod(e.p("x"), 0o644), "chmod")
	e.fails(exec.Command(e.p("x")).Run(), unix.EACCES, "exec without any x bit")
	e.ok(unix.Chmod(e.p("x"), 0o711), "chmod")
	e.ok(exec.Command(e.p("x")).Run(), "exec")
	e.mkdir("d")
	e.fails(exec.Command(e.p("d")).Run(), unix.EACCES, "exec of a directory")
}

func execParallel(e *env) {
	e.program("x")
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for i := range 25 {
				n := "c" + itoa(int64(k*1000+i))
				// One shell copies and runs, so no fork of another goroutine holds the new file open.
				out, err := exec.Command("/bin/sh", "-c", `cp "$1" "$2" && "$2" && rm "$2"`, "sh", e.p("x"), e.p(n)).CombinedOutput()
				if err != nil {
					e.Errorf("cp and run %s: %v %s", n, err, out)
				}
			}
		})
	}
	wg.Wait()
	e.lists("", "x")
}

func execCwd(e *env) {
	e.mkdir("d")
	cmd := exec.Command("/bin/sh", "-c", "pwd; echo data > made; cat made; cd ..; ls")
	cmd.Dir = e.p("d")
	out, err := cmd.CombinedOutput()
	e.ok(err, "run in a directory")
	e.eq(string(out), e.p("d")+"\ndata\nd\n", "output")
}
