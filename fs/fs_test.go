package fs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// world is a store with one live workspace, closed and checked at the end of the test.
type world struct {
	t   testing.TB
	dir string
	st  *store.Store
	ws  *store.Workspace
	fs  *fs.FS
	c   *fs.Call

	nodes int    // fs.Options.MaxNodes; else memory is as full as it may be all the time
	stop  func() // of what evicts then
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "store"), c: &fs.Call{UID: 1, GID: 1, PID: 7}}
	ctx := context.Background()
	if err := store.Init(ctx, w.dir, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	w.open()
	ws, err := fs.NewWorkspace(ctx, w.st, "w", "", store.Attribution{})
	if err != nil {
		t.Fatal(err)
	}
	w.ws = ws
	w.live()
	t.Cleanup(func() {
		w.close()
		w.check()
	})
	return w
}

func (w *world) open() {
	w.t.Helper()
	st, err := store.Open(context.Background(), w.dir, sqlite.Driver(), store.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.st = st
}

func (w *world) live() {
	w.t.Helper()
	ws, err := w.st.Workspace(context.Background(), "w")
	if err != nil {
		w.t.Fatal(err)
	}
	if w.fs, err = fs.Open(context.Background(), w.st, ws, fs.Options{MaxNodes: w.nodes}); err != nil {
		w.t.Fatal(err)
	}
	if w.nodes == 1 {
		w.fs.SetDirLimits(2, 4, 3, true)
	}
	w.stop = func() {}
	if w.nodes > 0 {
		w.evictor()
	}
}

func (w *world) close() {
	w.t.Helper()
	w.stop()
	if err := w.fs.Close(); err != nil {
		w.t.Error(err)
	}
	if err := w.st.Close(); err != nil {
		w.t.Error(err)
	}
}

// crowd starts anew with a memory that is full: whatever can go goes at once, and a directory is large soon.
func (w *world) crowd() {
	w.t.Helper()
	w.nodes = 1
	w.reopen()
}

func (w *world) evictor() {
	var g sync.WaitGroup
	f, end := w.fs, make(chan struct{})
	w.stop = func() { close(end); g.Wait() }
	g.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(100 * time.Microsecond):
				f.Evict()
			}
		}
	})
}

// reopen ends everything and starts anew: what follows is read from the database.
func (w *world) reopen() {
	w.t.Helper()
	w.close()
	w.open()
	w.live()
}

