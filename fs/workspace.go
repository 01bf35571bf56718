package fs

import (
	"context"
	"fmt"
	"os"
	"time"

	"wsfs/store"
)

// highestSeq is the highest seq that the workspace has ever shown: the next change gets one more, so that no seq names
// two states.
func highestSeq(ctx context.Context, st *store.Store, ws *store.Workspace) (store.Seq, error) {
	refs, err := st.RefLog(ctx, ws.ID)
	if err != nil {
		return 0, err
	}
	refs = append(refs, store.Ref{Timeline: ws.Timeline, BaseSeq: ws.BaseSeq})
	var top store.Seq
	for _, ref := range refs {
		top = max(top, ref.BaseSeq)
		if ref.Timeline == 0 {
			continue
		}
		tl, err := st.Timeline(ctx, ref.Timeline)
		if err != nil {
			return 0, err
		}
		top = max(top, tl.Head)
	}
	return top, nil
}

// Freeze makes versions of everything dirty and returns the point that the workspace is at: a fork, tag or pin of it is
// complete, and no version behind it is amended any more.
func (f *FS) Freeze(_ *Call) (store.TimelineID, store.Seq, error) {
	if f.opts.ReadOnly {
		return f.shown()
	}
	if err := f.cutDirty(func(*node) bool { return true }); err != nil {
		return 0, 0, fmt.Errorf("make versions of open files: %w", err)
	}
	if err := f.flushDirTimes(); err != nil {
		return 0, 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ws.Timeline == 0 {
		return f.ws.Base, f.ws.BaseSeq, nil
	}
	f.pinned = f.seq
	return f.ws.Timeline, f.seq, nil
}

// LastRun is the stretch of changes at the head of the timeline that one command made, none if nobody is known.
func (f *FS) LastRun() store.Span {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run.command == nil || f.ws.Timeline == 0 {
		return store.Span{}
	}
	return store.Span{Timeline: f.ws.Timeline, After: f.run.from - 1, UpTo: f.seq}
}

// shown is the point that a workspace opened read-only shows.
func (f *FS) shown() (store.TimelineID, store.Seq, error) {
	timeline, seq := f.view.Head()
	if seq != store.MaxSeq {
		return timeline, seq, nil
	}
	tl, err := f.st.Timeline(context.Background(), timeline)
	if err != nil {
		return 0, 0, err
	}
	return timeline, tl.Head, nil
}

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
