package fstest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func parallelTests() []test {
	return []test{
		{"creates in one directory", parallelCreate},
		{"one winner of O_EXCL, mkdir, link and NOREPLACE", parallelWinner},
		{"publishing by rename never shows a gap (s01)", parallelPublish},
		{"creates in a directory that is renamed (s02)", parallelMovingDir},
		{"links and unlinks (s11)", parallelLinks},
		{"appends of processes (s24)", parallelAppend},
		{"renames across directories in both directions", parallelRenames},
		{"exchange beside readers", parallelExchange},
		{"writers of one file at their own places", parallelWriters},
		{"readers beside truncate and write", parallelTruncate},
		{"create, list, remove everywhere", parallelStorm},
		{"many open files", parallelOpen},
		{"signals do not break calls (s41)", parallelSignals},
		{"a busy Go program (s41)", parallelBusy},
	}
}

// each runs fn in n goroutines and reports their errors.
func (e *env) each(n int, fn func(k int) error) {
	e.Helper()
	var wg sync.WaitGroup
	for k := range n {
		wg.Go(func() {
			if err := fn(k); err != nil {
				e.Errorf("worker %d: %v", k, err)
			}
		})
	}
	wg.Wait()
}

func put(path, data string) error { return os.WriteFile(path, []byte(data), 0o644) }

func parallelCreate(e *env) {
	e.each(8, func(k int) error {
		for i := range 200 {
			n := fmt.Sprintf("f%d-%d", k, i)
			if err := put(e.p(n), n); err != nil {
				return err
			}
		}
		return nil
	})
	e.eq(len(e.names("")), 1600, "names")
	for k := range 8 {
		for i := 0; i < 200; i += 9 {
			n := fmt.Sprintf("f%d-%d", k, i)
			e.is(n, n)
		}
	}
}

func parallelWinner(e *env) {
	e.write("src", "x")
	for _, way := range []struct {
		name string
		try  func(k int, path string) error
	}{
		{"O_EXCL", func(_ int, path string) error {
			fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}},
		{"mkdir", func(_ int, path string) error { return unix.Mkdir(path, 0o755) }},
		{"link", func(_ int, path string) error { return unix.Link(e.p("src"), path) }},
		{"symlink", func(k int, path string) error { return unix.Symlink(fmt.Sprint(k), path) }},
		{"NOREPLACE", func(k int, path string) error {
			own := fmt.Sprintf("%s.%d", path, k)
			if err := put(own, "x"); err != nil {
				return err
			}
			return unix.Renameat2(unix.AT_FDCWD, own, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
		}},
	} {
		for round := range 20 {
			path := e.p(fmt.Sprintf("%s%d", way.name, round))
			var won atomic.Int64
			e.each(8, func(k int) error {
				switch err := way.try(k, path); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, unix.EEXIST):
					return fmt.Errorf("%s: %w", way.name, err)
				}
				return nil
			})
			e.eq(won.Load(), int64(1), "winners of %s", way.name)
		}
	}
}

func parallelPublish(e *env) {
	e.write("v", string(pattern(100, 0)[0:1])+zeros(99))
	e.write("v", fmt.Sprintf("%0100d", 0))
	stop := time.Now().Add(2 * time.Second)
	e.each(4, func(k int) error {
		if k == 0 {
			for i := 0; time.Now().Before(stop); i++ {
				if err := put(e.p("t"), fmt.Sprintf("%0100d", i)); err != nil {
					return err
				}
				if err := unix.Rename(e.p("t"), e.p("v")); err != nil {
					return err
				}
			}
			return nil
		}
		last := -1
		for time.Now().Before(stop) {
			b, err := os.ReadFile(e.p("v"))
			if err != nil {
				return err
			}
			n := 0
			if _, err := fmt.Sscanf(string(b), "%d", &n); err != nil || len(b) != 100 {
				return fmt.Errorf("torn read of %d bytes: %q", len(b), b)
			}
			if n < last {
				return fmt.Errorf("version %d after version %d", n, last)
			}
			last = n
		}
		return nil
	})
}

