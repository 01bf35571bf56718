package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// The ways to resolve a conflict.
const (
	ResolveOurs   = "ours"   // what was written
	ResolveTheirs = "theirs" // what the other session had made
	ResolveMerge  = "merge"  // both, or Text
)

// ResolveRequest asks to resolve a conflict.
type ResolveRequest struct {
	Workspace string  `json:"workspace"`
	ID        int64   `json:"id"`
	How       string  `json:"how"`
	Text      *[]byte `json:"text,omitempty"` // of a merge that was made elsewhere
}

// ResolveReply says what a file is after a conflict was resolved.
type ResolveReply struct {
	Workspace string `json:"workspace"`
	ID        int64  `json:"id"`
	Path      Path   `json:"path"`
	Seq       int64  `json:"seq,omitempty"` // of the change; 0: the file was as it should be
	Gone      bool   `json:"gone,omitempty"`
}

func (d *Daemon) conflictRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/resolve", reply(func(r *http.Request, req *ResolveRequest) (any, error) {
		return d.resolve(context.WithoutCancel(r.Context()), *req)
	}))
}

// Resolve resolves a conflict.
func (c *Client) Resolve(ctx context.Context, req ResolveRequest) (ResolveReply, error) {
	var out ResolveReply
	return out, c.do(ctx, http.MethodPost, "/v1/resolve", req, &out)
}

// resolve brings the file to what is wanted, together with what was changed since, and ends the conflict, as one change.
func (d *Daemon) resolve(ctx context.Context, req ResolveRequest) (ResolveReply, error) {
	switch req.How {
	case ResolveOurs, ResolveTheirs, ResolveMerge:
	default:
		return ResolveReply{}, Fail(ExitUsage, "resolve conflict %d: say ours, theirs or merge: %w", req.ID, syscall.EINVAL)
	}
	s, f, release, err := d.acquire(ctx, req.Workspace)
	if err != nil {
		return ResolveReply{}, err
	}
	defer release()
	who := d.caller(ctx, s)
	h, err := f.Hold(ctx)
	if err != nil {
		return ResolveReply{}, err
	}
	defer h.Release()
	list, err := versions.Conflicts(ctx, d.st, store.ConflictQuery{Workspace: s.id, ID: store.ConflictID(req.ID), Resolved: true})
	if err != nil {
		return ResolveReply{}, err
	}
	if len(list) == 0 {
		return ResolveReply{}, Fail(ExitFailed, "resolve conflict %d: workspace %q has none of that number; `wsfs conflicts` lists them: %w", req.ID, s.name, syscall.ENOENT)
	}
	c := &list[0]
	if c.Resolved {
		return ResolveReply{}, Fail(ExitNothing, "resolve conflict %d: it is resolved already", req.ID)
	}
	if req.How != ResolveOurs && !c.OfContent() {
		return ResolveReply{}, Fail(ExitDecision, "resolve conflict %d of %q: %s is not about what is in the file, so only --ours decides it; for the other side rename, remove or "+
			"copy .wsfs/conflicts/%d/theirs yourself, then say --ours. Nothing was changed", req.ID, c.Path, c.Why, req.ID)
	}
	out := ResolveReply{Workspace: s.name, ID: req.ID, Path: Path(c.Path)}
	now, err := d.standing(ctx, s, c)
	if err != nil {
		return out, err
	}
	edit := &fs.Edit{Kind: store.OpWrite, Who: who, Resolves: []store.ConflictID{c.ID}}
	if out.Gone = now == nil; !out.Gone {
		text, cur, err := d.resolved(ctx, c, now, req)
		if err != nil {
			return out, err
		}
		if !bytes.Equal(text, cur) {
			to := *now
			to.Content, to.Size, to.Holes, to.Mtime, to.Merge, to.Replaced = blob.Ref{}, int64(len(text)), 0, 0, c.Head, 0
			if len(text) > 0 {
				st, err := d.st.Blobs().PutReader(ctx, bytes.NewReader(text))
				if err != nil {
					return out, err
				}
				to.Content, edit.Contents = st.Content.Ref, []blob.Staged{st}
			}
			edit.Versions = []store.Version{to}
		}
	}
	if len(edit.Versions) == 0 {
		return out, d.mark("resolve a conflict", &store.Op{Who: who, At: d.o.Now().UnixNano(), Resolves: edit.Resolves})
	}
	seq, err := h.Edit(ctx, edit)
	out.Seq = int64(seq)
	return out, err
}

