package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/versions"
)

func (d *Daemon) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", reply(func(r *http.Request, _ *struct{}) (any, error) { return d.status(r.Context()), nil }))
	mux.HandleFunc("GET /v1/mounts", reply(func(*http.Request, *struct{}) (any, error) { return d.list(), nil }))
	mux.HandleFunc("POST /v1/mounts", reply(func(r *http.Request, req *MountRequest) (any, error) {
		return d.mount(r.Context(), *req)
	}))
	mux.HandleFunc("DELETE /v1/mounts", reply(func(r *http.Request, _ *struct{}) (any, error) { return d.deleteMounts(r) }))
	mux.HandleFunc("POST /v1/sync", reply(func(r *http.Request, req *SyncRequest) (any, error) {
		return d.sync(r.Context(), *req)
	}))
	mux.HandleFunc("POST /v1/workspaces", reply(func(r *http.Request, req *WorkspaceRequest) (any, error) {
		uid, gid := owner()
		return struct{}{}, d.createWorkspace(r.Context(), req.Name, "", uid, gid)
	}))
	mux.HandleFunc("POST /v1/restore", reply(func(r *http.Request, req *RestoreRequest) (any, error) {
		return d.restore(r.Context(), *req)
	}))
	mux.HandleFunc("POST /v1/import", d.serveImport)
	mux.HandleFunc("POST /v1/take", d.serveTake)
	mux.HandleFunc("POST /v1/apply", reply(func(r *http.Request, req *ApplyRequest) (any, error) { return d.apply(r.Context(), *req) }))
	mux.HandleFunc("POST /v1/blame", d.serveBlame)
	mux.HandleFunc("POST /v1/hold", d.serveHold)
	d.pointerRoutes(mux)
	d.runRoutes(mux)
	d.undoRoutes(mux)
	d.mergeRoutes(mux)
	d.reviewRoutes(mux)
	d.gcRoutes(mux)
	d.replaceRoute(mux)
	d.conflictRoutes(mux)
	mux.HandleFunc("POST /v1/watch", d.serveWatch)
	d.lockRoutes(mux)
	mux.HandleFunc("GET /metrics", d.serveMetrics)
	profileRoutes(mux)
	return d.guard(d.fromHistory(mux))
}

// guard turns a panic into an answer and a line in the log: one bad request must not end the mounts.
func (d *Daemon) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		defer func() {
			if p := recover(); p != nil {
				d.log.Error("panic in the API", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				writeError(w, fmt.Errorf("%s %s: the daemon met a bug; its log has the details", r.Method, r.URL.Path))
			}
		}()
		next.ServeHTTP(w, r)
		d.log.Debug("api", "method", r.Method, "path", r.URL.Path, "time", time.Since(start))
	})
}

// reply decodes the body, if any, runs fn and encodes what it returns.
func reply[T any](fn func(*http.Request, *T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req T
		if err := readBody(r, &req); err != nil {
			writeError(w, err)
			return
		}
		out, err := fn(r, &req)
		if err != nil {
			writeError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the client went away
	}
}

func readBody(r *http.Request, into any) error {
	if r.Body == nil || r.Method == http.MethodGet || r.Method == http.MethodDelete {
		return nil
	}
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<20))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return Fail(ExitUsage, "%s %s: the body is not what is expected: %v: %w", r.Method, r.URL.Path, err, syscall.EINVAL)
	}
	return nil
}

func writeError(w http.ResponseWriter, err error) {
	body := errorBody(err)
	code := http.StatusInternalServerError
	switch {
	case body.Exit == ExitUsage:
		code = http.StatusBadRequest
	case errors.Is(err, syscall.ENOENT):
		code = http.StatusNotFound
	case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EEXIST), body.Exit != ExitFailed:
		code = http.StatusConflict
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client went away
}

// errorBody is the one translation from an error to an exit code.
func errorBody(err error) ErrorBody {
	body := ErrorBody{Error: err.Error(), Exit: ExitCode(err)}
	_ = errors.As(err, &body.Errno) // 0 if it stands for none
	var large *tooLarge
	body.Confirm = errors.As(err, &large)
	var conflicts *conflicted
	if errors.As(err, &conflicts) {
		body.Conflicts = conflicts.list
	}
	return body
}

// ExitCode is the exit code that an error leads to.
func ExitCode(err error) int {
	var e *Error
	var malformed *versions.RevisionError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &e):
		return e.Exit
	case errors.As(err, &malformed):
		return ExitUsage
	}
	return ExitFailed
}

