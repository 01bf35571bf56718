package versions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"wsfs/store"
)

// Place is a fixed point of a store: a state that never changes, named by the timeline that owns it.
type Place struct {
	Timeline store.TimelineID
	Seq      store.Seq
}

// Place is where r stands, as what a fork, tag or pin of it is based on. A head is the change it has reached; whoever
// may still amend that (a live file system) must have been frozen before.
func (r *Resolved) Place(ctx context.Context, st *store.Store) (Place, error) {
	p := Place{r.Timeline, r.Seq}
	if p.Seq == store.MaxSeq {
		tl, err := st.Timeline(ctx, p.Timeline)
		if err != nil {
			return Place{}, fmt.Errorf("find the head of %s: %w", r.Revision, err)
		}
		p.Seq = tl.Head
	}
	v, err := st.ViewAt(ctx, p.Timeline, p.Seq)
	if err != nil {
		return Place{}, fmt.Errorf("read %s: %w", r.Revision, err)
	}
	p.Timeline, p.Seq = v.Head()
	return p, nil
}

// ForkOp is the op that makes a workspace of that name which starts at p, a place in the life of from. It is one row
// and a line of its reflog, however large the tree: a timeline is made by the fork's first write.
func ForkOp(st *store.Store, from *store.Workspace, p Place, name string, at int64, who store.Attribution) *store.Op {
	ws := store.Workspace{
		ID: st.NewWorkspaceID(), Name: name, Base: p.Timeline, BaseSeq: p.Seq, Generation: 1, Parent: from.ID,
		OriginPath: from.OriginPath, CreatedAt: at,
	}
	return pointerOp(ws, "fork", at, who)
}

// DropOp is the op that takes ws away. Its rows stay, so UndropOp brings it back until they are collected.
func DropOp(ws store.Workspace, at int64, who store.Attribution) *store.Op {
	ws.DroppedAt = at
	return pointerOp(ws, "drop", at, who)
}

// UndropOp is the op that brings a dropped workspace back as name.
func UndropOp(ws store.Workspace, name string, at int64, who store.Attribution) *store.Op {
	ws.Name, ws.DroppedAt = name, 0
	return pointerOp(ws, "undrop", at, who)
}

func pointerOp(ws store.Workspace, why string, at int64, who store.Attribution) *store.Op {
	return &store.Op{
		Kind: store.OpWorkspace, Workspace: ws.ID, At: at, Who: who, Pointer: &store.Pointer{Workspace: ws, Why: why},
	}
}

// FindDropped finds the workspace of that name that was dropped last. The error for one that was not dropped says where
// it is.
func FindDropped(ctx context.Context, st *store.Store, name string) (*store.Workspace, error) {
	all, err := st.DroppedWorkspaces(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, ws := range all { // newest first
		if ws.Name == name {
			return ws, nil
		}
		names = append(names, ws.Name)
	}
	unknown := &UnknownError{What: "dropped workspace", Name: name, Near: near(name, names), Hint: "`wsfs workspaces --dropped` lists them"}
	if _, err := st.Workspace(ctx, name); err == nil {
		unknown.Near, unknown.Hint = nil, "the workspace of that name was not dropped"
	} else if !errors.Is(err, syscall.ENOENT) {
		return nil, err
	}
	return nil, unknown
}

// TemporaryName names a throw-away fork of a workspace; n makes it unique.
func TemporaryName(workspace string, n int64) string {
	tail := fmt.Sprintf(".tmp-%d", n)
	if len(workspace)+len(tail) > MaxWorkspaceName {
		workspace = strings.ToValidUTF8(workspace[:MaxWorkspaceName-len(tail)], "")
	}
	return workspace + tail
}
