package fs_test

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
)

// large is a world with a directory of n files, file i of i bytes, as the database has it.
func large(t testing.TB, n int) (*world, store.Ino) {
	w := newWorld(t)
	w.mkdir("d")
	for i := range n {
		w.write(fmt.Sprintf("d/f%03d", i), strings.Repeat("x", i))
	}
	w.mkdir("d/sub")
	w.must(w.fs.Sync(context.Background()))
	return w, w.again()
}

// again starts anew with limits that a directory of some 100 files is beyond.
func (w *world) again() store.Ino {
	w.reopen()
	w.fs.SetDirLimits(8, 20, 5, false)
	a, err := w.stat("d")
	w.must(err)
	return a.ID
}

func (w *world) names(dir store.Ino) (list []string) {
	d, err := w.fs.OpenDir(w.c, dir)
	w.must(err)
	defer d.Close()
	w.must(d.Read(w.c, 2, func(e fs.DirEntry) bool { list = append(list, e.Name); return true }))
	return list
}

// Names alone bring no attributes to memory; who asks for them has the right ones, one by one and all.
func TestLargeDirectory(t *testing.T) {
	const files = 200
	w, dir := large(t, files)
	before := w.fs.Nodes()
	if got := w.names(dir); len(got) != files+1 || !slices.IsSorted(got) {
		t.Fatalf("%d names: %q", len(got), got)
	}
	if n := w.fs.Nodes() - before; n > 0 {
		t.Errorf("names brought %d inodes", n)
	}
	for _, i := range []int{150, 7, 8, 9, 199} {
		if a := w.walk(fmt.Sprintf("d/f%03d", i)); a.Size != int64(i) || a.Nlink != 1 {
			t.Errorf("f%03d is %+v", i, a)
		}
	}
	if n := w.fs.Nodes() - before; n < 5 || n > 100 {
		t.Errorf("five lookups brought %d inodes", n)
	}
	d, err := w.fs.OpenDir(w.c, dir)
	w.must(err)
	defer d.Close()
	seen, off := 0, uint64(2)
	for more := true; more; {
		more = false
		w.must(d.ReadPlus(w.c, off, func(e fs.DirEntry, a *fs.Attr) bool {
			if more = true; a.Ino != e.Ino || e.Type == syscall.S_IFREG && fmt.Sprintf("f%03d", a.Size) != e.Name {
				t.Errorf("%+v has %+v", e, a)
			}
			seen++
			off = e.Cookie
			return seen%10 > 0 // a reply is full
		}))
	}
	if seen != files+1 {
		t.Errorf("%d entries with attributes", seen)
	}
}

// Behind a listing comes the rest, whatever changes meanwhile.
func TestFill(t *testing.T) {
	const files = 1200
	w, _ := large(t, 0)
	for i := range files {
		w.write(fmt.Sprintf("d/f%04d", i), "")
	}
	dir := w.again()
	w.fs.SetDirLimits(8, 20, 5, true)
	w.remove("d/f0500")
	d, err := w.fs.OpenDir(w.c, dir)
	w.must(err)
	defer d.Close()
	for i := range 100 {
		w.remove(fmt.Sprintf("d/f%04d", 800+i))
		w.write(fmt.Sprintf("d/new%04d", i), "x")
	}
	for end := time.Now().Add(time.Minute); w.fs.Nodes() < files; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d inodes are in memory", w.fs.Nodes(), files)
		}
	}
	for _, i := range []int{0, 799, 900, files - 1} {
		if a := w.walk(fmt.Sprintf("d/f%04d", i)); a.Size != 0 {
			t.Errorf("%+v", a)
		}
	}
	w.sameAfterReopen()
}

// A lookup in a directory that nobody has read asks for one name, until that is done often; changes are seen at once either way.
func TestLookupOfOne(t *testing.T) {
	w, _ := large(t, 100)
	listed := w.fs.Listed()
	if a := w.walk("d/f042"); a.Size != 42 {
		t.Errorf("%+v", a)
	}
	_, err := w.stat("d/nothing")
	w.is(err, syscall.ENOENT)
	if a := w.walk("d/sub"); a.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		t.Errorf("%+v", a)
	}
	if n := w.fs.Listed(); n != listed {
		t.Fatalf("three lookups read %d directories", n-listed)
	}
	if got := w.read("d/f042"); len(got) != 42 {
		t.Errorf("it reads %d bytes", len(got))
	}
	w.write("d/sub/below", "x") // the directory above is not read
	w.write("d/new", "x")       // now it is
	if n := w.fs.Listed(); n <= listed {
		t.Fatal("a file was made in a directory that was not read")
	}
	w.remove("d/f042")
	_, err = w.stat("d/f042")
	w.is(err, syscall.ENOENT)
	w.must(w.rename("d/f043", "d/f042", 0))
	if a := w.walk("d/f042"); a.Size != 43 {
		t.Errorf("%+v", a)
	}
	w.must(w.fs.Sync(context.Background()))
	dir := w.again()
	listed = w.fs.Listed()
	for i := range 10 {
		_, err := w.fs.Lookup(w.c, dir, fmt.Sprint("nothing", i))
		w.is(err, syscall.ENOENT)
	}
	if n := w.fs.Listed(); n != listed+1 {
		t.Errorf("%d directories were read after many lookups", n-listed)
	}
	if a := w.walk("d/f042"); a.Size != 43 {
		t.Errorf("%+v", a)
	}
}