func (d *Daemon) deleteMounts(r *http.Request) (any, error) {
	q := r.URL.Query()
	out := UnmountResult{Unmounted: []Path{}}
	if q.Get("all") != "" {
		var errs []error
		for _, m := range d.list() {
			if err := d.unmount(r.Context(), string(m.Mountpoint), q.Get("lazy") != ""); err != nil {
				errs = append(errs, err)
				continue
			}
			out.Unmounted = append(out.Unmounted, m.Mountpoint)
		}
		return out, errors.Join(errs...)
	}
	point := q.Get("mountpoint")
	if point == "" {
		return nil, Fail(ExitUsage, "unmount: no mountpoint was given: %w", syscall.EINVAL)
	}
	if err := d.unmount(r.Context(), point, q.Get("lazy") != ""); err != nil {
		return nil, err
	}
	out.Unmounted = append(out.Unmounted, Path(point))
	return out, nil
}

// sync applies everything acknowledged before; durable also makes versions of what is dirty and flushes the disk.
func (d *Daemon) sync(ctx context.Context, req SyncRequest) (SyncResult, error) {
	if req.Durable {
		if err := d.each(req.Workspace, func(f *fs.FS) error { return f.Sync(ctx) }); err != nil {
			return SyncResult{}, fmt.Errorf("sync: %w", err)
		}
		if err := d.st.Sync(d.st.Last()); err != nil {
			return SyncResult{}, fmt.Errorf("sync: %w", err)
		}
	}
	last := d.st.Last()
	if err := d.st.Apply(ctx, last); err != nil {
		return SyncResult{}, fmt.Errorf("sync: %w", err)
	}
	return SyncResult{int64(last)}, nil
}

// RestoreReply says what a restore did.
type RestoreReply struct {
	Workspace string `json:"workspace"`
	Path      Path   `json:"path"`
	Seq       int64  `json:"seq"`
	Restored  int64  `json:"restored"`
	Unchanged int64  `json:"unchanged"`
	Kept      int64  `json:"kept"` // entries of restored directories that are newer than the revision: they stay
}

func (d *Daemon) restore(ctx context.Context, req RestoreRequest) (RestoreReply, error) {
	rev, err := versions.ParseHere(req.Revision, time.UTC)
	if err != nil {
		return RestoreReply{}, err
	}
	if rev.Workspace == "" {
		rev.Workspace = req.Workspace
	}
	s, f, release, err := d.acquire(ctx, req.Workspace)
	if err != nil {
		return RestoreReply{}, err
	}
	defer release()
	if rev.Workspace != req.Workspace {
		return RestoreReply{}, Fail(ExitUsage, "restore %q of workspace %q from %s: that is another workspace; export the file and copy it instead: %w",
			req.Path, req.Workspace, rev, syscall.EXDEV)
	}
	now := d.o.Now()
	if _, err := d.sync(ctx, SyncRequest{}); err != nil {
		return RestoreReply{}, err
	}
	from, err := versions.Resolve(ctx, d.st, rev, now)
	if err != nil {
		return RestoreReply{}, err
	}
	res, err := f.Restore(ctx, d.caller(ctx, s), versions.Clean(string(req.Path)), from.View)
	if err != nil {
		return RestoreReply{}, err
	}
	out := RestoreReply{
		Workspace: req.Workspace, Path: req.Path, Seq: int64(res.Seq), Restored: res.Restored, Unchanged: res.Unchanged, Kept: res.Kept,
	}
	if res.Seq == 0 {
		return out, Fail(ExitNothing, "restore %q from %s: it is as it was then", req.Path, rev)
	}
	_, err = d.sync(ctx, SyncRequest{})
	return out, err
}

func owner() (uid, gid uint32) { return uint32(os.Getuid()), uint32(os.Getgid()) }

func (d *Daemon) status(ctx context.Context) Status {
	q := d.st.QueueStats()
	last, _ := d.errors.get()
	out := Status{
		PID: os.Getpid(), Store: Path(d.o.Store), Started: d.started.UTC().Format(time.RFC3339), Version: d.o.Version,
		Mounts: d.list(), Ops: int64(q.Last), Applied: int64(q.Applied), Durable: int64(q.Durable), PendingBytes: q.PendingBytes,
		LastError: last,
	}
	if d.o.Serve {
		out.Socket = Path(SocketPath(d.o.Store))
	}
	d.mu.Lock()
	out.Ending = d.ending
	d.mu.Unlock()
	short, stop := context.WithTimeout(ctx, time.Second) // a status that is late is worth nothing
	if n, err := d.st.OpenConflicts(short); err == nil {
		out.Conflicts = n
	}
	stop()
	if q.Stalled != nil {
		out.Stalled = q.Stalled.Error()
	}
	if q.Stopped != nil {
		out.Stopped = q.Stopped.Error()
	}
	if b, err := d.st.Budget(ctx); err == nil && b.Cap > 0 {
		out.Budget = &Budget{b, b.Tight()}
	}
	if b, err := BytesOf(ctx, d.st); err == nil {
		out.Bytes = b
	}
	return out
}
