package daemon

import (
	"context"
	"net/http"
	"syscall"
	"time"

	"wsfs/store"
	"wsfs/versions"
)

// RejectRequest asks to write down that changes of a workspace are not wanted. They stay where they are.
type RejectRequest struct {
	From  string        `json:"from"` // as in MergeRequest
	Paths []ReviewPaths `json:"paths"`
}

// ReviewPaths are changes of one path.
type ReviewPaths struct {
	Path Path     `json:"path"`
	IDs  []string `json:"ids"`
}

// RejectReply says which state it was that was looked at.
type RejectReply struct {
	Workspace string `json:"workspace"`
	Seq       int64  `json:"seq"`
}

func (d *Daemon) reviewRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/reject", reply(func(r *http.Request, req *RejectRequest) (any, error) {
		return d.reject(context.WithoutCancel(r.Context()), *req)
	}))
}

// Reject writes down that changes of a workspace are not wanted.
func (c *Client) Reject(ctx context.Context, req RejectRequest) (RejectReply, error) {
	var out RejectReply
	return out, c.do(ctx, http.MethodPost, "/v1/reject", req, &out)
}

func (d *Daemon) reject(ctx context.Context, req RejectRequest) (RejectReply, error) {
	rev, err := versions.Parse(req.From, time.UTC)
	if err != nil {
		return RejectReply{}, err
	}
	if len(req.Paths) == 0 {
		return RejectReply{}, Fail(ExitUsage, "reject: which changes? %w", syscall.EINVAL)
	}
	from, err := d.freeze(ctx, rev)
	if err != nil {
		return RejectReply{}, err
	}
	op := &store.Op{Who: d.callerAt(ctx, from.slot), At: d.o.Now().UnixNano()}
	for _, p := range req.Paths {
		op.Reviews = append(op.Reviews, store.Review{
			Workspace: from.ws.ID, Timeline: from.place.Timeline, Seq: from.place.Seq, Path: string(p.Path), Hunks: p.IDs, Verdict: store.Rejected,
		})
	}
	return RejectReply{from.ws.Name, int64(from.place.Seq)}, d.mark("reject changes of "+from.ws.Name, op)
}

// accepted is what a merge writes down of what it took in. One that a program makes for a command of its own says nothing of its user.
func (m *merging) accepted(plan *versions.MergePlan) []store.Review {
	if m.req.Whole || plan.Empty() {
		return nil
	}
	one := store.Review{Workspace: m.from.ws.ID, Timeline: m.from.place.Timeline, Seq: m.from.place.Seq, Verdict: store.Accepted}
	var out []store.Review
	switch {
	case len(m.sel.Hunks) > 0:
		for _, t := range plan.Taken {
			one.Path, one.Hunks = t.Path, t.IDs
			out = append(out, one)
		}
	case len(m.sel.Only) > 0:
		for _, p := range m.sel.Only {
			one.Path = versions.Clean(p)
			out = append(out, one)
		}
	default:
		out = append(out, one)
	}
	return out
}
