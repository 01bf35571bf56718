package fs_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
)

// keptWorld is a world whose workspace notes what is open in a ledger.
func keptWorld(t *testing.T) (*world, *fs.Ledger) {
	t.Helper()
	w := newWorld(t)
	l, err := fs.NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nothing is in it any more
	w.must(w.fs.Close())
	w.liveWith(l, 0)
	return w, l
}

func (w *world) liveWith(l *fs.Ledger, starts int) {
	w.t.Helper()
	ws, err := w.st.Workspace(context.Background(), "w")
	if err != nil {
		w.t.Fatal(err)
	}
	if w.fs, err = fs.Open(context.Background(), w.st, ws, fs.Options{Ledger: l, Starts: starts}); err != nil {
		w.t.Fatal(err)
	}
}

// takeOver goes on as the process after a kill does: with the store, and what is in the ledger.
func (w *world) takeOver(l *fs.Ledger) {
	w.t.Helper()
	old := w.fs
	w.t.Cleanup(func() { _ = old.Close() }) // its store is closed
	_ = w.st.Close()                        // it gives the lock back, and may say that it had stopped
	fd, err := unix.Dup(l.FD())
	if err != nil {
		w.t.Fatal(err)
	}
	next, err := fs.OpenLedger(fd)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = next.Close() }) // nothing is in it any more
	w.open()
	w.liveWith(next, 1)
}

// opened opens a file as a kernel does that calls it fh.
func (w *world) opened(path string, flags uint32, fh uint64) *fs.Handle {
	w.t.Helper()
	h, err := w.fs.Open(w.c, w.walk(path).ID, flags)
	if err != nil {
		w.t.Fatal(err)
	}
	w.fs.Opened(w.c, h, 1, fh, flags, 0)
	return h
}

// breakJournal lets no byte more get to the journal.
func (w *world) breakJournal() {
	w.t.Helper()
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer unix.Close(null)
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, e := range list {
		at, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || !strings.HasPrefix(at, filepath.Join(w.dir, "journal")+"/") {
			continue
		}
		fd, err := strconv.Atoi(e.Name())
		w.must(err)
		n++
		w.must(unix.Dup3(null, fd, unix.O_CLOEXEC))
	}
	if n == 0 {
		w.t.Fatal("no journal is open")
	}
}

// A truncation that close(2) acknowledged is there, also if its version, made when the file is released, did not get to the journal any
// more because the store has stopped: the next process finds it in the ledger.
func TestTruncationOutlivesStoppedStore(t *testing.T) {
	w, l := keptWorld(t)
	w.write("f", "content")
	w.write("g", "")
	h := w.opened("f", syscall.O_WRONLY|syscall.O_TRUNC, 1)
	// Others have come and gone meanwhile: there is so much in the ledger that it begins anew when nothing is open.
	g := w.opened("g", syscall.O_WRONLY, 2)
	for i := range 16 {
		if _, err := g.WriteAt(w.c, make([]byte, 32<<10), int64(i)*(32<<10), false); err != nil {
			t.Fatal(err)
		}
	}
	w.must(g.Flush(w.c, 1))
	g.Release(w.c, 1)
	w.must(h.Flush(w.c, 1)) // acknowledged
	w.breakJournal()
	h.Release(w.c, 1)
	w.takeOver(l)
	if a, err := w.stat("f"); err != nil || a.Size != 0 {
		t.Errorf("what was truncated has %d bytes (%v)", a.Size, err)
	}
	w.must(w.fs.Sync(t.Context()))
	w.reopen()
	if got := w.read("f"); got != "" {
		t.Errorf("what was truncated holds %q in the database", got)
	}
	if got := w.read("g"); len(got) != 16*(32<<10) {
		t.Errorf("what was closed before has %d bytes", len(got))
	}
}

// A file that was unlinked while it was open and had grown beyond one blob goes on in the next process, and a collection finds what it
// needs: the content that it lies over, with the size of that.
func TestCollectBesideTakenOverOrphan(t *testing.T) {
	w, l := keptWorld(t)
	was := make([]byte, 3000)
	rand.Read(was)
	w.write("f", string(was))
	h := w.opened("f", syscall.O_RDWR, 1)
	at := int64(blob.MaxBlob) + 1000
	if _, err := h.WriteAt(w.c, []byte("end"), at, false); err != nil {
		t.Fatal(err)
	}
	w.remove("f")
	w.takeOver(l)
	if _, err := w.st.Collect(context.Background(), store.GCOptions{
		Keep: &store.Retention{Tiers: []store.Tier{{For: 1}}, Dropped: 1}, Roots: w.fs.Contents, Thorough: true,
	}); err != nil {
		t.Errorf("collect: %v", err)
	}
	list := w.fs.Restored(1)
	if len(list) != 1 || list[0].Handle == nil {
		t.Fatalf("what is open again: %+v", list)
	}
	got := make([]byte, at+10)
	n, err := list[0].Handle.ReadAt(w.c, got, 0)
	want := append(append(bytes.Clone(was), make([]byte, at-3000)...), "end"...)
	if err != nil || !bytes.Equal(got[:n], want) {
		t.Errorf("the file has %d bytes (%v), %d of them as they were", n, err, len(want))
	}
	list[0].Handle.Release(w.c, 1)
}
