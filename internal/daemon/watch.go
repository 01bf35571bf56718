package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"wsfs/internal/report"
	"wsfs/store"
	"wsfs/versions"
)

// A watch passes on what happens in a workspace: its changes, moves of its pointer, conflicts, and what resolves them. Each is a stream of
// its own with numbers that only grow and are given in the order in which the database gets them (seq, line of the reflog,
// conflict, the moment of a resolution); a place in all of them is what a watch resumes from. Nothing is kept for a watch: it reads the
// database, page by page, and is woken when that has more.
//
// A change may be amended for some seconds: before it is read, the workspace is sealed, and no more is read than was there then.

// WatchRequest asks for what happens in a workspace after Since: "0", "now", the field `since` of an event, or its id.
type WatchRequest struct {
	Workspace string `json:"workspace"`
	Since     string `json:"since"`
}

const (
	watchPage  = 64
	watchPause = 50 * time.Millisecond // between two looks, so that many small changes are read together
)

// watchEvent is a line of a watch.
type watchEvent struct {
	ID        string `json:"id"`
	Since     string `json:"since"` // resumes after this event
	Event     string `json:"event"` // start, change, moved, conflict, resolved; end: the workspace is gone
	Workspace string `json:"workspace"`
}

type (
	changeEvent struct {
		watchEvent
		report.LogLine
	}
	conflictEvent struct {
		watchEvent
		Conflict report.ConflictLine `json:"conflict"`
	}
)

// watcher is one watch.
type watcher struct {
	st    *store.Store
	ws    *store.Workspace
	at    place
	say   *versions.Stream
	emit  *json.Encoder
	flush func() error
	// seal makes everything up to the seq that it returns final, and visible in the database.
	seal func(context.Context) (store.Seq, error)
}

// Watch writes what the database has after since, and ends.
func Watch(ctx context.Context, st *store.Store, ws *store.Workspace, since string, out io.Writer) error {
	w := &watcher{st: st, ws: ws, say: versions.NewStream(st), emit: json.NewEncoder(out), flush: func() error { return nil },
		seal: func(context.Context) (store.Seq, error) { return math.MaxInt64, nil }}
	if err := w.begin(ctx, since); err != nil {
		return err
	}
	return w.all(ctx)
}

// begin finds the place and says it.
func (w *watcher) begin(ctx context.Context, since string) (err error) {
	switch since {
	case "0":
	case "now":
		upTo, err := w.seal(ctx)
		if err != nil {
			return err
		}
		if w.at.seq, err = w.st.LastChange(ctx, w.ws.ID); err != nil {
			return err
		}
		w.at.seq = min(w.at.seq, upTo)
		refs, err := w.st.RefLog(ctx, w.ws.ID)
		if err != nil {
			return err
		}
		if len(refs) > 0 {
			w.at.ref = refs[0].N
		}
		last, err := w.st.Conflicts(ctx, store.ConflictQuery{Workspace: w.ws.ID, Resolved: true, Limit: 1})
		if err != nil {
			return err
		}
		if len(last) > 0 {
			w.at.conflict = last[0].ID
		}
		if w.at.resolved, err = w.st.LastResolved(ctx, w.ws.ID); err != nil {
			return err
		}
	default:
		if w.at, err = placeOf(ctx, w.st, w.ws, since); err != nil {
			return err
		}
		if err := w.st.WholeAfter(ctx, w.ws.ID, w.at.seq); w.at.seq > 0 && err != nil {
			return fmt.Errorf("watch workspace %q from %s on: %w; `--since 0` tells what is left", w.ws.Name, w.at, err)
		}
	}
	if err := w.emit.Encode(w.event("start", "start")); err != nil {
		return err
	}
	return w.flush()
}

func (w *watcher) event(id, what string) watchEvent {
	return watchEvent{id, w.at.String(), what, w.ws.Name}
}

// all passes on everything that there is now.
func (w *watcher) all(ctx context.Context) error {
	for {
		more, err := w.page(ctx)
		if err == nil {
			err = w.flush()
		}
		if err != nil || !more {
			return err
		}
	}
}

