package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// TestOtherProcess reads a store in another process while this one writes it, and tries to write it there as well.
func TestOtherProcess(t *testing.T) {
	if dir := os.Getenv("WSFS_TEST_STORE"); dir != "" {
		otherProcess(t, dir)
		return
	}
	ctx := t.Context()
	dir, _ := initStore(t)
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{Socket: "/run/first.sock"})
	if err != nil {
		t.Fatal(err)
	}
	ws := store.Workspace{ID: st.NewWorkspaceID(), Name: "w", Timeline: st.NewTimelineID()}
	root := store.Version{Ino: store.RootIno, Seq: 1, ID: st.NewVersionID(), Mode: syscall.S_IFDIR | 0o755, Nlink: 2}
	write := func(op *store.Op) {
		op.Timeline = ws.Timeline
		slot, err := st.Append(op)
		if err == nil && op.Seq%64 == 1 {
			err = st.Apply(ctx, slot)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(&store.Op{
		Kind: store.OpWorkspace, Seq: 1, Versions: []store.Version{root},
		Pointer: &store.Pointer{Workspace: ws, NewTimeline: &store.Timeline{ID: ws.Timeline}, Why: "init"},
	})
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestOtherProcess$", "-test.count=1")
	child.Env = append(os.Environ(), "WSFS_TEST_STORE="+dir, fmt.Sprint("WSFS_TEST_PID=", os.Getpid()))
	done := make(chan error, 1)
	go func() {
		out, err := child.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("the other process: %w\n%s", err, out)
		}
		done <- err
	}()
	for seq := store.Seq(2); ; seq++ {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
			return
		case <-time.After(100 * time.Microsecond):
		}
		if seq > 3000 { // enough; the other process goes on reading
			continue
		}
		name := fmt.Sprint("file", seq)
		v := store.Version{Ino: st.NewIno(), Seq: seq, ID: st.NewVersionID(), Mode: syscall.S_IFREG, Nlink: 1}
		write(&store.Op{
			Kind: store.OpCreate, Seq: seq, Versions: []store.Version{v},
			Names: []store.Name{{Parent: store.RootIno, Name: name, Ino: v.Ino, Type: syscall.S_IFREG}},
			Items: []store.Item{{Op: store.OpCreate, Ino: v.Ino, Parent: store.RootIno, Name: name}},
		})
	}
}

func otherProcess(t *testing.T, dir string) {
	ctx := t.Context()
	var locked *store.LockedError
	if _, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{}); !errors.As(err, &locked) ||
		fmt.Sprint(locked.PID) != os.Getenv("WSFS_TEST_PID") || locked.Socket != "/run/first.sock" {
		t.Errorf("open for writing: %v, want who has it", err)
	}
	seen := 0
	for range 8 {
		st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			ws, err := st.Workspace(ctx, "w")
			if err != nil {
				t.Fatal(err)
			}
			v, err := st.ViewOf(ctx, ws)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			if err := v.ReadDir(ctx, store.RootIno, func(store.Name, *store.Version) error { n++; return nil }); err != nil {
				t.Fatal(err)
			}
			if n < seen {
				t.Fatalf("%d files after there were %d", n, seen)
			}
			seen = n
		}
		if err := st.CheckRows(ctx, func(p store.Problem) { t.Error(p) }); err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if seen == 0 {
		t.Error("nothing of what the other process wrote was seen")
	}
}
