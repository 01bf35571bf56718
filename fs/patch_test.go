package fs_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// slow opens the store so that the database gets nothing before somebody waits for it.
func (w *world) slow() {
	w.t.Helper()
	w.close()
	st, err := store.Open(context.Background(), w.dir, sqlite.Driver(), store.Options{GroupDelay: time.Hour})
	w.must(err)
	w.st = st
	w.live()
}

// big makes a file f of 12 MiB, closed and in the database.
func (w *world) big(r *rand.Rand) []byte {
	w.t.Helper()
	data := make([]byte, 12<<20)
	for i := 0; i < len(data); i += 8 {
		data[i], data[i+1], data[i+2] = byte(r.Uint32()), byte(r.Uint32()), byte(i)
	}
	w.write("f", string(data))
	w.must(w.fs.Sync(context.Background()))
	return data
}

// scatter writes n times 4 KiB all over f, in the file and in data.
func (w *world) scatter(h *fs.Handle, r *rand.Rand, data []byte, n int) {
	w.t.Helper()
	p := make([]byte, 4096)
	for range n {
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		off := r.Int64N(int64(len(data)-len(p))) &^ 511
		if _, err := h.WriteAt(w.c, p, off, true); err != nil {
			w.t.Fatal(err)
		}
		copy(data[off:], p)
	}
}

func (w *world) same(when string, data []byte) {
	w.t.Helper()
	h, err := w.fs.Open(w.c, w.walk("f").ID, syscall.O_RDONLY)
	w.must(err)
	defer h.Release(w.c, 0)
	got := make([]byte, len(data)+1)
	n := 0
	for n < len(got) {
		k, err := h.ReadAt(w.c, got[n:min(len(got), n+1<<20)], int64(n))
		w.must(err)
		if k == 0 {
			break
		}
		n += k
	}
	if !bytes.Equal(got[:n], data) {
		w.t.Fatalf("%s: %d bytes read of %d, or other ones", when, n, len(data))
	}
}

// Small writes all over a large file: fsync writes down what was written, and the tree is made behind it. Nobody sees
// a difference, and the database gets what a program that wrote the file whole would have left.
func TestScatteredWrites(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(1, 2))
	data := w.big(r)
	w.slow()
	ino := w.walk("f").ID
	h, err := w.fs.Open(w.c, ino, syscall.O_RDWR)
	w.must(err)
	w.scatter(h, r, data, 200)
	w.same("dirty", data)
	w.must(h.Fsync(w.c, false))
	if w.fs.Unsettled() != 1 {
		t.Fatal("fsync worked the content out: this test tests nothing")
	}
	w.same("after fsync", data)
	mode := uint32(0o600)
	_, err = w.fs.SetAttr(w.c, ino, nil, fs.SetAttr{Mode: &mode})
	w.must(err)
	w.same("after chmod", data)

	// What a killed daemon leaves: all of it is in the journal and the packs.
	dead := filepath.Join(t.TempDir(), "dead")
	w.must(os.CopyFS(dead, os.DirFS(w.dir)))
	after := &world{t: t, dir: dead, c: w.c}
	after.open()
	after.live()
	after.same("after a kill", data)
	if got := after.walk("f").Mode & 0o777; got != mode {
		t.Errorf("mode %o after a kill", got)
	}
	after.close()
	after.check()

	// Over a provisional content nothing is written.
	w.scatter(h, r, data, 3)
	w.must(h.Fsync(w.c, false))
	if w.fs.Unsettled() != 0 {
		t.Error("a few bytes were put off")
	}
	w.same("written again", data)
	w.scatter(h, r, data, 200)
	if _, err := h.WriteAt(w.c, []byte("grows"), int64(len(data)), true); err != nil {
		t.Fatal(err)
	}
	data = append(data, "grows"...)
	w.must(h.Flush(w.c, 0))
	h.Release(w.c, 0)
	if w.fs.Unsettled() != 1 {
		t.Error("a close worked the content out")
	}
	w.same("closed", data)
	w.must(w.fs.Sync(context.Background()))
	if w.fs.Unsettled() != 0 {
		t.Error("still provisional after everything was applied")
	}
	w.same("settled", data)
	want, _, err := w.st.Blobs().Edit(t.Context(), blob.Content{}, int64(len(data)), []blob.Extent{{Len: int64(len(data))}}, bytes.NewReader(data))
	w.must(err)
	w.st.Blobs().Applied([]blob.Staged{want})
	view, err := w.st.ViewOf(t.Context(), w.ws)
	w.must(err)
	v, err := view.Version(t.Context(), ino)
	w.must(err)
	if v.Content != want.Content.Ref || v.Size != want.Content.Size {
		t.Errorf("the database has %v of %d bytes, want %v of %d", v.Content, v.Size, want.Content.Ref, want.Content.Size)
	}
	w.reopen()
	w.same("from the database", data)
}

// A file whose content is provisional is unlinked, truncated, renamed over, held.
func TestScatteredThen(t *testing.T) {
	for name, then := range map[string]func(w *world, h *fs.Handle, data []byte) []byte{
		"unlink": func(w *world, h *fs.Handle, data []byte) []byte {
			w.must(w.fs.Unlink(w.c, store.RootIno, "f"))
			w.write("f", "new")
			return []byte("new")
		},
		"truncate": func(w *world, h *fs.Handle, data []byte) []byte {
			size := int64(100_000)
			_, err := w.fs.SetAttr(w.c, h.ID(), h, fs.SetAttr{Size: &size})
			w.must(err)
			return data[:size]
		},
		"rename": func(w *world, h *fs.Handle, data []byte) []byte {
			w.must(w.fs.Rename(w.c, store.RootIno, "f", store.RootIno, "g", 0))
			w.must(w.fs.Rename(w.c, store.RootIno, "g", store.RootIno, "f", 0))
			return data
		},
		"hold": func(w *world, h *fs.Handle, data []byte) []byte {
			held, err := w.fs.Hold(context.Background())
			w.must(err)
			if w.fs.Unsettled() != 0 {
				w.t.Error("provisional while held")
			}
			held.Release()
			return data
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := rand.New(rand.NewPCG(3, 4))
			data := w.big(r)
			w.slow()
			h, err := w.fs.Open(w.c, w.walk("f").ID, syscall.O_RDWR)
			w.must(err)
			w.scatter(h, r, data, 260)
			w.must(h.Fsync(w.c, false))
			if w.fs.Unsettled() != 1 {
				t.Fatal("not put off")
			}
			data = then(w, h, data)
			w.same("then", data)
			w.must(h.Flush(w.c, 0))
			h.Release(w.c, 0)
			w.same("closed", data)
			w.reopen()
			w.same("from the database", data)
		})
	}
}
