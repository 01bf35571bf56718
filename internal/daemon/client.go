package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"wsfs/store"
)

// Client calls the API, of a daemon or of this very process.
type Client struct {
	hc    *http.Client
	local *Daemon // nil: a daemon at the other end of the socket
	again func(context.Context) (*Client, error)
}

// OrElse says whom to ask if the daemon has ended by the time that it is asked something.
func (c *Client) OrElse(again func(context.Context) (*Client, error)) { c.again = again }

// Dial returns a client for the store's running daemon, nil if there is none.
func Dial(dir string) (*Client, error) {
	c, err := dial(dir)
	if errors.Is(err, errNoDaemon) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_ = c.Close() // it only showed that somebody listens
	return &Client{hc: &http.Client{Transport: &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return dial(dir) },
		DisableKeepAlives: true,
	}}}, nil
}

// InProcess opens the store in this process and returns a client whose calls are answered here. Close gives it up.
func InProcess(ctx context.Context, o Options) (*Client, error) {
	d, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Client{hc: &http.Client{Transport: &inProcess{d.Handler()}}, local: d}, nil
}

// Local is the store when the client answers in this process, else nil.
func (c *Client) Local() *store.Store {
	if c.local == nil {
		return nil
	}
	return c.local.Store()
}

// Close ends the client. In process it closes the store; an error means that something acknowledged may not have
// reached the database yet and will be replayed.
func (c *Client) Close() error {
	c.hc.CloseIdleConnections()
	if c.local == nil {
		return nil
	}
	return c.local.Close()
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	body, err := c.open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return fmt.Errorf("%s %s: the daemon's answer is not understood: %w", method, path, err)
	}
	return nil
}

// open sends a request and returns the body of a good answer.
func (c *Client) open(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://wsfs"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.hc.Do(req)
	if errors.Is(err, errNoDaemon) && c.again != nil { // so nothing was sent
		other, err := c.again(ctx)
		if err != nil {
			return nil, err
		}
		c.hc, c.local, c.again = other.hc, other.local, nil
		return c.open(ctx, method, path, in)
	}
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // the made-up URL helps nobody
		}
		if errors.Is(err, io.EOF) || errors.Is(err, errNoDaemon) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
			return nil, &GoneError{err}
		}
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		var e ErrorBody
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if json.Unmarshal(b, &e) != nil || e.Error == "" {
			return nil, fmt.Errorf("ask the daemon: %s %s: %s", method, path, resp.Status)
		}
		return nil, e.err()
	}
	return resp.Body, nil
}

// GoneError is a daemon that ended while it was asked.
type GoneError struct{ err error }

func (e *GoneError) Error() string {
	return "ask the daemon: it ended before it answered; look at daemon.log in the store, or try again"
}
func (e *GoneError) Unwrap() error { return e.err }

// Mount asks for a mount.
func (c *Client) Mount(ctx context.Context, req MountRequest) (Mount, error) {
	var out Mount
	return out, c.do(ctx, http.MethodPost, "/v1/mounts", req, &out)
}

// Mounts lists the mounts.
func (c *Client) Mounts(ctx context.Context) ([]Mount, error) {
	var out []Mount
	return out, c.do(ctx, http.MethodGet, "/v1/mounts", nil, &out)
}

// Unmount ends the mount on a mountpoint, or all mounts if it is "".
func (c *Client) Unmount(ctx context.Context, mountpoint string, lazy bool) (UnmountResult, error) {
	q := url.Values{}
	if mountpoint == "" {
		q.Set("all", "1")
	} else {
		q.Set("mountpoint", mountpoint)
	}
	if lazy {
		q.Set("lazy", "1")
	}
	var out UnmountResult
	return out, c.do(ctx, http.MethodDelete, "/v1/mounts?"+q.Encode(), nil, &out)
}

// Sync applies everything acknowledged before.
func (c *Client) Sync(ctx context.Context, req SyncRequest) (SyncResult, error) {
	var out SyncResult
	return out, c.do(ctx, http.MethodPost, "/v1/sync", req, &out)
}

// Status asks how the daemon is. It is answered from memory: a daemon that takes ten seconds for it hangs.
func (c *Client) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errHangs)
	defer cancel()
	var out Status
	err := c.do(ctx, http.MethodGet, "/v1/status", nil, &out)
	if context.Cause(ctx) == errHangs {
		err = errHangs
	}
	return out, err
}

var errHangs = errors.New("ask the daemon: it does not answer; its pid is in the store's file lock, kill it and mount again")

// CreateWorkspace makes an empty workspace.
func (c *Client) CreateWorkspace(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, "/v1/workspaces", WorkspaceRequest{name}, nil)
}

// Restore brings a path back to what it was.
func (c *Client) Restore(ctx context.Context, req RestoreRequest) (RestoreReply, error) {
	var out RestoreReply
	return out, c.do(ctx, http.MethodPost, "/v1/restore", req, &out)
}

// Import reads a directory into a workspace; progress is called for every line but the last.
func (c *Client) Import(ctx context.Context, req ImportRequest, progress func(ImportLine)) (*ImportReply, error) {
	return c.lines(ctx, "/v1/import", req, progress)
}

// lines reads what an import answers.
func (c *Client) lines(ctx context.Context, path string, req any, progress func(ImportLine)) (*ImportReply, error) {
	body, err := c.open(ctx, http.MethodPost, path, req)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	sc := bufio.NewScanner(body)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var line ImportLine
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("import: the daemon's answer is not understood: %w", err)
		}
		switch {
		case line.Failed != nil:
			return line.Result, line.Failed.err()
		case line.Done:
			return line.Result, nil
		}
		progress(line)
	}
	if err := sc.Err(); err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, &GoneError{io.ErrUnexpectedEOF}
}