// page passes on the next page of each stream, by time where that says something. It reports whether there may be more.
func (w *watcher) page(ctx context.Context) (more bool, err error) {
	upTo, err := w.seal(ctx)
	if err != nil {
		return false, err
	}
	refs, err := w.st.RefsAfter(ctx, w.ws.ID, w.at.ref, watchPage)
	if err != nil {
		return false, err
	}
	changes, err := w.st.ChangesAfter(ctx, w.ws.ID, w.at.seq, upTo, watchPage)
	if err != nil {
		return false, err
	}
	conflicts, err := versions.Conflicts(ctx, w.st, store.ConflictQuery{
		Workspace: w.ws.ID, Resolved: true, After: w.at.conflict, Oldest: true, Limit: watchPage})
	if err != nil {
		return false, err
	}
	resolved, err := versions.Conflicts(ctx, w.st, store.ConflictQuery{Workspace: w.ws.ID, ResolvedAfter: max(w.at.resolved, 1)})
	if err != nil {
		return false, err
	}
	full := [4]bool{len(refs) == watchPage, len(changes) == watchPage, len(conflicts) == watchPage}
	for {
		at := [4]int64{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64}
		if len(refs) > 0 {
			at[0] = refs[0].At
		}
		if len(changes) > 0 {
			at[1] = changes[0].At
		}
		if len(conflicts) > 0 {
			at[2] = conflicts[0].At
		}
		if len(resolved) > 0 {
			at[3] = resolved[0].ResolvedAt
		}
		next := -1
		for i, t := range at {
			if t == math.MaxInt64 && full[i] {
				return true, nil // what comes next of it may be older than what the others have
			}
			if t != math.MaxInt64 && (next < 0 || t < at[next]) {
				next = i
			}
		}
		switch next {
		case 0:
			err = w.moved(ctx, &refs[0])
			refs = refs[1:]
		case 1:
			err = w.changed(ctx, changes[0])
			changes = changes[1:]
		case 2:
			w.at.conflict = conflicts[0].ID
			err = w.emit.Encode(conflictEvent{w.event(fmt.Sprintf("conflict:%d", w.at.conflict), "conflict"), report.ConflictLineOf(&conflicts[0])})
			conflicts = conflicts[1:]
		case 3:
			if len(resolved) == 1 || resolved[1].ResolvedAt > resolved[0].ResolvedAt {
				w.at.resolved = resolved[0].ResolvedAt
			}
			err = w.emit.Encode(conflictEvent{w.event(fmt.Sprintf("resolved:%d", resolved[0].ID), "resolved"), report.ConflictLineOf(&resolved[0])})
			resolved = resolved[1:]
		default:
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

func (w *watcher) moved(ctx context.Context, ref *store.Ref) error {
	e, err := w.say.Move(ctx, ref)
	if err != nil {
		return err
	}
	if w.at.ref = ref.N; e == nil {
		return nil
	}
	return w.emit.Encode(changeEvent{w.event(fmt.Sprintf("moved:%d", ref.N), "moved"), report.LogLineOf(e)})
}

// changed passes on a change, a line for each name. Who resumes after one that is not the last gets the others again, too.
func (w *watcher) changed(ctx context.Context, row *store.ChangeRow) error {
	list, err := w.say.Change(ctx, row)
	if err != nil {
		return err
	}
	for i, e := range list {
		id := fmt.Sprintf("%d:%d", row.Timeline, row.Seq)
		if i > 0 {
			id += "/" + strconv.Itoa(i)
		}
		if i == len(list)-1 {
			w.at.seq = row.Seq
		}
		if err := w.emit.Encode(changeEvent{w.event(id, "change"), report.LogLineOf(e)}); err != nil {
			return err
		}
	}
	w.at.seq = row.Seq
	return nil
}

func (d *Daemon) serveWatch(wr http.ResponseWriter, r *http.Request) {
	var req WatchRequest
	err := readBody(r, &req)
	var ws *store.Workspace
	if err == nil {
		ws, err = d.workspace(r.Context(), req.Workspace)
	}
	if err == nil && req.Since != "0" && req.Since != "now" {
		_, err = placeOf(r.Context(), d.st, ws, req.Since)
	}
	if err != nil {
		writeError(wr, err)
		return
	}
	wr.Header().Set("Content-Type", "application/x-ndjson")
	w := &watcher{st: d.st, ws: ws, say: versions.NewStream(d.st), emit: json.NewEncoder(wr), flush: http.NewResponseController(wr).Flush}
	w.seal = func(ctx context.Context) (store.Seq, error) { return d.seal(ctx, ws.ID) }
	if err := w.follow(r.Context(), d.stop, req.Since); err != nil && r.Context().Err() == nil {
		_ = w.emit.Encode(errorBody(err)) // the client went away
	}
}

// seal makes everything that a workspace has final and visible in the database, up to the seq that it returns.
func (d *Daemon) seal(ctx context.Context, id store.WorkspaceID) (store.Seq, error) {
	for {
		d.mu.Lock()
		s := d.slots[id]
		d.mu.Unlock()
		upTo, live := store.Seq(0), false
		if s != nil && s.use() {
			upTo, live = s.live.Seal(), true
			s.release()
		}
		if !live { // nobody writes
			err := d.st.Apply(ctx, d.st.Last())
			if err == nil {
				upTo, err = d.st.LastChange(ctx, id)
			}
			if err != nil {
				return 0, err
			}
			if s != nil && s.use() { // or has just begun to
				s.release()
				continue
			}
		}
		return upTo, d.st.Apply(ctx, d.st.Last())
	}
}

// follow passes on what happens until ctx ends, the daemon does, or the workspace is gone.
func (w *watcher) follow(ctx context.Context, stop <-chan struct{}, since string) error {
	if err := w.begin(ctx, since); err != nil {
		return err
	}
	for {
		turn := w.st.Turn() // before it is looked
		if err := w.all(ctx); err != nil {
			return err
		}
		ws, err := w.st.WorkspaceByID(ctx, w.ws.ID)
		if err != nil {
			return err
		}
		if ws.DroppedAt != 0 {
			return w.emit.Encode(w.event("end", "end"))
		}
		select {
		case <-turn:
			time.Sleep(watchPause)
		case <-ctx.Done():
			return nil
		case <-stop:
			return w.all(ctx) // what was closed before the end
		}
	}
}

// Watch asks for what happens in a workspace: a line of JSON each, until the daemon or ctx ends.
func (c *Client) Watch(ctx context.Context, req WatchRequest) (io.ReadCloser, error) {
	return c.open(ctx, http.MethodPost, "/v1/watch", req)
}