func (w *world) check() {
	w.t.Helper()
	st, err := store.Open(context.Background(), w.dir, sqlite.Driver(), store.Options{ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer st.Close()
	if err := st.Check(context.Background(), func(p store.Problem) { w.t.Errorf("check: %+v", p) }); err != nil {
		w.t.Error(err)
	}
}

// walk finds the inode of a path, or fails the test.
func (w *world) walk(path string) fs.Attr {
	w.t.Helper()
	a, err := w.stat(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) stat(path string) (fs.Attr, error) {
	a, err := w.fs.GetAttr(w.c, store.RootIno, nil)
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' }) {
		if a, err = w.fs.Lookup(w.c, a.ID, name); err != nil {
			return a, err
		}
		w.fs.Forget(a.ID, 1)
	}
	return a, err
}

func (w *world) split(path string) (store.Ino, string) {
	w.t.Helper()
	dir, name := filepath.Split(path)
	return w.walk(dir).ID, name
}

// write is open(O_CREAT|O_TRUNC), write, close.
func (w *world) write(path, data string) {
	w.t.Helper()
	dir, name := w.split(path)
	_, h, err := w.fs.Create(w.c, dir, name, 0o644, syscall.O_WRONLY|syscall.O_TRUNC)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(data) > 0 {
		if _, err := h.WriteAt(w.c, []byte(data), 0, false); err != nil {
			w.t.Fatal(err)
		}
	}
	w.must(h.Flush(w.c, 1))
	h.Release(w.c, 1)
}

func (w *world) read(path string) string {
	w.t.Helper()
	a := w.walk(path)
	h, err := w.fs.Open(w.c, a.ID, syscall.O_RDONLY)
	if err != nil {
		w.t.Fatal(err)
	}
	defer h.Release(w.c, 1)
	buf := make([]byte, a.Size+10)
	n, err := h.ReadAt(w.c, buf, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(buf[:n])
}

func (w *world) mkdir(path string) {
	w.t.Helper()
	dir, name := w.split(path)
	if _, err := w.fs.Mkdir(w.c, dir, name, 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(path string) {
	w.t.Helper()
	dir, name := w.split(path)
	w.must(w.fs.Unlink(w.c, dir, name))
}

func (w *world) rename(from, to string, flags uint32) error {
	d1, n1 := w.split(from)
	d2, n2 := w.split(to)
	return w.fs.Rename(w.c, d1, n1, d2, n2, flags)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) is(got error, want syscall.Errno) {
	w.t.Helper()
	if !errors.Is(got, want) {
		w.t.Fatalf("got %v, want %v", got, want)
	}
}

// versions counts the changes that touched the inode now at path.
func (w *world) versions(path string) int {
	w.t.Helper()
	ino := w.walk(path).Ino
	w.must(w.st.Apply(context.Background(), w.st.Last()))
	view, err := w.st.ViewAt(context.Background(), w.ws.Timeline, store.MaxSeq)
	w.must(err)
	n := 0
	w.must(w.st.Changes(context.Background(), store.ChangeQuery{View: view, Ino: ino}, func(*store.ChangeRow) error {
		n++
		return nil
	}))
	return n
}

func TestTreeSurvivesReopen(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	w.write("d/f", "hello")
	w.write("d/empty", "")
	w.mkdir("d/e")
	dir, _ := w.split("d/x")
	_, err := w.fs.Symlink(w.c, dir, "l", "to/somewhere")
	w.must(err)
	_, err = w.fs.Link(w.c, w.walk("d/f").Ino, w.walk("d/e").Ino, "hard")
	w.must(err)
	w.must(w.rename("d/f", "d/e/g", 0))
	big := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB: a content tree through a scratch file
	w.write("big", big)
	before := map[string]fs.Attr{}
	for _, p := range []string{"", "d", "d/e", "d/e/g", "d/e/hard", "d/l", "d/empty", "big"} {
		before[p] = w.walk(p)
	}
	w.reopen()
	for p, a := range before {
		b := w.walk(p)
		if a.Ino != b.Ino || a.Mode != b.Mode || a.Nlink != b.Nlink || a.Mtime != b.Mtime || !strings.HasPrefix(p, "d") && a.Size != b.Size {
			t.Errorf("%q: before %+v after %+v", p, a, b)
		}
	}
	if got := w.read("d/e/g"); got != "hello" {
		t.Errorf("g is %q", got)
	}
	if w.read("big") != big {
		t.Error("big differs")
	}
	if a := w.walk("d/e/hard"); a.Nlink != 2 {
		t.Errorf("nlink %d", a.Nlink)
	}
}

func TestEveryCloseIsOneVersion(t *testing.T) {
	w := newWorld(t)
	w.write("f", "1")
	if n := w.versions("f"); n != 1 {
		t.Errorf("create and write made %d versions, want 1", n)
	}
	w.write("f", "2")
	if n := w.versions("f"); n != 2 {
		t.Errorf("after a rewrite %d versions, want 2", n)
	}
	h, err := w.fs.Open(w.c, w.walk("f").Ino, syscall.O_WRONLY|syscall.O_TRUNC)
	w.must(err)
	// echo x > f: a duplicate is closed before anything is written.
	w.must(h.Flush(w.c, 1))
	if n := w.versions("f"); n != 2 {
		t.Errorf("a truncation alone made a version: %d", n)
	}
	for i := range 3 { // for i in 1 2 3; do echo $i; done > f
		_, err := h.WriteAt(w.c, []byte("x"), int64(i), false)
		w.must(err)
		w.must(h.Flush(w.c, 1))
	}
	h.Release(w.c, 1)
	if n := w.versions("f"); n != 3 {
		t.Errorf("a loop through one descriptor made %d versions in all, want 3", n)
	}
	if got := w.read("f"); got != "xxx" {
		t.Errorf("f is %q", got)
	}
	w.reopen()
	if got := w.read("f"); got != "xxx" {
		t.Errorf("after reopening f is %q", got)
	}
}

func TestRenameForms(t *testing.T) {
	w := newWorld(t)
	w.write("a", "A")
	w.write("b", "B")
	w.is(w.rename("a", "b", fs.RenameNoReplace), syscall.EEXIST)
	w.must(w.rename("a", "b", fs.RenameExchange))
	if w.read("a")+w.read("b") != "BA" {
		t.Error("exchange")
	}
	w.must(w.rename("a", "b", 0))
	if _, err := w.stat("a"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a still there: %v", err)
	}
	w.mkdir("d")
	w.mkdir("d/e")
	w.is(w.rename("d", "d/e/x", 0), syscall.EINVAL)
	w.is(w.rename("b", "d", 0), syscall.EISDIR)
	w.is(w.rename("d", "b", 0), syscall.ENOTDIR)
	w.mkdir("empty")
	w.must(w.rename("d", "empty", 0))
	w.is(w.rename("empty/e", "empty", 0), syscall.ENOTEMPTY)
	if a := w.walk("empty"); a.Nlink != 3 {
		t.Errorf("nlink %d", a.Nlink)
	}
	if a := w.walk(""); a.Nlink != 3 {
		t.Errorf("root nlink %d", a.Nlink)
	}
}

func TestOpenUnlinkedFileLivesOn(t *testing.T) {
	w := newWorld(t)
	w.write("f", "data")
	h, err := w.fs.Open(w.c, w.walk("f").Ino, syscall.O_RDWR)
	w.must(err)
	w.remove("f")
	_, err = h.WriteAt(w.c, []byte("D"), 0, false)
	w.must(err)
	buf := make([]byte, 4)
	n, err := h.ReadAt(w.c, buf, 0)
	w.must(err)
	a, err := w.fs.GetAttr(w.c, h.ID(), h)
	w.must(err)
	if string(buf[:n]) != "Data" || a.Nlink != 0 {
		t.Errorf("%q nlink %d", buf[:n], a.Nlink)
	}
	w.write("f", "new")
	h.Release(w.c, 1)
	if w.read("f") != "new" {
		t.Error("the orphan's bytes reached the new file")
	}
}

func TestReaddirWhileEntriesComeAndGo(t *testing.T) {
	w := newWorld(t)
	for i := range 300 {
		w.write(fmt.Sprintf("f%03d", i), "")
	}
	d, err := w.fs.OpenDir(w.c, store.RootIno)
	w.must(err)
	defer d.Close()
	seen := map[string]int{}
	var off uint64
	for {
		k := 0
		w.must(d.Read(w.c, off, func(e fs.DirEntry) bool {
			if k == 10 {
				return false
			}
			k++
			seen[e.Name]++
			off = e.Cookie
			return true
		}))
		if k == 0 {
			break
		}
		for name := range seen {
			if name[0] == 'f' && name < "f250" {
				if _, err := w.stat(name); err == nil {
					w.remove(name)
				}
			}
		}
	}
	for i := range 300 {
		if name := fmt.Sprintf("f%03d", i); seen[name] != 1 {
			t.Errorf("%s was listed %d times", name, seen[name])
		}
	}
}

func TestRandomFileAgainstBytes(t *testing.T) {
	for _, max := range []int{5000, 300_000, 3 << 20} {
		t.Run(fmt.Sprint(max), func(t *testing.T) {
			w := newWorld(t)
			rnd := rand.New(rand.NewSource(int64(max)))
			var model []byte
			w.write("f", "")
			ino := w.walk("f").Ino
			h, err := w.fs.Open(w.c, ino, syscall.O_RDWR)
			w.must(err)
			for range 150 {
				off := rnd.Intn(max)
				switch rnd.Intn(8) {
				case 0:
					size := int64(rnd.Intn(max))
					_, err := w.fs.SetAttr(w.c, ino, h, fs.SetAttr{Size: &size})
					w.must(err)
					model = resized(model, int(size))
				case 1:
					w.must(h.Flush(w.c, 1))
				case 2:
					h.Release(w.c, 1)
					if rnd.Intn(4) == 0 {
						w.reopen()
					}
					h, err = w.fs.Open(w.c, ino, syscall.O_RDWR)
					w.must(err)
				case 3:
					n := 1 + rnd.Intn(max/4)
					w.must(h.Fallocate(w.c, uint64(off), uint64(n), 3)) // punch a hole, keep the size
					if off < len(model) {
						clear(model[off:min(len(model), off+n)])
					}
				default:
					p := make([]byte, 1+rnd.Intn(max/4))
					rnd.Read(p)
					_, err := h.WriteAt(w.c, p, int64(off), false)
					w.must(err)
					model = resized(model, max2(len(model), off+len(p)))
					copy(model[off:], p)
				}
				got := make([]byte, len(model)+7)
				n, err := h.ReadAt(w.c, got, 0)
				w.must(err)
				if !bytes.Equal(got[:n], model) {
					t.Fatalf("content differs: %d bytes, want %d", n, len(model))
				}
			}
			h.Release(w.c, 1)
			w.reopen()
			if w.read("f") != string(model) {
				t.Error("content differs after reopening")
			}
		})
	}
}

func resized(b []byte, n int) []byte {
	if n <= len(b) {
		return b[:n:n]
	}
	return append(b, make([]byte, n-len(b))...)
}

func max2(a, b int) int { return max(a, b) }

func TestImportAndReimport(t *testing.T) {
	w := newWorld(t)
	host := t.TempDir()
	hostTree(t, host)
	ctx := context.Background()
	res, err := w.fs.Import(ctx, host, store.Attribution{}, nil, nil)
	w.must(err)
	if res.Added != 6 || res.Seq == 0 {
		t.Errorf("first import: %+v", res)
	}
	if w.read("d/f") != "content" || w.walk("d/f").Nlink != 2 || w.walk("d/f").Ino != w.walk("hard").Ino {
		t.Error("tree is not what was imported")
	}
	res, err = w.fs.Import(ctx, host, store.Attribution{}, nil, nil)
	w.must(err)
	if res.Seq != 0 || res.Added+res.Changed+res.Removed != 0 {
		t.Errorf("nothing changed, and a second import did: %+v", res)
	}
	changeHostTree(t, host)
	seq := res.Seq
	res, err = w.fs.Import(ctx, host, store.Attribution{}, nil, nil)
	w.must(err)
	if res.Seq == seq || res.Changed == 0 || res.Removed == 0 {
		t.Errorf("third import: %+v", res)
	}
	w.reopen()
	if w.read("d/f") != "changed" {
		t.Errorf("d/f is %q", w.read("d/f"))
	}
	if _, err := w.stat("l"); !errors.Is(err, syscall.ENOENT) {
		t.Error("l was not removed")
	}
}

// TestDirectoryTimesKeepTheirParent: the versions of a directory that one group merges are gone, and a later amendment
// of the one that stayed must not name them.
func TestDirectoryTimesKeepTheirParent(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	for i := range 5 {
		w.write(fmt.Sprint("d/", i), "x")
	}
	w.must(w.st.Apply(context.Background(), w.st.Last()))
	dir, _ := w.split("d/x")
	_, h, err := w.fs.Create(w.c, dir, "temporary", 0o644, syscall.O_WRONLY)
	w.must(err)
	w.remove("d/temporary")
	h.Release(w.c, 1)
	w.must(w.fs.Sync(context.Background())) // stores the directory's times without a change
	w.sameAfterReopen()
}
