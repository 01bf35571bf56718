package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/versions"
)

// BlameRequest asks for a blame that was kept, of a path at a revision that means the same to everybody: no age.
type BlameRequest struct {
	Revision string `json:"revision"`
	Path     Path   `json:"path"`
}

const (
	blameVersion = "Wsfs-Version"
	blameContent = "Wsfs-Content"
	blameOwners  = "Wsfs-Owners" // bytes of the answer; the rest is the text
)

// serveBlame answers with what was kept, or 204: then the asker finds it out himself, for that is long work, and he has
// better words for what is wrong.
func (d *Daemon) serveBlame(w http.ResponseWriter, r *http.Request) {
	var req BlameRequest
	if err := readBody(r, &req); err != nil {
		writeError(w, err)
		return
	}
	k, err := d.keptBlame(r.Context(), req)
	if k == nil || err != nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.Itoa(len(k.Owners)+len(k.Text)))
	h.Set(blameVersion, strconv.FormatInt(int64(k.Version), 10))
	h.Set(blameContent, k.Content.String())
	h.Set(blameOwners, strconv.Itoa(len(k.Owners)))
	_, _ = w.Write(k.Owners) // the client went away
	_, _ = w.Write(k.Text)
}

func (d *Daemon) keptBlame(ctx context.Context, req BlameRequest) (*versions.KeptBlame, error) {
	rev, err := versions.Parse(req.Revision, time.UTC)
	if err != nil {
		return nil, err
	}
	if _, err := d.sync(ctx, SyncRequest{}); err != nil {
		return nil, err
	}
	res, err := versions.Resolve(ctx, d.st, rev, d.o.Now())
	if err != nil {
		return nil, err
	}
	v, err := versions.Find(ctx, res.View, string(req.Path), true)
	if err != nil {
		return nil, err
	}
	return versions.BlameKept(ctx, d.st, v)
}

// KeptBlame asks the store's daemon, in one round and without what a client for more than one request needs. It is nil if there
// is no daemon, or if it has none.
func KeptBlame(ctx context.Context, dir string, req BlameRequest) (*versions.KeptBlame, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	c, err := dial(dir)
	if errors.Is(err, errNoDaemon) || errors.Is(err, syscall.EACCES) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	head := fmt.Appendf(nil, "POST /v1/blame HTTP/1.1\r\nHost: wsfs\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", len(body))
	if _, err := c.Write(append(head, body...)); err != nil {
		return nil, &GoneError{err}
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 64<<10), nil)
	if err != nil {
		return nil, &GoneError{err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength < 0 {
		return nil, nil
	}
	id, err := strconv.ParseInt(resp.Header.Get(blameVersion), 10, 64)
	if err != nil {
		return nil, nil
	}
	ref, err := blob.ParseRef(resp.Header.Get(blameContent))
	if err != nil {
		return nil, nil
	}
	owners, err := strconv.Atoi(resp.Header.Get(blameOwners))
	if err != nil || owners < 0 || int64(owners) > resp.ContentLength {
		return nil, nil
	}
	var all bytes.Buffer
	all.Grow(int(resp.ContentLength) + bytes.MinRead)
	if n, err := io.Copy(&all, resp.Body); err != nil || n != resp.ContentLength {
		return nil, &GoneError{err}
	}
	return &versions.KeptBlame{Version: store.VersionID(id), Content: ref, Owners: all.Bytes()[:owners], Text: all.Bytes()[owners:]}, nil
}
