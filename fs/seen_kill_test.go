package fs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// killed is the world that a process finds after a kill -9 of this one: what is in the files of the store.
func (w *world) killed() *world {
	w.t.Helper()
	dead := filepath.Join(w.t.TempDir(), "dead")
	w.must(os.CopyFS(dead, os.DirFS(w.dir)))
	after := &world{t: w.t, dir: dead, ws: w.ws, c: w.c}
	after.open()
	after.live()
	w.t.Cleanup(func() {
		after.close()
		after.check()
	})
	return after
}

// What a session saved last is saved as seen with its next op. If the process is killed before, the next one knows only what it had seen before
// that; but what is there is its own, and replacing that is no conflict.
func TestKilledBeforeSeenIsSaved(t *testing.T) {
	for how, save := range saves {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.party("a"), w.party("b")
			w.fs.Expect("a")
			w.fs.Expect("b")
			w.must(saves["in place"](b.made("f"), "f", five))
			a.reads("f")
			w.must(save(a, "f", strings.Replace(five, "one", "ONE", 1)))
			after := w.killed()
			next := after.partyOf(a.who.Session)
			after.must(save(next, "f", strings.Replace(five, "one", "uno", 1)))
			if list := after.conflicts(); len(list) > 0 {
				t.Errorf("it meets itself: %q", list)
			}
			if got, want := after.read("f"), strings.Replace(five, "one", "uno", 1); got != want {
				t.Errorf("f is %q, want %q", got, want)
			}
			// What somebody else made meanwhile is foreign all the same.
			after.must(saves["in place"](after.partyOf(b.who.Session), "f", "b\n"))
			last := after.killed()
			last.must(save(last.partyOf(a.who.Session), "f", "a\n"))
			if list := last.conflicts(); how != "mapping" && len(list) != 2 {
				t.Errorf("conflicts %q, want one of each", list)
			}
		})
	}
}
