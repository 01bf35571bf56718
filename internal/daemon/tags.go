package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"wsfs/store"
	"wsfs/versions"
)

// TagRequest asks for a name for a revision, or to remove one.
type TagRequest struct {
	Revision string `json:"revision"` // as in ForkRequest; the workspace alone if Delete
	Name     string `json:"name"`
	Force    bool   `json:"force,omitempty"` // move it if there is one
	Delete   bool   `json:"delete,omitempty"`
}

// TagReply says where a tag is, or was.
type TagReply struct {
	Workspace string `json:"workspace"`
	Tag       string `json:"tag"`
	Seq       int64  `json:"seq"`
	Was       int64  `json:"was,omitempty"` // seq of the tag that was moved
}

// Tag sets or removes a tag.
func (c *Client) Tag(ctx context.Context, req TagRequest) (TagReply, error) {
	var out TagReply
	return out, c.do(ctx, http.MethodPost, "/v1/tags", req, &out)
}

func (d *Daemon) tag(ctx context.Context, req TagRequest) (TagReply, error) {
	rev, err := versions.Parse(req.Revision, time.UTC)
	if err != nil {
		return TagReply{}, err
	}
	if err := versions.CheckTagName(req.Name); err != nil {
		return TagReply{}, &Error{ExitUsage, err}
	}
	d.names.tags.Lock()
	defer d.names.tags.Unlock()
	if req.Delete {
		return d.untag(ctx, rev, req.Name)
	}
	from, err := d.freeze(ctx, rev)
	if err != nil {
		return TagReply{}, err
	}
	what := fmt.Sprintf("tag %s as %q", rev, req.Name)
	out := TagReply{Workspace: from.ws.Name, Tag: req.Name, Seq: int64(from.place.Seq)}
	have, err := d.findTag(ctx, &from.ws, req.Name)
	switch {
	case errors.Is(err, syscall.ENOENT):
	case err != nil:
		return TagReply{}, err
	case have.Timeline == from.place.Timeline && have.Seq == from.place.Seq:
		return out, Fail(ExitNothing, "%s: it is that already", what)
	case !req.Force:
		return TagReply{}, Fail(ExitFailed, "%s: there is one of that name, at %s@%d; --force moves it: %w", what, from.ws.Name, have.Seq, syscall.EEXIST)
	default:
		out.Was = int64(have.Seq)
	}
	return out, d.mark(what, versions.TagOp(&from.ws, req.Name, from.place, d.o.Now().UnixNano(), d.callerAt(ctx, from.slot)))
}

func (d *Daemon) untag(ctx context.Context, rev versions.Revision, name string) (TagReply, error) {
	what := fmt.Sprintf("remove tag %q of %s", name, rev)
	if rev.Point.Kind != versions.AtHead {
		return TagReply{}, Fail(ExitUsage, "%s: a tag is removed by its workspace and name alone: %w", what, syscall.EINVAL)
	}
	ws, err := d.workspace(ctx, rev.Workspace)
	if err != nil {
		return TagReply{}, err
	}
	have, err := d.findTag(ctx, ws, name)
	if errors.Is(err, syscall.ENOENT) {
		_, err = versions.Resolve(ctx, d.st, versions.Revision{Workspace: ws.Name, Point: versions.Point{Kind: versions.AtTag, Tag: name}}, d.o.Now())
	}
	if err != nil {
		return TagReply{}, err
	}
	s, err := d.slot(ctx, ws.Name, ws.ID)
	if err != nil {
		return TagReply{}, err
	}
	out := TagReply{Workspace: ws.Name, Tag: name, Seq: int64(have.Seq)}
	return out, d.mark(what, versions.UntagOp(ws, name, d.o.Now().UnixNano(), d.callerAt(ctx, s)))
}

// findTag finds a tag after everything acknowledged is in the database.
func (d *Daemon) findTag(ctx context.Context, ws *store.Workspace, name string) (store.Tag, error) {
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return store.Tag{}, err
	}
	return d.st.Tag(ctx, ws.ID, name)
}

// mark appends an op that sets tags or pins and returns when it survives the end of this process.
func (d *Daemon) mark(what string, op *store.Op) error {
	slot, err := d.st.Append(op)
	if err == nil {
		err = d.st.Wait(slot)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
