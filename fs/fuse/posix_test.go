package fuse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
)

// startStore mounts a new workspace of a real store.
func startStore(t testing.TB, c serveConfig) *server {
	t.Helper()
	c.Store = filepath.Join(t.TempDir(), "store")
	return startServer(t, c)
}

// TestPosix runs the library's own suite on a real mount, with either transport.
func TestPosix(t *testing.T) {
	for _, tr := range transports() {
		s := startStore(t, serveConfig{Options: Options{Transport: tr}})
		for name, test := range posixtest.All {
			if name == "FcntlFlockLocksFile" {
				// It wants a second descriptor of the same process to be refused, as a server that locks in its own
				// name refuses it; fcntl(2) says that a process does not conflict with itself.
				continue
			}
			t.Run(string(tr)+"/"+name, func(t *testing.T) {
				dir := s.path(name)
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				test(t, dir)
			})
		}
	}
}

// TestListingsFollowChanges: the kernel caches listings, so every way a directory can change must reach the next one,
// on the mount that changed it at once and on another mount once it was told.
func TestListingsFollowChanges(t *testing.T) {
	second := filepath.Join(t.TempDir(), "second")
	if err := os.Mkdir(second, 0o755); err != nil {
		t.Fatal(err)
	}
	s := startStore(t, serveConfig{Second: second})
	t.Cleanup(func() { _ = UnmountPath(t.Context(), second, true) })
	a, b := s.point, second
	list := func(dir string) []string {
		names, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, n := range names {
			out = append(out, n.Name())
		}
		slices.Sort(out)
		return out
	}
	want := []string{}
	// check looks twice, since the second listing comes from the cache.
	check := func(what, changed string) {
		t.Helper()
		for range 2 {
			if got := list(changed); !slices.Equal(got, want) {
				t.Fatalf("after %s: %v, want %v", what, got, want)
			}
		}
		waitFor(t, func() bool { return slices.Equal(list(a), want) && slices.Equal(list(b), want) })
	}
	step := func(what, changed string, err error, names ...string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		want = names
		check(what, changed)
	}
	check("nothing", a)
	step("create", a, os.WriteFile(a+"/f", nil, 0o644), "f")
	step("create elsewhere", b, os.WriteFile(b+"/g", nil, 0o644), "f", "g")
	step("mkdir", a, os.Mkdir(a+"/d", 0o755), "d", "f", "g")
	step("rename", b, os.Rename(b+"/f", b+"/h"), "d", "g", "h")
	step("rename over", a, os.Rename(a+"/g", a+"/h"), "d", "h")
	step("link", a, os.Link(a+"/h", a+"/i"), "d", "h", "i")
	step("symlink", b, os.Symlink("h", b+"/s"), "d", "h", "i", "s")
	step("unlink", a, os.Remove(a+"/i"), "d", "h", "s")
	step("move away", b, os.Rename(b+"/h", b+"/d/h"), "d", "s")
	step("rmdir", a, errors.Join(os.Remove(a+"/d/h"), os.Remove(a+"/d")), "s")
	for i := range 300 { // more than one READDIR holds
		if err := os.WriteFile(fmt.Sprintf("%s/n%03d", a, i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("n%03d", i))
	}
	slices.Sort(want)
	check("many creates", a)
	d, err := os.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Readdirnames(10); err != nil {
		t.Fatal(err)
	}
	step("unlink while a listing is half read", b, os.Remove(b+"/n150"), slices.DeleteFunc(slices.Clone(want), func(n string) bool { return n == "n150" })...)
	if _, err := d.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	again, err := d.Readdirnames(-1)
	slices.Sort(again)
	if err != nil || !slices.Equal(again, want) {
		t.Errorf("after rewinding: %d names, %v, want %d", len(again), err, len(want))
	}
}

// TestListingsUnderChange lists while others create, remove and rename: a name that nobody touches must be in every
// listing once, and when all is quiet both mounts must agree with what can be looked up.
func TestListingsUnderChange(t *testing.T) {
	second := filepath.Join(t.TempDir(), "second")
	if err := os.Mkdir(second, 0o755); err != nil {
		t.Fatal(err)
	}
	s := startStore(t, serveConfig{Second: second})
	t.Cleanup(func() { _ = UnmountPath(t.Context(), second, true) })
	mounts := []string{s.point, second}
	const stable = 300 // more than one READDIR
	for i := range stable {
		if err := os.WriteFile(fmt.Sprintf("%s/stable%d", s.point, i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for {
				select {
				case <-stop:
					return
				default:
				}
				name := func() string { return fmt.Sprintf("%s/w%d-%d", mounts[w%2], w, rnd.IntN(20)) }
				switch rnd.IntN(3) {
				case 0:
					_ = os.WriteFile(name(), []byte("x"), 0o644)
				case 1:
					_ = os.Remove(name())
				case 2:
					_ = os.Rename(name(), name())
				}
			}
		})
	}
	list := func(dir string) []string {
		d, err := os.Open(dir)
		if err != nil {
			t.Error(err)
			return nil
		}
		defer d.Close()
		names, err := d.Readdirnames(-1)
		if err != nil {
			t.Error(err)
		}
		slices.Sort(names)
		return names
	}
	for i := range 150 {
		count := 0
		for _, n := range list(mounts[i%2]) {
			if strings.HasPrefix(n, "stable") {
				count++
			}
		}
		if count != stable {
			t.Errorf("listing %d has %d names that nobody touches, want %d", i, count, stable)
			break
		}
	}
	close(stop)
	wg.Wait()
	waitFor(t, func() bool {
		a, b := list(mounts[0]), list(mounts[1])
		if !slices.Equal(a, b) || len(slices.Compact(slices.Clone(a))) != len(a) {
			return false
		}
		for _, dir := range mounts {
			for _, n := range a {
				if _, err := os.Lstat(filepath.Join(dir, n)); err != nil {
					return false
				}
			}
		}
		return true
	})
}

// TestContentFollowsChanges: pages and attributes that one mount's kernel caches must give way to what another mount
// wrote, whatever the size does, and a reader never sees zeros that nobody wrote.
func TestContentFollowsChanges(t *testing.T) {
	second := filepath.Join(t.TempDir(), "second")
	if err := os.Mkdir(second, 0o755); err != nil {
		t.Fatal(err)
	}
	s := startStore(t, serveConfig{Second: second})
	t.Cleanup(func() { _ = UnmountPath(t.Context(), second, true) })
	mounts := [2]string{s.point, second}
	read := func(i int) string {
		b, err := os.ReadFile(mounts[i] + "/f")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for i, content := range []string{
		"one", "two", "longer than that", "short", strings.Repeat("x", 200_000), strings.Repeat("y", 200_000), "z",
	} {
		writer, reader := i%2, 1-i%2
		if i > 0 {
			_ = read(reader) // into its cache
		}
		if err := os.WriteFile(mounts[writer]+"/f", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := read(writer); got != content {
			t.Fatalf("write %d: its own mount reads %d bytes, want %d", i, len(got), len(content))
		}
		waitFor(t, func() bool {
			got := read(reader)
			if strings.Contains(got, "\x00") {
				t.Errorf("write %d: the other mount reads zeros", i)
			}
			return got == content
		})
		st, err := os.Stat(mounts[reader] + "/f")
		if err != nil || st.Size() != int64(len(content)) {
			t.Errorf("write %d: size %d, want %d (%v)", i, st.Size(), len(content), err)
		}
	}
	if err := os.Chmod(mounts[0]+"/f", 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { st, err := os.Stat(mounts[1] + "/f"); return err == nil && st.Mode().Perm() == 0o600 })
	if err := os.Remove(mounts[1] + "/f"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { _, err := os.Stat(mounts[0] + "/f"); return errors.Is(err, syscall.ENOENT) })
}
