package fstest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDeadlock looks for waits in a circle: a process whose memory map is locked waits for the daemon (a page fault on a
// mapping of the mount), while the daemon looks at that process to attribute another request. The storm runs in a child
// process for -storm seconds, half of them with each transport, and must go on until its end.
func TestDeadlock(t *testing.T) {
	for _, tr := range transports() {
		t.Run(tr, func(t *testing.T) { storm(t, tr, max(1, *opt.storm/2)) })
	}
}

func storm(t *testing.T, transport string, seconds int) {
	w, dir := newMount(t, "--transport="+transport)
	out, err := child(time.Duration(seconds)*time.Second+4*time.Minute, "-test.run=^TestStorm$", "-dir="+dir, fmt.Sprintf("-storm=%d", seconds))
	if err != nil {
		t.Errorf("%v\n%s", err, out)
		w.dump()
		return
	}
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "rounds:") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if !alive(dir) {
		t.Errorf("the mount is dead%s", w.logTail())
	}
}

// TestStorm is the child of TestDeadlock, and runs by hand with -dir.
func TestStorm(t *testing.T) {
	if *opt.dir == "" {
		t.Skipf("no -dir: started by TestDeadlock, or by hand")
	}
	dir, err := os.MkdirTemp(*opt.dir, "storm")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*opt.storm)*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	// worker repeats fn until the time is over; each must get on.
	worker := func(name string, fn func(n int) error) {
		wg.Go(func() {
			n := 0
			for ; ctx.Err() == nil; n++ {
				if err := fn(n); err != nil {
					t.Errorf("%s, round %d: %v", name, n, err)
					return
				}
			}
			t.Logf("%s rounds: %d", name, n)
			if n == 0 {
				t.Errorf("%s did not get on", name)
			}
		})
	}
	at := func(format string, args ...any) string { return filepath.Join(dir, fmt.Sprintf(format, args...)) }

	// Dirties shared mappings and maps them anew: its process's map is locked for writing again and again, and its
	// faults wait for the daemon.
	const mapped = 1 << 20
	for k := range 2 {
		worker("mapper", func(n int) error { return remap(at("map%d", (n+k)%3), mapped, byte(n)) })
	}
	// In the same process, so that the map that is locked is that of the caller.
	worker("creator", func(n int) error {
		p := at("c%d", n%50)
		if err := os.WriteFile(p, []byte(strings.Repeat("c", n%9000)), 0o644); err != nil {
			return err
		}
		return os.Rename(p, at("r%d", n%50))
	})
	worker("writer", func(n int) error {
		f, err := os.OpenFile(at("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		if _, err := f.WriteString("line\n"); err != nil {
			return err
		}
		if n%500 == 499 {
			if err := f.Truncate(0); err != nil {
				return err
			}
		}
		return f.Close()
	})
	worker("attributes", func(n int) error {
		p := at("a%d", n%5)
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			return err
		}
		if err := os.Chmod(p, 0o600); err != nil {
			return err
		}
		if err := os.Chtimes(p, time.Unix(1, 0), time.Unix(int64(n), 0)); err != nil {
			return err
		}
		if err := unix.Setxattr(p, "user.n", []byte(fmt.Sprint(n)), 0); err != nil {
			return err
		}
		_ = os.Remove(at("h%d", n%5))
		if err := os.Link(p, at("h%d", n%5)); err != nil {
			return err
		}
		_ = os.Remove(at("s%d", n%5))
		if err := os.Symlink(p, at("s%d", n%5)); err != nil {
			return err
		}
		if err := os.Truncate(p, int64(n%70_000)); err != nil {
			return err
		}
		return os.Remove(p)
	})
	// Programs that live on the mount: exec faults their pages in, exit drops them, children write and exit.
	worker("exec", func(n int) error {
		p := at("x%d", n)
		if err := os.WriteFile(p, program, 0o755); err != nil {
			return err
		}
		defer os.Remove(p)
		// By a shell: our own forks inherit the descriptors that other workers have open for writing (ETXTBSY).
		out, err := exec.Command("/bin/sh", "-c", `i=0; while ! "$0" 2>/dev/null; do i=$((i+1)); [ $i -lt 200 ] || exec "$0"; done; echo x > "$0.out"; mkdir "$0.d"; rmdir "$0.d"; rm "$0.out"`, p).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	})
	worker("exit", func(n int) error {
		// Killed with dirty shared mappings and files open for writing.
		cmd := exec.Command("/bin/sh", "-c", `exec 3> "$0/e1"; echo hello >&3; exec sleep 10`, dir)
		if err := cmd.Start(); err != nil {
			return err
		}
		time.Sleep(time.Duration(n%5) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil
	})
	worker("python", func(int) error {
		return mapperProgram(ctx, at("py"))
	})
	worker("tree", func(n int) error {
		d := at("t%d/a/b", n%3)
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
		for i := range 5 {
			if err := os.WriteFile(filepath.Join(d, fmt.Sprint(i)), []byte("x"), 0o644); err != nil {
				return err
			}
		}
		if _, err := os.ReadDir(d); err != nil {
			return err
		}
		return os.RemoveAll(at("t%d", n%3))
	})
	worker("sync", func(int) error {
		f, err := os.OpenFile(at("map0"), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		time.Sleep(5 * time.Millisecond)
		return f.Sync()
	})
	wg.Wait()
	if err := os.RemoveAll(dir); err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// remap stores into every page of a mapping of a file and maps it twice more meanwhile.
func remap(path string, size int, b byte) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return err
	}
	for range 3 {
		m, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		for i := 0; i < size; i += 4096 {
			m[i] = b
		}
		if b%8 == 0 {
			if err := unix.Msync(m, unix.MS_SYNC); err != nil {
				return err
			}
		}
		if err := unix.Munmap(m); err != nil {
			return err
		}
	}
	return nil
}

// mapperProgram is a process that ends while its dirty mapping is being written back, and starts threads that fault.
func mapperProgram(ctx context.Context, path string) error {
	if _, err := exec.LookPath("python3"); err != nil {
		time.Sleep(100 * time.Millisecond)
		return nil // scripts/test installs it
	}
	cmd := exec.CommandContext(ctx, "python3", "-c", `
import mmap, os, sys, threading
def work(k):
    fd = os.open(sys.argv[1] + str(k % 2), os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(fd, 1 << 20)
    for i in range(6):
        m = mmap.mmap(fd, 1 << 20)
        for off in range(0, 1 << 20, 4096):
            m[off] = i
        open(sys.argv[1] + '.f%d' % k, 'w').write('x' * i)
        m.close()
ts = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in ts]
[t.join() for t in ts]
os._exit(0)
`, path)
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() == nil {
		sc := bufio.NewScanner(strings.NewReader(string(out)))
		last := ""
		for sc.Scan() {
			last = sc.Text()
		}
		return fmt.Errorf("python: %w: %s", err, last)
	}
	return nil
}
