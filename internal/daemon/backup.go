package daemon

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
)

// serveHold keeps packs from being deleted for as long as the caller reads: one line says that it holds, and nothing
// follows. A caller that is killed, and a daemon that ends, end it as well.
func (d *Daemon) serveHold(w http.ResponseWriter, r *http.Request) {
	defer d.st.Hold()()
	w.Header().Set("Content-Type", "application/x-ndjson")
	if _, err := io.WriteString(w, "{\"held\":true}\n"); err != nil {
		return
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	select {
	case <-r.Context().Done():
	case <-d.stop:
	}
}

// ErrHoldEnded is why the context of Hold ends before its release.
var ErrHoldEnded = &GoneError{errors.New("the daemon ended")}

// Hold keeps packs from being deleted until release is called. held ends when nothing does that any more; its cause is
// ErrHoldEnded if it was the daemon that ended.
func (c *Client) Hold(ctx context.Context) (held context.Context, release func(), err error) {
	if st := c.Local(); st != nil {
		return ctx, st.Hold(), nil
	}
	ask, stop := context.WithCancel(ctx)
	body, err := c.open(ask, http.MethodPost, "/v1/hold", nil)
	if err != nil {
		stop()
		return nil, nil, err
	}
	if st := c.Local(); st != nil { // the daemon ended just now, and this process has the store
		stop()
		return ctx, st.Hold(), body.Close()
	}
	in := bufio.NewReader(body)
	if _, err := in.ReadString('\n'); err != nil {
		stop()
		return nil, nil, errors.Join(&GoneError{err}, body.Close())
	}
	held, end := context.WithCancelCause(ctx)
	go func() {
		_, _ = in.ReadByte() // it ends when either side does
		end(ErrHoldEnded)
	}()
	return held, func() { stop(); _ = body.Close(); end(nil) }, nil
}
