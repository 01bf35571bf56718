package fs_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
)

// Two files are saved by temporaries of the same name, one after the other (sort f > t && mv t f). What a session has seen of the one is not
// what it has seen of the other.
func TestTemporariesOfOneName(t *testing.T) {
	for _, way := range []string{"a temporary", "a temporary that was synced", "moved away and back"} {
		t.Run(way, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.party("a"), w.party("b")
			w.fs.Expect("a")
			w.fs.Expect("b")
			const other = "eins\nzwei\nthree\nvier\nfive\n"
			w.must(saves["in place"](a.made("f"), "f", five))
			w.must(saves["in place"](a.made("g"), "g", other))
			save := func(name, text string) {
				_, h, err := a.fs.Create(a.c, store.RootIno, "t", 0o644, syscall.O_WRONLY|syscall.O_EXCL)
				w.must(err)
				if way == "a temporary that was synced" {
					_, err := h.WriteAt(a.c, []byte(text[:3]), 0, false)
					w.must(err)
					w.must(h.Fsync(a.c, false))
				}
				w.must(a.ends(h, text, 0))
				w.must(a.fs.Rename(a.c, store.RootIno, "t", store.RootIno, name, 0))
			}
			b.reads("g")
			if strings.HasPrefix(way, "a temporary") {
				save("f", "zero\n"+five)
				b.reads("f")
				save("g", "null\n"+other)
			} else {
				for _, name := range []string{"f", "g"} {
					w.must(saves["in place"](a, name, map[string]string{"f": "zero\n" + five, "g": "null\n" + other}[name]))
					if name == "f" {
						b.reads("f")
					}
					w.must(a.fs.Rename(a.c, store.RootIno, name, store.RootIno, "t", 0))
					w.must(a.fs.Rename(a.c, store.RootIno, "t", store.RootIno, name, 0))
				}
			}
			w.must(saves["rename"](b, "g", strings.Replace(other, "vier", "four", 1)))
			want := "null\n" + strings.Replace(other, "vier", "four", 1)
			if got := w.read("g"); got != want {
				t.Errorf("g is %q, want %q", got, want)
			}
			list := fmt.Sprintf("[stale merged %q %q %q]", other, "null\n"+other, strings.Replace(other, "vier", "four", 1))
			if got := fmt.Sprint(w.conflicts()); got != list {
				t.Errorf("conflicts %s, want %s", got, list)
			}
		})
	}
}

// A file is moved away to a name that another one had, and made anew. What sessions had seen of it is that of the new one all the same.
func TestMovedToANameOfAnother(t *testing.T) {
	w := newWorld(t)
	a, b := w.party("a"), w.party("b")
	w.fs.Expect("a")
	w.fs.Expect("b")
	w.must(saves["in place"](a.made("f"), "f", five))
	w.must(saves["in place"](a.made("g"), "g", "other\n"))
	b.reads("f")
	w.must(saves["rename"](a, "f", "zero\n"+five))
	b.reads("g")
	w.must(b.fs.Rename(b.c, store.RootIno, "g", store.RootIno, "f.1", 0))
	w.must(b.fs.Rename(b.c, store.RootIno, "f.1", store.RootIno, "f.2", 0))
	w.must(a.fs.Rename(a.c, store.RootIno, "f", store.RootIno, "f.1", 0))
	w.must(a.creates("f", "null\nzero\n"+five))
	wrote := strings.Replace(five, "four", "FOUR", 1)
	w.must(saves["rename"](b, "f", wrote))
	if got, want := w.read("f"), "null\nzero\n"+wrote; got != want {
		t.Errorf("f is %q, want %q; conflicts %q", got, want, w.conflicts())
	}
}
