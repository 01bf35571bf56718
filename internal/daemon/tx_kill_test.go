package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// dies has the daemon die at a fault point while fn runs, and waits for the next one.
func (k *kept) dies(point string, fn func()) {
	k.t.Helper()
	before := k.status().PID
	if err := os.WriteFile(dieFile(k.dir), []byte(point), 0o600); err != nil {
		k.t.Fatal(err)
	}
	fn()
	if after := k.status().PID; after == before || os.Remove(dieFile(k.dir)) == nil {
		k.t.Fatalf("at %q the daemon %d did not die", point, before)
	}
}

// open opens the store once the daemon has ended.
func (k *kept) open() *store.Store {
	k.t.Helper()
	tries := 0
	for deadline := time.Now().Add(30 * time.Second); ; tries++ { // its socket goes before its lock
		st, err := store.Open(context.Background(), k.dir, sqlite.Driver(), store.Options{})
		if err == nil {
			return st
		}
		if !errors.As(err, new(*store.LockedError)) || time.Now().After(deadline) {
			k.t.Fatalf("after %d tries: %v", tries, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// merges are the changes of main that took something in. The daemon has ended.
func (k *kept) merges() (list []store.Seq) {
	k.t.Helper()
	ctx := context.Background()
	st := k.open()
	defer st.Close()
	ws, err := st.Workspace(ctx, "main")
	if err != nil {
		k.t.Fatal(err)
	}
	all, err := st.ChangesAfter(ctx, ws.ID, 0, store.MaxSeq, 1<<20)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, ch := range all {
		if ch.Kind == store.OpMerge && len(ch.Items) > 0 {
			list = append(list, ch.Seq)
		}
	}
	if err := st.Check(ctx, func(p store.Problem) { k.t.Errorf("check: %v", p) }); err != nil {
		k.t.Error(err)
	}
	return list
}

// Whole states of the workspace, as inWorkspace prints them.
const (
	txBefore = "old:old text:1 2 3 "
	txAfter  = "dir/new:new text:1 two 3 "
)

func (k *kept) inWorkspace() string {
	k.t.Helper()
	return sh(k.t, `cd "$1"; find * -type f | sort | while read -r f; do printf "%s:%s " "$f" "$(tr '\n' ' ' < "$f" | sed 's/ $//')"; done`, k.point)
}

// begun is a transaction t with everything that can be merged; the workspace begins anew.
func (k *kept) begun() {
	k.t.Helper()
	sh(k.t, `cd "$1"; rm -rf *; printf '1\n2\n3\n' > text; echo old > old
		echo begin t > .wsfs/ctl; cd .wsfs/tx/t; sed -i s/2/two/ text; rm old; mkdir dir; echo new > dir/new`, k.point)
}

// TestDieInCommit kills the daemon between the steps of a commit: the transaction is open with everything and the workspace has nothing of it, or
// the workspace has all of it, once; and what is open can be committed and aborted.
func TestDieInCommit(t *testing.T) {
	k := newKeptMount(t)
	merges := 0
	for _, c := range []struct {
		point, then string
		merged      bool   // by then
		open        string // transactions then
		says        string // what `then` says
		end         string // the workspace at last
	}{
		{"merge", "commit", false, "t", "committed t: ", txAfter},
		{"merge", "abort", false, "t", "aborted t", txBefore},
		{"merged", "commit", true, "t", "committed t: nothing differs", txAfter},
		{"merged", "abort", true, "t", "aborted t", txAfter},
		{"dropped", "commit", true, "", "no transaction t is open", txAfter},
	} {
		what := c.point + ", then " + c.then
		k.begun()
		k.dies(c.point, func() {
			sh(t, `cd "$1"; echo commit t > .wsfs/ctl || true`, k.point) // what is open there ends with the daemon
		})
		want := txBefore
		if c.merged {
			want = txAfter
		}
		if c.end == txAfter {
			merges++
		}
		if got := k.inWorkspace(); got != want {
			t.Errorf("%s: the workspace has %q, want %q", what, got, want)
		}
		if got := strings.TrimSpace(sh(t, `ls "$1/.wsfs/tx"`, k.point)); got != c.open {
			t.Errorf("%s: open: %q, want %q", what, got, c.open)
		}
		listed := strings.Contains(sh(t, `cat "$1/.wsfs/ctl"`, k.point), "# open: transaction t ")
		if listed != (c.open != "") {
			t.Errorf("%s: ctl says that it is open: %v", what, listed)
		}
		if c.open != "" {
			if got := sh(t, `cd "$1/.wsfs/tx/t"; cat dir/new text; ls`, k.point); got != "new\n1\ntwo\n3\ndir\ntext\n" {
				t.Errorf("%s: the transaction has %q", what, got)
			}
		}
		out := sh(t, fmt.Sprintf(`cd "$1"; echo %s t 2>/dev/null > .wsfs/ctl || true; cat .wsfs/ctl.result; ls .wsfs/tx | sed 's/^/open: /'`, c.then), k.point)
		if !strings.Contains(out, c.says) || strings.Contains(out, "open: ") {
			t.Errorf("%s: it says %q, want %q", what, out, c.says)
		}
		if got := k.inWorkspace(); got != c.end {
			t.Errorf("%s: at last the workspace has %q, want %q", what, got, c.end)
		}
	}
	k.end()
	if list := k.merges(); len(list) != merges {
		t.Errorf("merged in changes %v, want %d", list, merges)
	}
}

// TestDieInMergeOnce kills the daemon while the end of an atomic run is merged: that is done once all the same, and said rightly.
func TestDieInMergeOnce(t *testing.T) {
	ctx := context.Background()
	k := newKeptMount(t)
	req := MergeRequest{From: "main.tx.t", Into: "main", Whole: true}
	for _, point := range []string{"merge", "merged"} {
		k.begun()
		k.dies(point, func() {
			out, err := MergeOnce(ctx, k.dir, req, 30*time.Second)
			if err != nil || out.Workspace != "main" || (out.Seq == 0) != (point == "merged") {
				t.Errorf("%s: %+v, %v", point, out, err)
			}
		})
		if got := k.inWorkspace(); got != txAfter {
			t.Errorf("%s: the workspace has %q", point, got)
		}
		if _, err := MergeOnce(ctx, k.dir, req, 30*time.Second); ExitCode(err) != ExitNothing {
			t.Errorf("%s: merged again: %v", point, err)
		}
		sh(t, `echo abort t > "$1/.wsfs/ctl"`, k.point)
	}
	k.end()
	if list := k.merges(); len(list) != 2 {
		t.Errorf("merged in changes %v, want two", list)
	}
}
