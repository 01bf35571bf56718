package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"wsfs/blob"
	"wsfs/internal/report"
	"wsfs/store"
	"wsfs/versions"
)

// BlameRequest asks for a blame that was kept, of a path at a revision that means the same to everybody: no age.
type BlameRequest struct {
	Revision string `json:"revision"`
	Path     Path   `json:"path"`
	Text     bool   `json:"text,omitempty"` // as it is printed to a file
}

const (
	blameVersion = "Wsfs-Version"
	blameContent = "Wsfs-Content"
	blameOwners  = "Wsfs-Owners" // bytes of the answer; the rest is the text
	blameZones   = "Wsfs-Zones"  // of an answer that is printed as it is
)

// blameTexts are the last blames that were printed.
type blameTexts struct {
	mu   sync.Mutex
	list []blameText // guarded by mu, the last one used first
}

type blameText struct {
	version store.VersionID
	content blob.Ref
	text    []byte
	zones   string
}

// There are blameTextsMax of them at most, and none is larger than blameTextMax bytes.
const (
	blameTextsMax = 4
	blameTextMax  = 4 << 20
	blameZonesMax = 4 << 10
)

func (b *blameTexts) get(v *store.Version) *blameText {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, t := range b.list {
		if t.version == v.ID && t.content == v.Content {
			copy(b.list[1:i+1], b.list[:i])
			b.list[0] = t
			return &t
		}
	}
	return nil
}

func (b *blameTexts) put(t blameText) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = slices.Insert(b.list, 0, t)
	b.list = b.list[:min(len(b.list), blameTextsMax)]
}

// serveBlame answers with what was kept, or 204: then the asker finds it out himself, for that is long work, and he has
// better words for what is wrong.
func (d *Daemon) serveBlame(w http.ResponseWriter, r *http.Request) {
	var req BlameRequest
	if err := readBody(r, &req); err != nil {
		writeError(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	v, err := d.blamed(r.Context(), req)
	if err != nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if req.Text {
		t := d.blameText(r.Context(), v)
		if t == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Content-Length", strconv.Itoa(len(t.text)))
		h.Set(blameZones, t.zones)
		_, _ = w.Write(t.text) // the client went away
		return
	}
	k, err := versions.BlameKept(r.Context(), d.st, v)
	if k == nil || err != nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(k.Owners)+len(k.Text)))
	h.Set(blameVersion, strconv.FormatInt(int64(k.Version), 10))
	h.Set(blameContent, k.Content.String())
	h.Set(blameOwners, strconv.Itoa(len(k.Owners)))
	_, _ = w.Write(k.Owners) // the client went away
	_, _ = w.Write(k.Text)
}

// blamed is the version that is meant.
func (d *Daemon) blamed(ctx context.Context, req BlameRequest) (*store.Version, error) {
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
	return versions.Find(ctx, res.View, string(req.Path), true)
}

// blameText is what was kept of v as it is printed, nil if there is none.
func (d *Daemon) blameText(ctx context.Context, v *store.Version) *blameText {
	if t := d.blames.get(v); t != nil {
		return t
	}
	k, err := versions.BlameKept(ctx, d.st, v)
	if k == nil || err != nil || len(k.Text) > blameTextMax {
		return nil
	}
	b, ok, err := k.Blame(versions.BlameRange{})
	if !ok || err != nil {
		return nil
	}
	text, zones, err := report.BlameText(b)
	t := blameText{v.ID, v.Content, text, zones.String()}
	if err != nil || len(text) > blameTextMax || len(t.zones) > blameZonesMax {
		return nil
	}
	d.blames.put(t)
	return &t
}

// KeptBlame asks the store's daemon, in one round and without what a client for more than one request needs. It is nil if there
// is no daemon, or if it has none.
func KeptBlame(ctx context.Context, dir string, req BlameRequest) (*versions.KeptBlame, error) {
	var k *versions.KeptBlame
	err := askBlame(ctx, dir, req, func(resp *http.Response) error {
		id, err := strconv.ParseInt(resp.Header.Get(blameVersion), 10, 64)
		if err != nil {
			return nil
		}
		ref, err := blob.ParseRef(resp.Header.Get(blameContent))
		if err != nil {
			return nil
		}
		owners, err := strconv.Atoi(resp.Header.Get(blameOwners))
		if err != nil || owners < 0 || int64(owners) > resp.ContentLength {
			return nil
		}
		all := make([]byte, resp.ContentLength)
		if _, err := io.ReadFull(resp.Body, all); err != nil {
			return &GoneError{err}
		}
		k = &versions.KeptBlame{Version: store.VersionID(id), Content: ref, Owners: all[:owners], Text: all[owners:]}
		return nil
	})
	return k, err
}

// PrintKeptBlame writes to w what a blame prints to a file, and reports whether it did: not if local time is another for the daemon,
// and where KeptBlame returns nil.
func PrintKeptBlame(ctx context.Context, dir string, req BlameRequest, w io.Writer) (done bool, err error) {
	req.Text = true
	err = askBlame(ctx, dir, req, func(resp *http.Response) error {
		zones, err := report.ParseZones(resp.Header.Get(blameZones))
		if err != nil || !zones.Local() {
			return nil
		}
		done = true
		buf := make([]byte, 128<<10)
		for left := resp.ContentLength; left > 0; {
			n, err := resp.Body.Read(buf[:min(left, int64(len(buf)))])
			left -= int64(n)
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err != nil && left > 0 {
				return &GoneError{err}
			}
		}
		return nil
	})
	return done, err
}

// askBlame calls got with a good answer.
func askBlame(ctx context.Context, dir string, req BlameRequest, got func(*http.Response) error) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	c, err := dial(dir)
	if errors.Is(err, errNoDaemon) || errors.Is(err, syscall.EACCES) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	head := fmt.Appendf(nil, "POST /v1/blame HTTP/1.1\r\nHost: wsfs\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", len(body))
	if _, err := c.Write(append(head, body...)); err != nil {
		return &GoneError{err}
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 64<<10), nil)
	if err != nil {
		return &GoneError{err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength < 0 {
		return nil
	}
	return got(resp)
}

// forget drops all texts.
func (b *blameTexts) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = nil
}
