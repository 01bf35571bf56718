package daemon

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"wsfs/store"
	"wsfs/versions"
)

// PurgeRequest asks to remove bytes for good. One of Content and Paths is given.
type PurgeRequest struct {
	Content   []byte `json:"content,omitempty"` // contents and command lines that hold these bytes
	Workspace string `json:"workspace,omitempty"`
	Paths     []Path `json:"paths,omitempty"` // past contents of what was ever there or below
}

// PurgeReply says what was removed.
type PurgeReply struct {
	store.PurgeResult
}

// Purge removes bytes for good.
func (c *Client) Purge(ctx context.Context, req PurgeRequest) (PurgeReply, error) {
	var out PurgeReply
	return out, c.do(ctx, http.MethodPost, "/v1/purge", req, &out)
}

func (d *Daemon) purge(ctx context.Context, req PurgeRequest) (PurgeReply, error) {
	o := store.PurgeOptions{Content: req.Content, Roots: d.openContents, Who: d.whoAsks(ctx), What: "contents that hold certain bytes"}
	if len(req.Content) == 0 {
		ws, err := d.workspace(ctx, req.Workspace)
		if err != nil {
			return PurgeReply{}, err
		}
		for _, p := range req.Paths {
			inos, err := d.st.EverAt(ctx, ws, versions.Clean(string(p)))
			if err != nil {
				return PurgeReply{}, err
			}
			if len(inos) == 0 {
				return PurgeReply{}, Fail(ExitFailed, "purge %s:%s: nothing was ever there: %w", ws.Name, p, syscall.ENOENT)
			}
			o.Inos = append(o.Inos, inos...)
		}
		o.What = fmt.Sprintf("the past of %s in %s", strings.Join(texts(req.Paths), ", "), ws.Name)
	} else if len(req.Content) < 4 {
		return PurgeReply{}, Fail(ExitUsage, "purge: %d bytes are too few: they would be found everywhere: %w", len(req.Content), syscall.EINVAL)
	}
	// What is dirty in a live file system is a version first.
	if _, err := d.sync(ctx, SyncRequest{Durable: true}); err != nil {
		return PurgeReply{}, err
	}
	res, err := d.st.Purge(ctx, o)
	if err != nil {
		return PurgeReply{res}, err
	}
	if len(res.Shown) > 0 {
		return PurgeReply{res}, d.stillShown(ctx, res.Shown)
	}
	d.blames.forget()
	d.log.Info("purged", "versions", res.Versions, "lines", res.Lines)
	if len(res.Left) > 0 {
		return PurgeReply{res}, Fail(ExitFailed, "purge: %d versions and %d command lines were purged, but the bytes are still in: %s", res.Versions, res.Lines, strings.Join(res.Left, "; "))
	}
	if res.Versions+res.Lines == 0 {
		return PurgeReply{res}, Fail(ExitNothing, "purge: no past content and no command line has that")
	}
	return PurgeReply{res}, nil
}

// stillShown says where what was to be purged is shown now.
func (d *Daemon) stillShown(ctx context.Context, list []store.Shown) error {
	var where []string
	for _, s := range list {
		p, err := d.st.LastPath(ctx, s.Timeline, s.Ino)
		if err != nil {
			return err
		}
		if !slices.Contains(where, p) {
			where = append(where, p)
		}
	}
	more := ""
	if len(where) > 10 {
		where, more = where[:10], fmt.Sprintf(" and %d more", len(where)-10)
	}
	return Fail(ExitDecision, "purge: workspaces show it now, in %s%s; remove it there first, then purge: nothing was changed", strings.Join(where, ", "), more)
}
