package fs_test

import (
	"context"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// stale opens f with the text before, moves the workspace to where it held the text at, and returns the old handle.
func (w *world) stale(at, before string) *fs.Handle {
	w.t.Helper()
	ctx := context.Background()
	w.write("f", at)
	tl, seq, err := w.fs.Freeze(w.c)
	w.must(err)
	w.write("f", before)
	h, err := w.fs.Open(w.c, w.walk("f").ID, syscall.O_RDWR)
	w.must(err)
	w.rollback(ctx, fs.Move{Timeline: tl, Seq: seq, Why: "rollback"})
	if got := w.read("f"); got != at {
		w.t.Fatalf("moved to %q, want %q", got, at)
	}
	if got := w.text(h); got != before {
		w.t.Fatalf("the old handle reads %q, want %q", got, before)
	}
	return h
}

func (w *world) rollback(ctx context.Context, m fs.Move) {
	w.t.Helper()
	h, err := w.fs.Hold(ctx)
	w.must(err)
	defer h.Release()
	w.must(h.Move(ctx, m))
}

func (w *world) text(h *fs.Handle) string {
	buf := make([]byte, 1<<16)
	n, err := h.ReadAt(w.c, buf, 0)
	w.must(err)
	return string(buf[:n])
}

func TestWriteFromAStaleBase(t *testing.T) {
	for _, c := range []struct {
		name, at, before string
		write            string
		off              int64
		want, old        string // f, and what the handle reads
	}{
		{"other lines are merged", "one\n2\n3\n4\nfive\n", "ONE\n2\n3\n4\nfive\n", "FIVE", 10, "one\n2\n3\n4\nFIVE\n", "ONE\n2\n3\n4\nFIVE\n"},
		{"appended bytes are appended", "log 1\n", "log 1\nlog 2\n", "log 3\n", 12, "log 1\nlog 3\n", "log 1\nlog 2\nlog 3\n"},
		{"the same line: the newest is the head", "a\n", "b\n", "c\n", 0, "c\n", "c\n"},
		{"binary: the newest is the head", "a\x00", "bb\x00", "c", 1, "bc\x00", "bc\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			h := w.stale(c.at, c.before)
			_, err := h.WriteAt(w.c, []byte(c.write), c.off, false)
			w.must(err)
			w.must(h.Flush(w.c, 1))
			if got := w.read("f"); got != c.want {
				t.Errorf("f is %q, want %q", got, c.want)
			}
			if got := w.text(h); got != c.old {
				t.Errorf("the handle reads %q, want %q", got, c.old)
			}
			// Once more: what it wrote last is its base now.
			_, err = h.WriteAt(w.c, []byte("more\n"), int64(len(c.old)), false)
			w.must(err)
			w.must(h.Flush(w.c, 1))
			h.Release(w.c, 1)
			if got := w.read("f"); got != c.want+"more\n" {
				t.Errorf("after a second write f is %q", got)
			}
			w.reopen()
			if got := w.read("f"); got != c.want+"more\n" {
				t.Errorf("reopened, f is %q", got)
			}
		})
	}
}

func TestAHandleOfWhatIsGone(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	w.write("other", "")
	tl, seq, err := w.fs.Freeze(w.c)
	w.must(err)
	w.write("f", "text\n")
	h, err := w.fs.Open(w.c, w.walk("f").ID, syscall.O_RDWR)
	w.must(err)
	tl2, seq2, err := w.fs.Freeze(w.c)
	w.must(err)
	w.rollback(ctx, fs.Move{Timeline: tl, Seq: seq, Why: "rollback"})
	_, err = w.stat("f")
	w.is(err, syscall.ENOENT)
	_, err = h.WriteAt(w.c, []byte("TEXT"), 0, false)
	w.must(err)
	w.must(h.Flush(w.c, 1))
	if got := w.text(h); got != "TEXT\n" {
		t.Errorf("the handle reads %q", got)
	}
	// It comes back as it was; what the handle wrote while it was away reaches it with the next close.
	w.rollback(ctx, fs.Move{Timeline: tl2, Seq: seq2, Why: "back"})
	if got := w.read("f"); got != "text\n" {
		t.Errorf("f came back as %q", got)
	}
	w.must(h.Flush(w.c, 1))
	h.Release(w.c, 1)
	if got := w.read("f"); got != "TEXT\n" {
		t.Errorf("f is %q", got)
	}
}

func TestHoldStopsWriters(t *testing.T) {
	w := newWorld(t)
	w.write("f", "1")
	h, err := w.fs.Hold(context.Background())
	w.must(err)
	_, at := h.At()
	done := make(chan string)
	yielded := make(chan struct{})
	c := *w.c
	c.Yield = func() { close(yielded) }
	go func() {
		_, err := w.fs.Mkdir(&c, 1, "d", 0o755)
		if err != nil {
			done <- err.Error()
		}
		done <- ""
	}()
	<-yielded // before it waits, it gave the reader's role away
	if _, now := h.At(); now != at || w.read("f") != "1" {
		t.Errorf("held at %d, now at %d", at, now)
	}
	select {
	case msg := <-done:
		t.Fatalf("a change went through while the workspace was held: %q", msg)
	default:
	}
	h.Release()
	if msg := <-done; msg != "" {
		t.Error(msg)
	}
	if _, err := w.stat("d"); err != nil {
		t.Error(err)
	}
}

func TestRestoreUnderAnOpenHandle(t *testing.T) {
	w := newWorld(t)
	k := newKernel(w)
	ctx := context.Background()
	w.write("f", "before")
	tl, seq, err := w.fs.Freeze(w.c)
	w.must(err)
	w.write("f", "after")
	a, _ := k.look(1, "f")
	h, err := w.fs.Open(w.c, a.ID, syscall.O_RDONLY)
	w.must(err)
	w.must(w.st.Apply(ctx, w.st.Last()))
	from, err := w.st.ViewAt(ctx, tl, seq)
	w.must(err)
	_, err = w.fs.Restore(ctx, store.Attribution{}, "f", from)
	w.must(err)
	if b, ok := k.look(1, "f"); !ok || b.ID == a.ID || b.Size != int64(len("before")) {
		t.Errorf("the kernel believes that f is node %d of %d bytes, was %d", b.ID, b.Size, a.ID)
	}
	if now, old := w.read("f"), w.text(h); now != "before" || old != "after" {
		t.Errorf("f is %q, and %q for who has it open", now, old)
	}
	h.Release(w.c, 0)
}
