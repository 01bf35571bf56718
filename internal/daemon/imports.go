package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/internal/hosttree"
	"wsfs/store"
	"wsfs/versions"
)

// ImportReply is the result of an import.
type ImportReply struct {
	Workspace string   `json:"workspace"`
	Created   bool     `json:"created"` // the workspace was made by this import
	Seq       int64    `json:"seq"`     // of the one change, 0 if nothing differed
	Added     int64    `json:"added"`
	Changed   int64    `json:"changed"`
	Removed   int64    `json:"removed"`
	Unchanged int64    `json:"unchanged"`
	Bytes     int64    `json:"bytes"` // read from the directory
	Skipped   []string `json:"skipped,omitempty"`
	Merged    []Path   `json:"merged,omitempty"`    // of a take: texts that both changed, in different lines
	Conflicts []Path   `json:"conflicts,omitempty"` // of a take: changed in the directory and in the workspace
}

// serveImport answers with NDJSON: a line now and then while it works, and the result or an error at last.
func (d *Daemon) serveImport(w http.ResponseWriter, r *http.Request) {
	var req ImportRequest
	serveLines(w, r, &req, func() error { return d.checkImport(string(req.Dir), req.Workspace) }, func(p func(fs.Progress)) (*ImportReply, error) {
		return d.runImport(r.Context(), req, p)
	})
}

// serveLines answers what an import answers.
func serveLines(w http.ResponseWriter, r *http.Request, req any, check func() error, run func(func(fs.Progress)) (*ImportReply, error)) {
	if err := readBody(r, req); err != nil {
		writeError(w, err)
		return
	}
	if err := check(); err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := &lines{w: w}
	res, err := run(func(p fs.Progress) {
		out.progress(ImportLine{Phase: p.Phase, Files: p.Files, Total: p.Total, Bytes: p.Bytes})
	})
	line := ImportLine{Done: true, Result: res}
	if err != nil {
		body := errorBody(err)
		line.Failed = &body
	}
	out.send(line)
}

// checkImport refuses directories that this daemon would have to serve to itself, and roots that a workspace cannot
// hold. It touches nothing that is on one of our mounts.
func (d *Daemon) checkImport(dir, name string) error {
	if err := versions.CheckWorkspaceName(name); err != nil {
		return &Error{ExitUsage, err}
	}
	mounts, err := Mounts()
	if err != nil {
		return err
	}
	if m := MountOf(mounts, dir); m != nil && m.Ours() && m.Store() == d.o.Store {
		return Fail(ExitFailed, "import %s: it is in the mount of %s at %s; it is versioned there already: %w",
			dir, m.Shown(), m.Point, syscall.EINVAL)
	}
	if within(dir, d.o.Store) {
		return Fail(ExitFailed, "import %s: it is inside the store %s: %w", dir, d.o.Store, syscall.EINVAL)
	}
	return nil
}

func (d *Daemon) runImport(ctx context.Context, req ImportRequest, progress func(fs.Progress)) (*ImportReply, error) {
	dir := string(req.Dir)
	out := &ImportReply{Workspace: req.Workspace}
	if err := hostDir(dir); err != nil {
		return nil, err
	}
	_, err := d.workspace(ctx, req.Workspace)
	if errors.Is(err, syscall.ENOENT) {
		uid, gid := owner()
		err = d.createWorkspace(ctx, req.Workspace, dir, uid, gid)
		out.Created = true
	}
	if err != nil {
		return nil, err
	}
	s, f, release, err := d.acquire(ctx, req.Workspace)
	if err != nil {
		return nil, err
	}
	defer release()
	skip, err := skipBelow(d.o.Store, dir)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	o := fs.ImportOptions{Skip: skip}
	origin := isOrigin(f.Workspace(), dir)
	idx, each := indexOf(start.UnixNano())
	var top syscall.Stat_t
	if origin {
		o.Each = each
		defer d.hosts.lock(dir)()
		if n, same := d.importedAlready(ctx, f, dir, skip); same {
			out.Unchanged = n
			return out, nil
		}
		if err := syscall.Lstat(dir, &top); err != nil {
			return nil, fmt.Errorf("import %s: %w", dir, err)
		}
	}
	who := d.caller(ctx, s)
	res, err := f.ImportWith(ctx, dir, who, o, progress)
	if err != nil {
		return nil, err
	}
	out.Seq, out.Added, out.Changed, out.Removed = int64(res.Seq), res.Added, res.Changed, res.Removed
	out.Unchanged, out.Bytes, out.Skipped = res.Unchanged, res.Bytes, res.Skipped
	d.log.Info("imported", "workspace", req.Workspace, "dir", dir, "seq", out.Seq, "added", out.Added,
		"changed", out.Changed, "removed", out.Removed, "time", time.Since(start))
	// An import is worth as much as the time it took: it survives a power loss when it is done.
	if _, err = d.sync(ctx, SyncRequest{Durable: true, Workspace: req.Workspace}); err != nil || !origin {
		return out, err
	}
	if res.Seq != 0 {
		at := store.Pin{Timeline: f.Workspace().Timeline, Seq: res.Seq}
		n := hostNote{Workspace: int64(f.Workspace().ID), What: "import", Dir: Path(dir), Full: true, Paths: len(idx.Entries)}
		if err := d.noteHost(at, n, who); err != nil {
			return out, err
		}
	}
	if len(res.Skipped) == 0 {
		idx.SetState(int64(res.At.Timeline), int64(res.At.Cut), &top, start.UnixNano())
	}
	return out, idx.Save(d.indexFile(f.Workspace(), dir))
}

// importedAlready reports whether a workspace is where it was at the end of an import of all of dir, and nothing in dir was changed since.
// n is how many entries it has.
func (d *Daemon) importedAlready(ctx context.Context, f *fs.FS, dir string, skip []string) (n int64, same bool) {
	idx, err := hosttree.Load(d.indexFile(f.Workspace(), dir))
	if err != nil || len(skip) > 0 || within(d.o.Store, dir) {
		return 0, false
	}
	timeline, seq, err := f.Freeze(nil)
	if err != nil || int64(timeline) != idx.Loaded.Timeline || int64(seq) != idx.Loaded.Seq {
		return 0, false
	}
	return int64(len(idx.Entries)), idx.Same(ctx, dir)
}

// lines writes NDJSON from several goroutines, progress at most ten times a second and at every new phase.
type lines struct {
	w     http.ResponseWriter
	mu    sync.Mutex
	last  time.Time
	phase string
}

func (l *lines) progress(v ImportLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.last) >= 100*time.Millisecond || v.Phase != l.phase {
		l.last, l.phase = now, v.Phase
		l.write(v)
	}
}

func (l *lines) send(v ImportLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(v)
}

func (l *lines) write(v ImportLine) {
	_ = json.NewEncoder(l.w).Encode(v) // the client went away: the import itself is cancelled by the context
	if f, ok := l.w.(http.Flusher); ok {
		f.Flush()
	}
}
