package daemon

import (
	"context"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// ReplaceRequest asks a daemon to make room for another program.
type ReplaceRequest struct {
	Program Path `json:"program"` // absolute
}

// replyTime is how long the answer has to reach whoever asked, before the daemon ends.
const replyTime = 50 * time.Millisecond

// replace has the keeper start that program in this one's place, and ends this one. For mounts it is as if this daemon
// had died: they go on, and so does what is open. What could not go on keeps it from being replaced.
func (d *Daemon) replace(ctx context.Context, req ReplaceRequest) error {
	program := string(req.Program)
	if d.o.Keeper == nil {
		return Fail(ExitFailed, "replace the daemon: nobody holds its mounts, since it was not started by `wsfs mount`: %w", syscall.EOPNOTSUPP)
	}
	if st, err := os.Stat(program); err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return Fail(ExitFailed, "replace the daemon: %s is not a program: %w", program, syscall.ENOEXEC)
	}
	var bound []string
	d.mu.Lock()
	for point, m := range d.mounts {
		if m.m == nil || m.kept == nil {
			bound = append(bound, point)
			continue
		}
		if _, _, ok := m.m.Kept(); !ok {
			bound = append(bound, point)
		}
	}
	d.mu.Unlock()
	if len(bound) > 0 {
		return Fail(ExitFailed, "replace the daemon: these mounts end with it (see docs/limits.md), so unmount them first: %s: %w",
			strings.Join(bound, ", "), syscall.EBUSY)
	}
	// The next one has less to replay then. A store that has stopped applies nothing: to be opened again is what it needs.
	if err := d.st.Apply(ctx, d.st.Last()); err != nil && d.st.QueueStats().Stopped == nil {
		return err
	}
	if err := d.o.Keeper.Next(program); err != nil {
		return err
	}
	d.log.Info("daemon ends for another program", "program", program)
	time.AfterFunc(replyTime, func() { d.o.Exit(ExitDone) }) // without an end: whatever is open stays open
	return nil
}

func (d *Daemon) replaceRoute(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/replace", reply(func(r *http.Request, req *ReplaceRequest) (any, error) {
		return struct{}{}, d.replace(r.Context(), *req)
	}))
}

// Replace has another program take the daemon's place, and waits until that answers. It returns the new process.
func (c *Client) Replace(ctx context.Context, program string) (int, error) {
	before, err := c.Status(ctx)
	if err != nil {
		return 0, err
	}
	if err := c.do(ctx, http.MethodPost, "/v1/replace", &ReplaceRequest{Path(program)}, nil); err != nil {
		return 0, err
	}
	for {
		if st, err := c.Status(ctx); err == nil && st.PID != before.PID {
			return st.PID, nil
		}
		select {
		case <-ctx.Done():
			return 0, Fail(ExitFailed, "replace the daemon: the new one does not answer; the end of daemon.log in the store may say why: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