// The same in a fork of a fork, where names come from several timelines.
func TestLargeDirectoryOfFork(t *testing.T) {
	w, _ := large(t, 60)
	for i := range 3 {
		w.at(w.fork(fmt.Sprint("fork", i)), fs.Options{}, func(o *world) {
			o.fs.SetDirLimits(8, 20, 5, false)
			_, err := o.stat("d/nothing")
			o.is(err, syscall.ENOENT)
			if a := o.walk("d/f033"); a.Size != 33 {
				t.Errorf("%+v", a)
			}
			o.remove("d/f033")
			_, err = o.stat("d/f033")
			o.is(err, syscall.ENOENT)
			o.write("d/f059", strings.Repeat("y", i))
			if got := o.names(o.walk("d").ID); len(got) != 60 {
				t.Errorf("%d names", len(got))
			}
			if got := o.read("d/f059"); got != strings.Repeat("y", i) {
				t.Errorf("it reads %q", got)
			}
		})
	}
	if a := w.walk("d/f033"); a.Size != 33 {
		t.Errorf("%+v", a)
	}
}

// While some make, remove and look up names, a listing shows each name that stays once, and every lookup is right.
func TestLargeDirectoryInUse(t *testing.T) {
	const files = 150
	w, _ := large(t, files)
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		dir := w.again()
		f := w.fs
		f.SetDirLimits(8, 20, 5, round%3 > 0)
		if round%2 == 1 {
			w.nodes = 50
			f.SetMaxNodes(50)
			w.evictor()
		}
		var g sync.WaitGroup
		for k := range 3 {
			g.Go(func() {
				r := rand.New(rand.NewSource(int64(10*round + k)))
				for range 60 {
					name := fmt.Sprintf("mine%d-%d", k, r.Intn(5)) // nobody else's
					a, h, err := f.Create(w.c, dir, name, 0o644, syscall.O_WRONLY)
					w.must(err)
					h.Release(w.c, 1)
					f.Forget(a.ID, 1)
					if r.Intn(2) == 0 {
						w.must(f.Unlink(w.c, dir, name))
						_, err = f.Lookup(w.c, dir, name)
						w.is(err, syscall.ENOENT)
					}
				}
			})
			g.Go(func() {
				r := rand.New(rand.NewSource(int64(1000 + 10*round + k)))
				for range 100 {
					i := r.Intn(files)
					a, err := f.Lookup(w.c, dir, fmt.Sprintf("f%03d", i))
					w.must(err)
					if a.Size != int64(i) {
						t.Errorf("f%03d is %+v", i, a)
					}
					f.Forget(a.ID, 1)
				}
			})
			g.Go(func() {
				for range 3 {
					d, err := f.OpenDir(w.c, dir)
					w.must(err)
					seen, off := map[string]int{}, uint64(2)
					for more := true; more; {
						more = false
						n := 0
						var ids []store.Ino
						w.must(d.ReadPlus(w.c, off, func(e fs.DirEntry, a *fs.Attr) bool {
							if n++; n > 7 {
								return false
							}
							more, off = true, e.Cookie
							seen[e.Name]++
							ids = append(ids, a.ID)
							return true
						}))
						for _, id := range ids {
							f.Forget(id, 1)
						}
					}
					d.Close()
					for i := range files {
						if n := seen[fmt.Sprintf("f%03d", i)]; n != 1 {
							t.Errorf("f%03d was listed %d times", i, n)
						}
					}
				}
			})
		}
		g.Wait()
		w.stop()
		w.nodes, w.stop = 0, func() {}
	}
	w.sameAfterReopen()
}

// BenchmarkColdDirectory is the first listing of a directory of 4,000 files, the first with attributes, and one lookup.
func BenchmarkColdDirectory(b *testing.B) {
	const files = 4000
	w, _ := large(b, 0)
	for i := range files {
		w.write(fmt.Sprintf("d/f%04d", i), "")
	}
	for name, use := range map[string]func(dir store.Ino){
		"names": func(dir store.Ino) {
			if n := len(w.names(dir)); n != files+1 {
				b.Fatal(n)
			}
		},
		"attributes": func(dir store.Ino) {
			d, err := w.fs.OpenDir(w.c, dir)
			w.must(err)
			defer d.Close()
			w.must(d.ReadPlus(w.c, 2, func(fs.DirEntry, *fs.Attr) bool { return true }))
		},
		"lookup": func(dir store.Ino) {
			_, err := w.fs.Lookup(w.c, dir, "f2345")
			w.must(err)
		},
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				w.reopen()
				a, err := w.stat("d")
				w.must(err)
				b.StartTimer()
				use(a.ID)
			}
		})
	}
}
