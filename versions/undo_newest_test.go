package versions

import (
	"errors"
	"testing"
	"time"

	"wsfs/store"
)

// The last command that stands is found behind, and in the middle of, many changes that were taken back in one go.
func TestPickLastOverUndone(t *testing.T) {
	for _, between := range []bool{false, true} {
		w := newWorld(t)
		first := w.command("s", "first")
		w.create("first", "1")
		own := []store.SessionID{w.who.Session.ID}
		big := w.command("s", "big")
		ofBig, from, want := w.who, w.seq+1, first
		for i := range 4 * deadRun {
			if i == deadRun+7 && between {
				want = w.command("s", "between")
				w.create("between", "1")
				w.who = ofBig
			}
			w.create("big", "")
			w.remove("big")
		}
		to := w.seq
		w.command("s", "undo")
		w.append(&store.Op{
			Kind: store.OpUndo, Undoes: []store.Undone{{Command: big, Timeline: w.ws.Timeline, From: from, To: to}},
			Items: []store.Item{{Op: store.OpSetattr, Ino: store.RootIno}},
		})
		l, err := lifeOf(t.Context(), w.st, &w.ws, Place{w.ws.Timeline, w.seq})
		if err != nil {
			t.Fatal(err)
		}
		dead, err := l.undoings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, sel := range []UndoSelect{{Now: time.Unix(1<<32, 0)}, {Own: own}, {Own: append(own, own[0]+100)}} {
			p, err := l.pick(t.Context(), &sel, dead)
			if err != nil || len(p.commands) != 1 || p.commands[0] != want {
				t.Errorf("between %v, of %v: %+v, %v; want c%d", between, sel.Own, p, err, want)
			}
		}
		if _, err := l.pick(t.Context(), &UndoSelect{Own: []store.SessionID{own[0] + 100}}, dead); !errors.Is(err, ErrNothing) {
			t.Errorf("of a session that did nothing: %v", err)
		}
	}
}