// standing is the version that the file of a conflict has now, nil if it is gone. It goes by its name first: programs replace
// files when they save them.
func (d *Daemon) standing(ctx context.Context, s *slot, c *versions.Conflict) (*store.Version, error) {
	view, err := d.viewOf(ctx, s, 0)
	if err != nil {
		return nil, err
	}
	ino := c.Ino
	name, err := view.Lookup(ctx, c.Parent, c.Name)
	switch {
	case err == nil:
		ino = name.Ino
	case !errors.Is(err, syscall.ENOENT):
		return nil, err
	}
	v, err := view.Version(ctx, ino)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil, nil
	case err != nil:
		return nil, err
	case v.Nlink == 0 || v.Type() != syscall.S_IFREG:
		return nil, nil
	}
	return v, nil
}

// resolved is what the file should have, and what it has.
func (d *Daemon) resolved(ctx context.Context, c *versions.Conflict, now *store.Version, req ResolveRequest) (text, cur []byte, err error) {
	current := versions.Side{Content: blob.Content{Ref: now.Content, Size: now.Size}}
	stands, err := c.Stands(ctx, d.st)
	if err != nil {
		return nil, nil, err
	}
	var texts [5][]byte
	for i, side := range []*versions.Side{&current, &c.Base, &c.Ours, &c.Theirs, &stands} {
		if texts[i], err = side.Text(ctx, d.st); err != nil {
			return nil, nil, fmt.Errorf("resolve conflict %d: %w", req.ID, err)
		}
	}
	cur, base, ours, theirs, stood := texts[0], texts[1], texts[2], texts[3], texts[4]
	switch {
	case req.Text != nil:
		return *req.Text, cur, nil // whoever made it has seen what there is
	case req.How == ResolveOurs:
		text = ours
	case req.How == ResolveTheirs:
		text = theirs
	case !c.Base.Known:
		return nil, nil, Fail(ExitDecision, "resolve conflict %d of %q: nothing is known that both sides come from, so they cannot be merged; "+
			"use --ours, --theirs or --merge --tool", req.ID, c.Path)
	default:
		var ok bool
		if text, ok = fs.MergeText(c.Path, base, ours, theirs); !ok {
			return nil, nil, Fail(ExitDecision, "resolve conflict %d of %q: both sides changed the same lines; use --merge --tool, --ours or --theirs; "+
				"the sides are in .wsfs/conflicts/%d", req.ID, c.Path, req.ID)
		}
	}
	if bytes.Equal(cur, stood) {
		return text, cur, nil
	}
	// What was changed since stays.
	merged, ok := fs.MergeText(c.Path, stood, cur, text)
	if !ok {
		return nil, nil, Fail(ExitDecision, "resolve conflict %d of %q: it was changed since in a way that does not go together with that; "+
			"use --merge --tool, or edit it and resolve with --ours once it is as it should be", req.ID, c.Path)
	}
	return merged, cur, nil
}

// expect tells a live workspace that a session is about to work in it.
func (d *Daemon) expect(ws store.WorkspaceID, session string) {
	d.mu.Lock()
	s := d.slots[ws]
	d.mu.Unlock()
	if s != nil && s.use() {
		s.live.Expect(session)
		s.release()
	}
}

// expectRunning is expect for all sessions that were registered before the workspace was live.
func (d *Daemon) expectRunning(ws store.WorkspaceID, f *fs.FS) {
	d.runs.mu.Lock()
	var names []string
	for _, c := range d.runs.commands {
		if c.reg.Home == ws && !c.ended {
			names = append(names, c.reg.Session)
		}
	}
	d.runs.mu.Unlock()
	for _, name := range names {
		f.Expect(name)
	}
}
