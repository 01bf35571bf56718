package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// UndoStep is one line of the answer to an undo, redo or rollback: the plan, and then the result or an error.
type UndoStep struct {
	Plan   *UndoReply `json:"plan,omitempty"`
	Result *UndoReply `json:"result,omitempty"`
	Failed *ErrorBody `json:"failed,omitempty"`
}

// undoRoutes are the requests that take changes back.
func (d *Daemon) undoRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/undo", stepwise(d.undoSaying))
	mux.HandleFunc("POST /v1/redo", stepwise(d.redoSaying))
	mux.HandleFunc("POST /v1/rollback", stepwise(d.rollbackSaying))
}

// stepwise answers with NDJSON, so that the plan is told before it is carried out.
func stepwise[T any](do func(context.Context, T, func(UndoReply)) (UndoReply, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req T
		if err := readBody(r, &req); err != nil {
			writeError(w, err)
			return
		}
		send := func(s UndoStep) {
			_ = json.NewEncoder(w).Encode(s) // the client went away: what was begun is carried out all the same
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
		}
		told := false
		// Whoever asked may be gone: half of an undo is none.
		out, err := do(context.WithoutCancel(r.Context()), req, func(plan UndoReply) {
			if !told {
				told = true
				w.Header().Set("Content-Type", "application/x-ndjson")
			}
			send(UndoStep{Plan: &plan})
		})
		switch {
		case err != nil && !told:
			writeError(w, err)
		case err != nil:
			body := errorBody(err)
			send(UndoStep{Failed: &body})
		default:
			send(UndoStep{Result: &out})
		}
	}
}

// steps sends a request and reads the answer; plan is called with what will be done.
func (c *Client) steps(ctx context.Context, path string, req any, plan func(UndoReply)) (UndoReply, error) {
	body, err := c.open(ctx, http.MethodPost, path, req)
	if err != nil {
		return UndoReply{}, err
	}
	defer body.Close()
	dec := json.NewDecoder(bufio.NewReader(body))
	for {
		var s UndoStep
		switch err := dec.Decode(&s); {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return UndoReply{}, &GoneError{io.ErrUnexpectedEOF}
		case err != nil && ctx.Err() != nil:
			return UndoReply{}, ctx.Err()
		case err != nil:
			return UndoReply{}, fmt.Errorf("%s: the daemon's answer is not understood: %w", path, err)
		case s.Failed != nil:
			return UndoReply{}, s.Failed.err()
		case s.Result != nil:
			return *s.Result, nil
		case s.Plan != nil:
			plan(*s.Plan)
		}
	}
}

// Undo takes changes back; plan is called before that with what will be done.
func (c *Client) Undo(ctx context.Context, req UndoRequest, plan func(UndoReply)) (UndoReply, error) {
	return c.steps(ctx, "/v1/undo", req, plan)
}

// Redo takes the last undo back.
func (c *Client) Redo(ctx context.Context, req RedoRequest, plan func(UndoReply)) (UndoReply, error) {
	return c.steps(ctx, "/v1/redo", req, plan)
}

// Rollback brings a workspace, or paths of it, to what it was at a revision.
func (c *Client) Rollback(ctx context.Context, req RollbackRequest, plan func(UndoReply)) (RollbackReply, error) {
	return c.steps(ctx, "/v1/rollback", req, plan)
}
