package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

const mergeChild = "WSFS_TEST_MERGE_CHILD" // "n dir": merge in the store dir and die before the nth step

func TestMergeChild(t *testing.T) {
	n, dir, ok := strings.Cut(os.Getenv(mergeChild), " ")
	if !ok {
		return // only of use to TestMergeKilled
	}
	left, err := strconv.Atoi(n)
	if err != nil {
		t.Fatal(err)
	}
	var o store.Options
	o.SetCrashPoint(func(point string) {
		if point != "merge" {
			return
		}
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	st, err := store.Open(t.Context(), dir, sqlite.Driver(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.MergeSegments(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// A kill between any two transactions of merging leaves every state as it was, and what it left half made goes away.
func TestMergeKilled(t *testing.T) {
	ctx := t.Context()
	from := filepath.Join(t.TempDir(), "store")
	if err := store.Init(ctx, from, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(ctx, from, sqlite.Driver(), store.Options{MergeAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	l := newLine(t, st)
	for range 20 {
		l.deepen()
	}
	l.apply()
	want := everything(t, st)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	step, least, kills := 1, 5, 0
	if testing.Short() {
		step, least = 4, 2
	}
	for n := 1; ; n += step {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		child := exec.Command(os.Args[0], "-test.run=^TestMergeChild$")
		child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", mergeChild, n, dir))
		out, err := child.CombinedOutput()
		var exit *exec.ExitError
		if killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL; err != nil && !killed {
			t.Fatalf("child: %v\n%s", err, out)
		}
		after, openErr := store.Open(ctx, dir, sqlite.Driver(), store.Options{})
		if openErr != nil {
			t.Fatal(openErr)
		}
		if got := everything(t, after); got != want {
			t.Errorf("killed before step %d: the states are\n%.2000s\nwant\n%.2000s", n, got, want)
		}
		if err := after.MergeSegments(ctx); err != nil {
			t.Error(err)
		}
		if got := everything(t, after); got != want {
			t.Errorf("killed before step %d, then merged: the states are\n%.2000s\nwant\n%.2000s", n, got, want)
		}
		if half, err := after.Count(ctx, "SELECT count(*) FROM timeline WHERE hidden = 2"); err != nil || half != 0 {
			t.Errorf("killed before step %d: %d segments are half made, %v", n, half, err)
		}
		storetest.Check(t, after)
		if err := after.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			return
		}
		if err == nil {
			break // it came to its end
		}
		kills++
	}
	if kills < least {
		t.Errorf("only %d kills: the test tests nothing", kills)
	}
	t.Logf("killed %d times", kills)
}

// everything is the root directory of every workspace.
func everything(t *testing.T, st *store.Store) string {
	t.Helper()
	ctx := context.Background()
	list, err := st.Workspaces(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, ws := range list {
		v, err := st.ViewOf(ctx, ws)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s:", ws.Name)
		if err := v.ReadDir(ctx, store.RootIno, func(n store.Name, v *store.Version) error {
			fmt.Fprintf(&b, " %s=%+v", n.Name, *v)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n")
	}
	return b.String()
}
