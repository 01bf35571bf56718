package sqlite_test

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// rows is a store with one workspace, into which a test puts ops to see what rows they lead to.
type rows struct {
	t    *testing.T
	dir  string
	st   *store.Store
	w    store.Workspace
	who  store.Attribution // of a session with a command
	root store.Version     // as the workspace began, at seq 1
	last store.Slot
}

func newRows(t *testing.T) *rows {
	t.Helper()
	ctx := context.Background()
	r := &rows{t: t, dir: filepath.Join(t.TempDir(), "s")}
	err := store.Init(ctx, r.dir, sqlite.Driver())
	if err == nil {
		r.st, err = store.Open(ctx, r.dir, sqlite.Driver(), store.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	r.w = store.Workspace{ID: r.st.NewWorkspaceID(), Name: "w", Timeline: r.st.NewTimelineID()}
	session := &store.Session{ID: r.st.NewSessionID(), Name: "a", Workspace: r.w.ID}
	r.who = store.Attribution{Session: session, Command: &store.Command{ID: r.st.NewCommandID(), Session: session.ID, N: 1, Argv: "sh"}}
	r.root = store.Version{
		Ino: store.RootIno, Seq: 1, ID: r.st.NewVersionID(), Origin: r.w.Timeline, Mode: syscall.S_IFDIR | 0o755, Nlink: 2,
	}
	r.put(&store.Op{
		Kind: store.OpWorkspace, Timeline: r.w.Timeline, Workspace: r.w.ID, Seq: 1, At: 1, Versions: []store.Version{r.root},
		Pointer: &store.Pointer{Workspace: r.w, NewTimeline: &store.Timeline{ID: r.w.Timeline}, Why: "init"},
	})
	return r
}

// put appends an op and waits until the journal has it.
func (r *rows) put(op *store.Op) {
	r.t.Helper()
	slot, err := r.st.Append(op)
	if err == nil {
		err = r.st.Wait(slot)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.last = slot
}
