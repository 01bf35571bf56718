package daemon

import (
	"context"
	"net/http"
)

// MergeRequest asks to take what From has changed into Into, since the newest state that both came from.
type MergeRequest struct {
	From string `json:"from"` // WS or WS@POINT, as versions.Parse reads it; times in UTC
	Into string `json:"into"`
	// Prefer says what becomes of what does not go together: "ours" (Into's stays), "theirs" (From's comes), or "": Into's stays,
	// and the conflict is written down.
	Prefer string `json:"prefer,omitempty"`
	Only   []Path `json:"only,omitempty"` // only what is at or below one of these, from the root of the workspace
	// Hunks are the ids of the changes that are taken in, as `wsfs review` lists them; none: all.
	Hunks  []string `json:"hunks,omitempty"`
	DryRun bool     `json:"dry_run,omitempty"`
	// Whole: if anything is a conflict, nothing is done at all.
	Whole bool `json:"whole,omitempty"`
	// Serializable: it is a conflict, too, if something that was read in From has changed in Into since From was forked from it.
	// It goes with Whole, and with a From whose only mounts were made by RunMountRequest.Reads.
	Serializable bool `json:"serializable,omitempty"`
}

// MergeReply says what a merge did, or would do.
type MergeReply struct {
	Workspace string          `json:"workspace"`
	From      string          `json:"from"`
	FromSeq   int64           `json:"from_seq"` // the state that was taken in
	Base      UndoPlace       `json:"base"`     // the newest state that both came from
	Seq       int64           `json:"seq"`      // of the change that did it, 0: nothing was done
	Created   int             `json:"created"`
	Changed   int             `json:"changed"`
	Merged    int             `json:"merged"` // files that have something of both sides now
	Removed   int             `json:"removed"`
	Renamed   int             `json:"renamed"`
	Skipped   int             `json:"skipped,omitempty"` // what Only leaves out
	DryRun    bool            `json:"dry_run,omitempty"`
	Paths     []MergeLine     `json:"paths"`
	Conflicts []MergeConflict `json:"conflicts"`
}

// MergeLine is one path that changes.
type MergeLine struct {
	What string `json:"what"` // created, changed, merged, removed, renamed
	Path Path   `json:"path"`
	From Path   `json:"from,omitempty"`
	Dir  bool   `json:"dir,omitempty"`
}

// MergeConflict is something that both sides changed in ways that do not go together.
type MergeConflict struct {
	ID     int64  `json:"id,omitempty"` // as `wsfs conflicts` has it; 0 if nothing was done
	Why    string `json:"why"`
	Path   Path   `json:"path"`
	There  Path   `json:"there,omitempty"` // where the other side has it, if that is elsewhere
	Line   int    `json:"line,omitempty"`
	Detail string `json:"detail"`
}

func (d *Daemon) mergeRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/merge", reply(func(r *http.Request, req *MergeRequest) (any, error) {
		// Whoever asked may be gone: half of a merge is none.
		return d.merge(context.WithoutCancel(r.Context()), *req)
	}))
}

// Merge takes what a workspace has changed into another one.
func (c *Client) Merge(ctx context.Context, req MergeRequest) (MergeReply, error) {
	var out MergeReply
	return out, c.do(ctx, http.MethodPost, "/v1/merge", req, &out)
}
