package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wsfs/internal/hosttree"
)

// While somebody swaps what is in its directory for links to elsewhere, one thing at a time and back, an apply writes, changes and removes nothing
// there: of new and changed files and directories, modes, links and removals. Some meet a swapped thing while they compare, some while they
// write, and some none.
func TestApplyIsRaced(t *testing.T) {
	o, c := newOutside(t), newCLI(t)
	next := t.TempDir()
	fill := func(dir, text string) {
		for _, sub := range []string{"d", "keep", "x"} {
			for _, name := range []string{"f", "keep", "d/f", "d/keep"} {
				c.file(dir+"/"+sub+"/"+name, text)
			}
		}
	}
	fill(next, "is\n")
	c.file(next+"/new/f", "new\n")
	for _, dir := range []string{"/d", "/d/d", "/keep", "/keep/d"} {
		if err := os.Chmod(next+dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.RemoveAll(next+"/x"), os.Symlink("keep", next+"/d/l"), unix.Mkfifo(next+"/keep/fifo", 0o622)); err != nil {
		t.Fatal(err)
	}
	c.want(0, "made store", "init")
	const staged = 8 + 1 + 1 + 1 // changed and new files, a link, a FIFO
	ended := map[string]int{}
	end := time.Now().Add(30 * time.Second)
	for i := 0; i < 8 || time.Now().Before(end) && !(ended["done"] > 0 && ended["met in comparing"] > 0 && ended["met in writing"] > 0); i++ {
		target := filepath.Join(t.TempDir(), "new")
		fill(target, "was\n")
		ws := fmt.Sprint("w", i)
		c.want(0, "imported", "import", target, ws)
		c.want(0, "imported", "import", next, ws)
		when := []int{0, staged, staged, 1 << 30}[i%4] // the last: never
		stop := swapOne(t, target, o.dir, when)
		code, out, errs := c.run("apply", ws, target)
		stop()
		o.same("after " + out + errs)
		switch said := out + errs; {
		case code == 0:
			ended["done"]++
		case code == 1 && (strings.Contains(said, "the same command goes on") || strings.Contains(said, "apply again")):
			ended["met in writing"]++
		case code == 1 || code == 4:
			ended["met in comparing"]++
		default:
			t.Fatalf("apply ended with %d: %s", code, said)
		}
	}
	t.Logf("applies by what became of them: %v", ended)
	for _, what := range []string{"done", "met in comparing", "met in writing"} {
		if ended[what] == 0 {
			t.Errorf("no apply was %s: the test tests nothing", what)
		}
	}
}

// swapOne puts a link to outside in the place of one thing after another below dir, each for a moment, and puts it back, as soon as an apply
// has staged so many things there.
func swapOne(t *testing.T, dir, outside string, staged int) (stopped func()) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	side := filepath.Join(filepath.Dir(dir), "side")
	wg.Go(func() {
		for !stop.Load() {
			found, _ := filepath.Glob(dir + "/" + hosttree.StagingPrefix + "*/*")
			if len(found) >= staged {
				break
			}
			time.Sleep(20 * time.Microsecond)
		}
		for !stop.Load() {
			all, _ := filepath.Glob(dir + "/[!x]*") // what goes is not put back: seldom
			for _, more := range []string{"/*/*", "/*/*/*", "/" + hosttree.StagingPrefix + "*"} {
				found, _ := filepath.Glob(dir + more)
				all = append(all, found...)
			}
			if len(all) == 0 {
				continue
			}
			path := all[rand.IntN(len(all))]
			if rand.IntN(2) == 0 { // rather a directory: there is more below
				path = filepath.Dir(path)
			}
			to := outside
			if st, err := os.Lstat(path); err == nil && !st.IsDir() {
				to += "/keep"
			}
			if path == dir || os.Symlink(to, side) != nil {
				continue
			}
			if unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, side, unix.RENAME_EXCHANGE) == nil {
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
				if unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, side, unix.RENAME_EXCHANGE) != nil { // it was removed
					_ = os.Rename(side, path)
				}
			}
			_ = os.RemoveAll(side) // the link, or what took its place
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		}
	})
	stopped = sync.OnceFunc(func() { stop.Store(true); wg.Wait() })
	t.Cleanup(stopped)
	return stopped
}
