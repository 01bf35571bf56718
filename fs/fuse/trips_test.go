package fuse

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// trips is what the kernel asks while fn runs, sorted, with the counts of what came more than once. What it sends behind a
// close is waited for.
func (s *server) trips(fn func()) string {
	s.t.Helper()
	count := func() map[string]uint64 {
		var last map[string]uint64
		for {
			now := map[string]uint64{}
			for _, op := range s.stats().Ops {
				now[op.Name] = op.Count
			}
			if last != nil && fmt.Sprint(now) == fmt.Sprint(last) {
				return now
			}
			last = now
			time.Sleep(20 * time.Millisecond)
		}
	}
	before := count()
	fn()
	var out []string
	for op, n := range count() {
		switch n -= before[op]; n {
		case 0:
		case 1:
			out = append(out, op)
		default:
			out = append(out, fmt.Sprintf("%s*%d", op, n))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestTrips pins what each basic operation costs in requests. One more in any of them is a defect that no other test sees.
//
// The getattr of each operation that changes a directory is about the directory: default_permissions makes the kernel ask
// for its mode again after each change of it (docs/decisions/0011). The lookup before create is the kernel's as well.
func TestTrips(t *testing.T) {
	s := startStore(t, serveConfig{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(name string, flags int, text string) {
		t.Helper()
		fd, err := syscall.Open(s.path(name), flags|syscall.O_CLOEXEC, 0o644)
		must(err)
		if _, err := syscall.Write(fd, []byte(text)); err != nil {
			t.Fatal(err)
		}
		must(syscall.Close(fd))
	}
	get := func(name string) {
		t.Helper()
		fd, err := syscall.Open(s.path(name), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		must(err)
		buf := make([]byte, 4096)
		for {
			n, err := syscall.Read(fd, buf)
			must(err)
			if n == 0 {
				break
			}
		}
		must(syscall.Close(fd))
	}
	stat := func(name string) {
		t.Helper()
		var st syscall.Stat_t
		must(syscall.Stat(s.path(name), &st))
	}
	list := func() {
		t.Helper()
		fd, err := syscall.Open(s.path("."), syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		must(err)
		buf := make([]byte, 32<<10)
		for {
			n, err := syscall.ReadDirent(fd, buf)
			must(err)
			if n == 0 {
				break
			}
		}
		must(syscall.Close(fd))
	}
	const creates = syscall.O_WRONLY | syscall.O_CREAT
	put("first", creates, "x") // so that the mount's root is in the state in which every later operation finds it
	for _, c := range []struct {
		what, want string
		fn         func()
	}{
		{"create, write, close", "create flush getattr lookup release write", func() { put("f", creates|syscall.O_EXCL, "text") }},
		{"create for reading too", "create flush getattr getxattr lookup release write", func() { put("g", syscall.O_RDWR|syscall.O_CREAT, "text") }},
		{"truncate, write, close", "flush getattr getxattr open release write", func() { put("f", creates|syscall.O_TRUNC, "other") }},
		{"append, close", "flush open release write", func() { put("g", syscall.O_WRONLY|syscall.O_APPEND, "more") }},
		{"stat after a write", "getattr", func() { stat("f") }},
		{"stat again", "", func() { stat("f") }},
		{"read", "flush open read release", func() { get("f") }},
		{"read again", "flush open release", func() { get("f") }},
		{"stat after a read", "getattr", func() { stat("f") }}, // the kernel takes the access time for old
		{"nothing there", "lookup", func() { _ = syscall.Access(s.path("none"), 0) }},
		{"nothing there again", "", func() { _ = syscall.Access(s.path("none"), 0) }},
		{"list", "opendir readdir readdirplus releasedir", list},
		{"list again", "opendir releasedir", list},
		{"chmod", "setattr", func() { must(syscall.Chmod(s.path("f"), 0o600)) }},
		{"utimes", "setattr", func() { must(syscall.UtimesNano(s.path("f"), make([]syscall.Timespec, 2))) }},
		{"truncate", "getxattr setattr", func() { must(syscall.Truncate(s.path("f"), 1)) }},
		{"symlink", "lookup symlink", func() { must(syscall.Symlink("f", s.path("s"))) }},
		{"link", "getattr link lookup", func() { must(syscall.Link(s.path("f"), s.path("l"))) }},
		{"mkdir", "getattr lookup mkdir", func() { must(syscall.Mkdir(s.path("d"), 0o755)) }},
		{"rename over", "forget getattr lookup rename", func() { must(syscall.Rename(s.path("l"), s.path("g"))) }},
		{"rmdir", "forget getattr rmdir", func() { must(syscall.Rmdir(s.path("d"))) }},
		{"unlink", "getattr unlink", func() { must(syscall.Unlink(s.path("f"))) }},
		{"getxattr", "getattr getxattr", func() { _, _ = syscall.Getxattr(s.path("first"), "user.none", nil) }},
	} {
		if got := s.trips(c.fn); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