func parallelMovingDir(e *env) {
	e.mkdir("active")
	done := make(chan struct{})
	made := map[string]bool{}
	e.each(2, func(k int) error {
		if k == 0 {
			for {
				select {
				case <-done:
					return nil
				default:
				}
				if err := unix.Rename(e.p("active"), e.p("backup")); err != nil {
					return err
				}
				if err := unix.Rename(e.p("backup"), e.p("active")); err != nil {
					return err
				}
			}
		}
		defer close(done)
		for i := range 2000 {
			n := "f" + itoa(int64(i))
			fd, err := unix.Open(e.p("active/"+n), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			switch {
			case err == nil:
				made[n] = true
				if err := unix.Close(fd); err != nil {
					return err
				}
			case err != unix.ENOENT:
				return err
			}
		}
		return nil
	})
	e.eq(len(e.names("active")), len(made), "files that were created and files that are there")
}

func parallelLinks(e *env) {
	e.write("o", "x")
	e.each(8, func(k int) error {
		for i := range 50 {
			if err := unix.Link(e.p("o"), e.p(fmt.Sprintf("l%d-%d", k, i))); err != nil {
				return err
			}
		}
		return nil
	})
	e.eq(uint64(e.stat("o").Nlink), uint64(401), "nlink")
	e.each(8, func(k int) error {
		for i := range 50 {
			if err := unix.Unlink(e.p(fmt.Sprintf("l%d-%d", (k+3)%8, i))); err != nil {
				return err
			}
		}
		return nil
	})
	e.eq(uint64(e.stat("o").Nlink), uint64(1), "nlink")
	e.lists("", "o")
}

func parallelAppend(e *env) {
	const procs, lines = 4, 1000
	var all []<-chan reply
	for k := range procs {
		all = append(all, e.agent().start("spin", "log", fmt.Sprintf("%d:", k), lines))
	}
	for _, c := range all {
		e.ok((<-c).err(), "append")
	}
	seen := map[string]bool{}
	log := e.read("log")
	for i := 0; i+11 <= len(log); i += 11 {
		seen[log[i:i+11]] = true
	}
	e.eq(len(log), procs*lines*11, "length of the log")
	e.eq(len(seen), procs*lines, "distinct lines")
}

func parallelRenames(e *env) {
	e.mkdir("a")
	e.mkdir("b")
	for i := range 40 {
		e.write("a/f"+itoa(int64(i)), itoa(int64(i)))
	}
	e.each(6, func(k int) error {
		for i := range 400 {
			n := "/f" + itoa(int64((i*7+k)%40))
			from, to := "a", "b"
			if (i+k)%2 == 0 {
				from, to = to, from
			}
			if err := unix.Rename(e.p(from+n), e.p(to+n)); err != nil && err != unix.ENOENT {
				return err
			}
		}
		return nil
	})
	a, b := e.names("a"), e.names("b")
	e.eq(len(a)+len(b), 40, "files in both directories")
	for _, n := range a {
		e.is("a/"+n, n[1:])
	}
	for _, n := range b {
		e.is("b/"+n, n[1:])
	}
	// Directories into each other from both sides: never a loop, never a loss.
	e.mkdir("x")
	e.mkdir("y")
	e.each(2, func(k int) error {
		for range 300 {
			var err error
			if k == 0 {
				err = unix.Rename(e.p("x"), e.p("y/x"))
				_ = unix.Rename(e.p("y/x"), e.p("x"))
			} else {
				err = unix.Rename(e.p("y"), e.p("x/y"))
				_ = unix.Rename(e.p("x/y"), e.p("y"))
			}
			if err != nil && err != unix.ENOENT && err != unix.EINVAL {
				return err
			}
		}
		return nil
	})
	e.lists("", "a", "b", "x", "y")
}

func parallelExchange(e *env) {
	e.write("a", "A")
	e.write("b", "B")
	var stop atomic.Bool
	e.each(4, func(k int) error {
		if k == 0 {
			defer stop.Store(true)
			for range 1000 {
				if err := e.rename2("a", "b", unix.RENAME_EXCHANGE); err != nil {
					return err
				}
			}
			return nil
		}
		for !stop.Load() {
			for _, n := range []string{"a", "b"} {
				if b, err := os.ReadFile(e.p(n)); err != nil || len(b) != 1 {
					return fmt.Errorf("%s during exchanges: %q, %w", n, b, err)
				}
			}
		}
		return nil
	})
	e.is("a", "A")
}

func parallelWriters(e *env) {
	e.write("f", "")
	const block = 5000
	e.each(8, func(k int) error {
		fd, err := unix.Open(e.p("f"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for i := range 20 {
			off := int64((i*8 + k) * block)
			if n, err := unix.Pwrite(fd, []byte(pattern(block, byte(i*8+k))), off); err != nil || n != block {
				return fmt.Errorf("pwrite: %d, %w", n, err)
			}
		}
		return nil
	})
	got := e.read("f")
	e.eq(len(got), 160*block, "size")
	for i := range 160 {
		if got[i*block:(i+1)*block] != pattern(block, byte(i)) {
			e.Errorf("block %d is not what its writer wrote", i)
		}
	}
}

// parallelTruncate: a reader sees old bytes, new bytes or, for an instant on a file system whose kernel learns of a
// truncation from its server, zeros; never anything else, and nothing of it stays.
func parallelTruncate(e *env) {
	e.write("f", "")
	var stop atomic.Bool
	e.each(3, func(k int) error {
		if k == 0 {
			defer stop.Store(true)
			for i := range 300 {
				if err := put(e.p("f"), fmt.Sprintf("%05000d", i%10)); err != nil {
					return err
				}
			}
			return nil
		}
		for !stop.Load() {
			b, err := os.ReadFile(e.p("f"))
			if err != nil {
				return err
			}
			for _, c := range b {
				if c != 0 && (c < '0' || c > '9') {
					return fmt.Errorf("a byte %q that nobody wrote, in %d bytes", c, len(b))
				}
			}
		}
		return nil
	})
	e.is("f", fmt.Sprintf("%05000d", 299%10))
}

// parallelStorm lets workers create, write, rename, link, list and remove the same few names; only the errors that such
// races have may come, and in the end everything can be removed.
func parallelStorm(e *env) {
	for i := range 3 {
		e.mkdir(fmt.Sprintf("d%d", i))
	}
	e.each(6, func(k int) error {
		x := uint32(k + 1)
		rnd := func(n int) int {
			x = x*1664525 + 1013904223
			return int(x>>8) % n
		}
		name := func() string { return e.p(fmt.Sprintf("d%d/n%d", rnd(3), rnd(6))) }
		for range 500 {
			var err error
			switch rnd(9) {
			case 0, 1:
				err = put(name(), pattern(rnd(9000), byte(k)))
			case 2:
				err = unix.Rename(name(), name())
			case 3:
				err = unix.Link(name(), name())
			case 4:
				err = unix.Unlink(name())
			case 5:
				err = unix.Mkdir(name(), 0o755)
			case 6:
				err = unix.Rmdir(name())
			case 7:
				_, err = os.ReadDir(e.p(fmt.Sprintf("d%d", rnd(3))))
			case 8:
				_, err = os.ReadFile(name())
			}
			ok := err == nil
			for _, want := range []error{unix.ENOENT, unix.EEXIST, unix.ENOTDIR, unix.EISDIR, unix.ENOTEMPTY, unix.EPERM} {
				ok = ok || errors.Is(err, want)
			}
			if !ok {
				return err
			}
		}
		return nil
	})
	for i := range 3 {
		d := fmt.Sprintf("d%d", i)
		for _, n := range e.names(d) {
			e.stat(d + "/" + n)
		}
		e.ok(os.RemoveAll(e.p(d)), "remove %s", d)
	}
	e.lists("")
}

func parallelOpen(e *env) {
	var fds []int
	for i := range 400 {
		fd := e.open("f"+itoa(int64(i)), unix.O_CREAT|unix.O_RDWR, 0o644)
		e.fdwrite(fd, itoa(int64(i)))
		fds = append(fds, fd)
	}
	for i, fd := range fds {
		e.eq(e.pread(fd, 100, 0), itoa(int64(i)), "content of open file %d", i)
	}
}

// parallelSignals sends a worker signals while it works: no call may be cut short or fail.
func parallelSignals(e *env) {
	a := e.agent()
	a.must("norestart", int(unix.SIGUSR1))
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			_ = unix.Tgkill(a.pid, a.tid, unix.SIGUSR1)
			time.Sleep(100 * time.Microsecond)
		}
	}()
	r := a.call("spin", "log", "s:", 2000)
	for i := range 200 {
		n := fmt.Sprintf("f%d", i)
		fd := a.must("open", n, unix.O_CREAT|unix.O_RDWR, 0o644).N[0]
		a.must("write", fd, pattern(3000, 1))
		a.must("close", fd)
		a.must("rename", n, n+"x")
		a.must("stat", n+"x")
		a.must("list", ".")
		a.must("unlink", n+"x")
	}
	stop.Store(true)
	<-done
	e.ok(r.err(), "appends under signals")
	e.eq(len(e.read("log")), 2000*11, "length of the log")
}

// parallelBusy works in a program that is kept busy by its own collector: Go interrupts its threads with signals then, also in
// system calls.
func parallelBusy(e *env) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for keep := [][]byte(nil); !stop.Load(); {
				if keep = append(keep, make([]byte, 64<<10)); len(keep) > 50 {
					keep = nil
				}
			}
		})
	}
	defer func() { stop.Store(true); wg.Wait() }()
	e.write("f", pattern(100_000, 1))
	e.each(4, func(k int) error {
		for i := range 150 {
			name := e.p(fmt.Sprintf("%d.%d", k, i%5))
			want := pattern(1000+i, byte(k))
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				return err
			}
			if b, err := os.ReadFile(name); err != nil || string(b) != want {
				return fmt.Errorf("%s has %d bytes: %w", name, len(b), err)
			}
			if st, err := os.Stat(e.p("f")); err != nil || st.Size() != 100_000 {
				return fmt.Errorf("stat: %w", err)
			}
			if list, err := os.ReadDir(e.dir); err != nil || len(list) == 0 {
				return fmt.Errorf("%d names: %w", len(list), err)
			}
		}
		return nil
	})
}
