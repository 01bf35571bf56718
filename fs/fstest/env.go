package fstest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// env is one running test: its own directory and shorthand for system calls that must succeed.
type env struct {
	*testing.T
	dir string
	o   Options
	fds map[int]bool // open descriptors of the test
}

// p is the path of a name in the test's directory.
func (e *env) p(name string) string { return e.dir + "/" + name }

func (e *env) ok(err error, format string, args ...any) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// fails requires one of the errnos.
func (e *env) fails(err error, want unix.Errno, format string, args ...any) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("%s: got %v, want %v", fmt.Sprintf(format, args...), err, want)
	}
}

func (e *env) eq(got, want any, format string, args ...any) {
	e.Helper()
	if !reflect.DeepEqual(got, want) {
		e.Errorf("%s: got %v, want %v", fmt.Sprintf(format, args...), short(got), short(want))
	}
}

func short(v any) string {
	s := fmt.Sprintf("%q", v)
	if _, isText := v.(string); !isText {
		s = fmt.Sprintf("%v", v)
	}
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}

// open opens a name and closes it at the end of the test (closing it earlier with close is fine).
func (e *env) open(name string, flags int, mode uint32) int {
	e.Helper()
	fd, err := unix.Open(e.p(name), flags|unix.O_CLOEXEC, mode)
	e.ok(err, "open %q flags %#x", name, flags)
	return e.own(fd)
}

// own takes over a descriptor: what the test does not close is closed at its end.
func (e *env) own(fd int) int {
	if e.fds == nil {
		e.fds = map[int]bool{}
		e.Cleanup(func() {
			for fd := range e.fds {
				_ = unix.Close(fd)
			}
		})
	}
	e.fds[fd] = true
	return fd
}

func (e *env) close(fd int) {
	e.Helper()
	delete(e.fds, fd)
	e.ok(unix.Close(fd), "close")
}

func (e *env) write(name, data string) {
	e.Helper()
	e.ok(os.WriteFile(e.p(name), []byte(data), 0o644), "write %q", name)
}

func (e *env) read(name string) string {
	e.Helper()
	b, err := os.ReadFile(e.p(name))
	e.ok(err, "read %q", name)
	return string(b)
}

// is requires the content of a name.
func (e *env) is(name, want string) {
	e.Helper()
	e.eq(e.read(name), want, "content of %q", name)
}

func (e *env) pwrite(fd int, data string, off int64) {
	e.Helper()
	n, err := unix.Pwrite(fd, []byte(data), off)
	e.ok(err, "pwrite at %d", off)
	if n != len(data) {
		e.Fatalf("pwrite at %d: wrote %d of %d bytes", off, n, len(data))
	}
}

func (e *env) fdwrite(fd int, data string) {
	e.Helper()
	n, err := unix.Write(fd, []byte(data))
	e.ok(err, "write")
	if n != len(data) {
		e.Fatalf("write: wrote %d of %d bytes", n, len(data))
	}
}

// pread reads up to n bytes at off in one call.
func (e *env) pread(fd, n int, off int64) string {
	e.Helper()
	buf := make([]byte, n)
	k, err := unix.Pread(fd, buf, off)
	e.ok(err, "pread at %d", off)
	return string(buf[:k])
}

func (e *env) mkdir(name string) {
	e.Helper()
	e.ok(unix.Mkdir(e.p(name), 0o755), "mkdir %q", name)
}

func (e *env) rename(from, to string) {
	e.Helper()
	e.ok(unix.Rename(e.p(from), e.p(to)), "rename %q to %q", from, to)
}

func (e *env) link(from, to string) {
	e.Helper()
	e.ok(unix.Link(e.p(from), e.p(to)), "link %q to %q", from, to)
}

func (e *env) unlink(name string) {
	e.Helper()
	e.ok(unix.Unlink(e.p(name)), "unlink %q", name)
}

func (e *env) stat(name string) unix.Stat_t {
	e.Helper()
	var st unix.Stat_t
	e.ok(unix.Lstat(e.p(name), &st), "stat %q", name)
	return st
}

func (e *env) fstat(fd int) unix.Stat_t {
	e.Helper()
	var st unix.Stat_t
	e.ok(unix.Fstat(fd, &st), "fstat")
	return st
}

// gone requires that a name does not exist.
func (e *env) gone(name string) {
	e.Helper()
	var st unix.Stat_t
	e.fails(unix.Lstat(e.p(name), &st), unix.ENOENT, "stat of %q", name)
}

// names lists a directory, sorted, with a fresh descriptor.
func (e *env) names(dir string) []string {
	e.Helper()
	f, err := os.Open(e.p(dir))
	e.ok(err, "open directory %q", dir)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	e.ok(err, "list %q", dir)
	sort.Strings(names)
	return names
}

func (e *env) lists(dir string, want ...string) {
	e.Helper()
	got := e.names(dir)
	sort.Strings(want)
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		e.Errorf("list of %q: got %s, want %s", dir, short(fmt.Sprintf("%q", got)), short(fmt.Sprintf("%q", want)))
	}
}

func (e *env) needRoot(why string) {
	e.Helper()
	if os.Geteuid() != 0 {
		e.Skipf("runs as root only: %s", why)
	}
}

// eventually waits for something that another process does; it bounds only how long a failure takes.
func (e *env) eventually(what string, cond func() bool) {
	e.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			e.Fatalf("waited 20 s in vain: %s", what)
		}
	}
}

// pattern is n bytes that differ at every offset in a way that shifts are seen.
func pattern(n int, seed byte) string {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return string(b)
}

func zeros(n int) string { return string(bytes.Repeat([]byte{0}, n)) }

func mtime(st unix.Stat_t) int64 { return st.Mtim.Nano() }
func ctime(st unix.Stat_t) int64 { return st.Ctim.Nano() }

// tick lets the coarse clock of the kernel move on, so that a later time stamp is a larger one.
func tick() { time.Sleep(20 * time.Millisecond) }

// trimZeros is a number as text, for paths below /proc.
func trimZeros(n int64) string { return strconv.FormatInt(n, 10) }
