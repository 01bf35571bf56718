package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// outside is a place that nothing may be written to, changed or removed in.
type outside struct {
	t    *testing.T
	dir  string
	want string
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{t: t, dir: t.TempDir()}
	for _, name := range []string{"f", "keep"} {
		if err := os.WriteFile(o.dir+"/"+name, []byte("outside"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"d", "new"} {
		if err := os.Mkdir(o.dir+"/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(o.dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	o.want = o.look()
	return o
}

// look is all that is there: names, types, permissions, owners, times of change of the content, and texts.
func (o *outside) look() string {
	o.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(o.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %o %d %d %d", path, st.Mode, st.Uid, st.Gid, st.Mtim.Nano())
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", text)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		o.t.Error(err)
	}
	return b.String()
}

func (o *outside) same(when string) {
	o.t.Helper()
	if got := o.look(); got != o.want {
		o.t.Fatalf("%s: outside there is now\n%swhere there was\n%s", when, got, o.want)
	}
}

// swapper puts links in the place of whatever it finds at dir and below, until the test ends or it is stopped: symbolic links to outside and,
// for what is no directory, another link of a FIFO there. It goes by descriptors: its own links must not lead it outside.
//
// It pauses for so long after each turn: one that never does lets nothing come far. leave: some of it stays.
func swapper(t *testing.T, dir string, o *outside, leave bool, pause time.Duration) (stopped func()) {
	above, err := unix.Open(filepath.Dir(dir), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for k := range 2 {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				turn := n
				if !leave {
					turn = 1 + n%2
				}
				swapBelow(above, filepath.Base(dir), fmt.Sprintf("evil%d", k), o.dir, turn, 2)
				time.Sleep(pause)
			}
		})
	}
	stopped = sync.OnceFunc(func() { stop.Store(true); wg.Wait(); _ = unix.Close(above) })
	t.Cleanup(stopped)
	return stopped
}

func swapBelow(at int, name, link, outside string, n, levels int) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if dir && levels > 0 {
		if fd, err := unix.Openat(at, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			f := os.NewFile(uintptr(fd), name)
			names, _ := f.Readdirnames(-1)
			for _, sub := range names {
				swapBelow(fd, sub, link, outside, n, levels-1)
			}
			_ = f.Close()
		}
	}
	var err error
	switch {
	case dir:
		err = unix.Symlinkat(outside, at, link)
	case n%2 == 0:
		err = unix.Linkat(unix.AT_FDCWD, outside+"/fifo", at, link, 0)
	default:
		err = unix.Symlinkat(outside+"/keep", at, link)
	}
	if err == nil && unix.Renameat2(at, name, at, link, unix.RENAME_EXCHANGE) == nil && n%3 > 0 {
		_ = unix.Renameat2(at, name, at, link, unix.RENAME_EXCHANGE)
	}
	if unix.Unlinkat(at, link, 0) != nil && n%3 == 0 {
		_ = unix.Unlinkat(at, link, unix.AT_REMOVEDIR)
	}
}

// While somebody who can write to the directory, and to the one above, swaps what is there for links, an export writes,
// changes and removes nothing elsewhere, whether it ends well or is cleared away.
func TestExportIsRaced(t *testing.T) {
	src, o, c := t.TempDir(), newOutside(t), newCLI(t)
	for i := range 12 {
		sub := fmt.Sprintf("%s/d%02d", src, i)
		for _, name := range []string{"f", "keep", "d/f"} {
			c.file(sub+"/"+name, strings.Repeat("inside\n", 10))
		}
		if err := os.Symlink("keep", sub+"/l"); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(sub+"/fifo", 0o622); err != nil {
			t.Fatal(err)
		}
	}
	c.want(0, "made store", "init")
	c.want(0, "imported", "import", src, "main")
	target := filepath.Join(t.TempDir(), "new")
	swapper(t, target, o, true, 0)
	end, ended := time.Now().Add(time.Second), map[int]int{}
	for i := 0; i < 10 || time.Now().Before(end) && i < 500; i++ {
		code, out, errs := c.run("export", "main", target)
		if ended[code]++; code != 0 && code != 1 {
			t.Fatalf("export ended with %d: %s%s", code, out, errs)
		}
		o.same("after " + out + errs)
		_ = os.RemoveAll(target) // or a link of that name
	}
	t.Logf("exports by exit code: %v", ended)
}
