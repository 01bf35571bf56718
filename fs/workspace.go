package fs

import (
	"context"
	"fmt"
	"os"
	"time"

	"wsfs/store"
)

// NewWorkspace makes an empty workspace: its row, a timeline and a root directory, as one op. origin is the host
// directory that it is about to be imported from, or "".
func NewWorkspace(ctx context.Context, st *store.Store, name, origin string, who store.Attribution) (*store.Workspace, error) {
	now := time.Now().UnixNano()
	ws := store.Workspace{
		ID: st.NewWorkspaceID(), Name: name, Timeline: st.NewTimelineID(), Generation: 1, OriginPath: origin, CreatedAt: now,
	}
	op := &store.Op{
		Kind: store.OpWorkspace, Timeline: ws.Timeline, Workspace: ws.ID, Seq: 1, At: now, Who: who,
		Versions: []store.Version{{
			Ino: store.RootIno, Seq: 1, ID: st.NewVersionID(), Origin: ws.Timeline, Mode: 0o40755, Nlink: 2,
			UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Mtime: now, Ctime: now, Atime: now,
		}},
		Items:   []store.Item{{Op: store.OpMkdir, Ino: store.RootIno}},
		Pointer: &store.Pointer{Workspace: ws, NewTimeline: &store.Timeline{ID: ws.Timeline}, Why: "init"},
	}
	slot, err := st.Append(op)
	if err == nil {
		err = st.Apply(ctx, slot)
	}
	if err != nil {
		return nil, fmt.Errorf("make workspace %q: %w", name, err)
	}
	return &ws, nil
}
