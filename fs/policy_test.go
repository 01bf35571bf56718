package fs_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

func TestRules(t *testing.T) {
	r, err := fs.ParseRules([]string{"keep", "*.lock=reject", "docs/*.md=merge", "vendor=reject", "a=b=keep"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.Policy{
		"x": fs.PolicyKeep, "a/b/x.lock": fs.PolicyReject, "docs/x.md": fs.PolicyMerge, "docs/a/x.md": fs.PolicyKeep,
		"docs/x.md/y": fs.PolicyMerge, "vendor/a/b": fs.PolicyReject, "x/vendor/b.lock": fs.PolicyReject, "a=b": fs.PolicyKeep,
	} {
		if got := r.For(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, bad := range []string{"", "kept", "*.x=no", "=keep", "[=keep", "/=keep"} {
		if _, err := fs.ParseRules([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if got := (*fs.Rules)(nil).For("x"); got != fs.PolicyMerge {
		t.Errorf("without rules: %v", got)
	}
}

func TestKeep(t *testing.T) {
	const text = "one\ntwo\nthree\n"
	for how, save := range saves {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.party("a"), w.party("b")
			b.c.Rules = &fs.Rules{Default: fs.PolicyKeep}
			w.must(saves["in place"](a.made("f"), "f", text))
			w.fs.Expect("b")
			b.reads("f")
			h, err := w.fs.Open(b.c, w.walk("f").ID, syscall.O_RDONLY) // it counts that it was read, not that it is open
			w.must(err)
			defer h.Release(b.c, 1)
			w.must(saves["in place"](a, "f", "zero\n"+text))
			w.must(save(b, "f", text+"four\n"))
			if got := w.read("f"); got != text+"four\n" {
				t.Errorf("f is %q", got)
			}
			why := "stale"
			if how == "mapping" {
				why = "revert"
			}
			if got, want := w.conflicts(), fmt.Sprintf("%s %q %q %q", why, text, "zero\n"+text, text+"four\n"); len(got) != 1 || got[0] != want {
				t.Errorf("conflicts %q, want %q", got, want)
			}
		})
	}
}

func TestReject(t *testing.T) {
	const text = "one\ntwo\nthree\n"
	setup := func(t *testing.T) (w *world, a, b *party) {
		w = newWorld(t)
		a, b = w.party("a"), w.party("b")
		b.c.Rules = &fs.Rules{Paths: []fs.PathRule{{Pattern: "f", Policy: fs.PolicyReject}}}
		w.must(saves["in place"](a.made("f"), "f", text))
		w.must(saves["in place"](a, "f", text+"four\n"))
		w.fs.Expect("b")
		return w, a, b
	}
	stands := func(w *world, want ...string) {
		w.t.Helper()
		for range 2 {
			if got := w.read("f"); got != text+"four\n" {
				w.t.Errorf("f is %q", got)
			}
			if got := w.conflicts(); fmt.Sprint(got) != fmt.Sprint(want) {
				w.t.Errorf("conflicts %q, want %q", got, want)
			}
			w.reopen()
		}
	}
	t.Run("open", func(t *testing.T) {
		w, _, b := setup(t)
		w.is(saves["in place"](b, "f", "b\n"), syscall.EBUSY)
		stands(w)
	})
	t.Run("close", func(t *testing.T) {
		w, a, b := setup(t)
		w.must(saves["in place"](a, "f", text))
		h, err := w.fs.Open(b.c, w.walk("f").ID, syscall.O_RDWR)
		w.must(err)
		w.must(saves["in place"](a, "f", text+"four\n"))
		_, err = h.WriteAt(b.c, []byte("something completely other\n"), 0, false)
		w.must(err)
		w.is(h.Flush(b.c, 1), syscall.EBUSY)
		if _, err := h.WriteAt(b.c, []byte("more"), 27, false); err == nil {
			t.Error("what follows a refused write is taken")
		}
		h.Release(b.c, 1)
		stands(w, fmt.Sprintf("stale %q %q %q", text, text+"four\n", "something completely other\n"))
	})
	t.Run("rename", func(t *testing.T) {
		w, _, b := setup(t)
		w.is(saves["rename"](b, "f", "b\n"), syscall.EBUSY)
		if got := w.read("f.tmp"); got != "b\n" {
			t.Errorf("what was written is %q", got)
		}
		w.must(w.fs.Unlink(b.c, store.RootIno, "f.tmp")) // as a program does that has failed
		stands(w, fmt.Sprintf("blind %q %q %q", "-", text+"four\n", "b\n"))
	})
	t.Run("seen", func(t *testing.T) {
		w, _, b := setup(t)
		b.reads("f")
		w.must(saves["in place"](b, "f", "other\n"))
		if got := w.read("f"); got != "other\n" {
			t.Errorf("f is %q", got)
		}
	})
}

// A session that nobody announced is found when it first writes; what its process has read just before counts.
func TestSecondSession(t *testing.T) {
	w := newWorld(t)
	a, b := w.party("a"), w.party("b")
	w.must(saves["in place"](a.made("f"), "f", "a\n"))
	w.must(saves["in place"](a.made("g"), "g", "a\n"))
	b.reads("f")
	w.must(saves["rename"](b, "f", "b\n"))
	w.must(saves["rename"](b, "g", "b\n"))
	if got, want := w.conflicts(), fmt.Sprintf("blind %q %q %q", "-", "a\n", "b\n"); len(got) != 1 || got[0] != want {
		t.Errorf("conflicts %q, want %q", got, want)
	}
}

// While one session works alone nothing is kept of what it reads: it has seen what was there when the second one came, who may
// have read before it wrote anything.
func TestAlone(t *testing.T) {
	w := newWorld(t)
	a := w.party("a")
	w.must(saves["in place"](a.made("f"), "f", "1\n2\n3\n4\n5\n"))
	w.reopen()
	a = a.again()
	if got := a.reads("f"); got != "1\n2\n3\n4\n5\n" {
		t.Errorf("f is %q", got)
	}
	b := w.party("b")
	b.reads("f")
	w.must(saves["in place"](a, "f", "a\n2\n3\n4\n5\n"))
	w.must(saves["rename"](b, "f", "1\n2\n3\n4\nb\n"))
	if got := a.reads("f"); got != "a\n2\n3\n4\nb\n" {
		t.Errorf("f is %q after b's write", got)
	}

	w = newWorld(t)
	a = w.party("a")
	w.must(saves["in place"](a.made("f"), "f", "1\n2\n3\n4\n5\n"))
	a.reads("f")
	b = w.party("b")
	b.reads("f")
	w.must(saves["in place"](b, "f", "1\n2\n3\n4\nb\n"))
	w.must(saves["rename"](a, "f", "a\n2\n3\n4\n5\n"))
	if got := b.reads("f"); got != "a\n2\n3\n4\nb\n" {
		t.Errorf("f is %q after a's write", got)
	}
	for _, got := range w.conflicts() {
		if !strings.HasPrefix(got, "stale merged ") {
			t.Errorf("conflict %q", got)
		}
	}
}
