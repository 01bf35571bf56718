package fs_test

import (
	"fmt"
	"slices"
	"testing"

	"wsfs/store"
)

// A backup link takes a name that another state of the file had before. Who makes it has neither made nor read what the file has.
func TestBackupLinkIsNoSave(t *testing.T) {
	for _, again := range []string{"unlink", "rename"} {
		t.Run(again, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.party("a"), w.party("b")
			w.fs.Expect("a")
			w.fs.Expect("b")
			w.must(saves["in place"](a.made("f"), "f", five))
			backup := func() {
				name := "f~"
				if again == "rename" { // as ln -f
					name = "f~.tmp"
				} else {
					_ = b.fs.Unlink(b.c, store.RootIno, name)
				}
				_, err := b.fs.Link(b.c, w.walk("f").ID, store.RootIno, name)
				w.must(err)
				if again == "rename" {
					w.must(b.fs.Rename(b.c, store.RootIno, name, store.RootIno, "f~", 0))
				}
			}
			backup()
			w.must(saves["rename"](a, "f", "zero\n"+five))
			w.must(saves["rename"](a, "f", "ZERO\n"+five))
			backup()
			if got, want := slices.Compact(w.past("f")), []string{"ZERO\n" + five, "zero\n" + five, five}; !slices.Equal(got[:min(len(got), 3)], want) {
				t.Errorf("f was %q, want %q", got, want)
			}
			w.must(saves["rename"](b, "f", "b\n"))
			if got, want := w.conflicts(), fmt.Sprintf("[blind %q %q %q]", "-", "ZERO\n"+five, "b\n"); fmt.Sprint(got) != want {
				t.Errorf("conflicts %s, want %s", got, want)
			}
		})
	}
}
