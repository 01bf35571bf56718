package daemon

import (
	"context"
	"net/http"
)

// ForkRequest asks for a workspace that starts at a revision of another one.
type ForkRequest struct {
	Revision string `json:"revision"` // WS or WS@POINT, as versions.Parse reads it; times in UTC
	Name     string `json:"name"`
}

// ForkReply says what was made.
type ForkReply struct {
	Workspace string `json:"workspace"`
	ID        int64  `json:"id"`
	Parent    string `json:"parent"`
	BaseSeq   int64  `json:"base_seq"` // the change of Parent that the fork starts right after
}

// DropRequest asks to take a workspace away.
type DropRequest struct {
	Workspace string `json:"workspace"`
	Force     bool   `json:"force,omitempty"` // although it has changes that no other workspace has
}

// DropReply says what is out of reach now.
type DropReply struct {
	Workspace string `json:"workspace"`
	ID        int64  `json:"id"`
	OnlyHere  int64  `json:"only_here"` // changes that no other workspace has, counted up to 10,000
}

// UndropRequest asks to bring back the workspace of that name that was dropped last.
type UndropRequest struct {
	Workspace string `json:"workspace"`
	As        string `json:"as,omitempty"` // a new name, if the old one is taken
}

// UndropReply says what came back.
type UndropReply struct {
	Workspace string `json:"workspace"`
	ID        int64  `json:"id"`
	Dropped   string `json:"dropped"` // when it was dropped
}

// pointerRoutes are the requests that make, move or drop workspaces and what names their points.
func (d *Daemon) pointerRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/forks", reply(func(r *http.Request, req *ForkRequest) (any, error) {
		return d.fork(r.Context(), *req)
	}))
	mux.HandleFunc("POST /v1/drop", reply(func(r *http.Request, req *DropRequest) (any, error) {
		return d.drop(r.Context(), *req)
	}))
	mux.HandleFunc("POST /v1/undrop", reply(func(r *http.Request, req *UndropRequest) (any, error) {
		return d.undrop(r.Context(), *req)
	}))
	mux.HandleFunc("POST /v1/tags", reply(func(r *http.Request, req *TagRequest) (any, error) {
		return d.tag(r.Context(), *req)
	}))
}

// Fork makes a workspace that starts at a revision of another one.
func (c *Client) Fork(ctx context.Context, req ForkRequest) (ForkReply, error) {
	var out ForkReply
	return out, c.do(ctx, http.MethodPost, "/v1/forks", req, &out)
}

// Drop takes a workspace away.
func (c *Client) Drop(ctx context.Context, req DropRequest) (DropReply, error) {
	var out DropReply
	return out, c.do(ctx, http.MethodPost, "/v1/drop", req, &out)
}

// Undrop brings a dropped workspace back.
func (c *Client) Undrop(ctx context.Context, req UndropRequest) (UndropReply, error) {
	var out UndropReply
	return out, c.do(ctx, http.MethodPost, "/v1/undrop", req, &out)
}
