package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
)

// GCRequest asks to collect what the policy does not keep.
type GCRequest struct {
	Keep     string `json:"keep,omitempty"`    // a policy for this time, as store.ParseRetention reads it
	Dropped  string `json:"dropped,omitempty"` // for how long dropped workspaces stay, this time: an age, or 0
	DryRun   bool   `json:"dry_run,omitempty"`
	Class    string `json:"class,omitempty"`    // limits of classes for this time: `scratch for 1min; secret for 1min`
	Thorough bool   `json:"thorough,omitempty"` // give everything back, whatever it costs
}

// GCReply says what was removed, or would be.
type GCReply struct {
	store.GCResult
	Keep   string `json:"keep"` // the policy
	DryRun bool   `json:"dry_run,omitempty"`
}

// RetentionRequest asks for the store's policy, or to change it.
type RetentionRequest struct {
	Keep string `json:"keep,omitempty"`
}

// RetentionReply is the policy.
type RetentionReply struct {
	Keep string `json:"keep"`
	Was  string `json:"was,omitempty"` // if it was changed
}

// GC collects.
func (c *Client) GC(ctx context.Context, req GCRequest) (GCReply, error) {
	var out GCReply
	return out, c.do(ctx, http.MethodPost, "/v1/gc", req, &out)
}

// Retention reads or changes the policy.
func (c *Client) Retention(ctx context.Context, req RetentionRequest) (RetentionReply, error) {
	var out RetentionReply
	return out, c.do(ctx, http.MethodPost, "/v1/retention", req, &out)
}

func (d *Daemon) gcRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/gc", reply(func(r *http.Request, req *GCRequest) (any, error) { return d.gc(r.Context(), *req) }))
	mux.HandleFunc("POST /v1/purge", reply(func(r *http.Request, req *PurgeRequest) (any, error) { return d.purge(r.Context(), *req) }))
	mux.HandleFunc("POST /v1/classes", reply(func(r *http.Request, req *ClassRequest) (any, error) { return d.classes(r.Context(), *req) }))
	mux.HandleFunc("POST /v1/retention", reply(func(r *http.Request, req *RetentionRequest) (any, error) {
		return d.retention(r.Context(), *req)
	}))
}

// fromHistory is next for requests that work out something from past states, or name one: nothing is collected meanwhile.
func (d *Daemon) fromHistory(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/forks", "/v1/drop", "/v1/undrop", "/v1/tags", "/v1/restore", "/v1/import", "/v1/take", "/v1/apply", "/v1/undo", "/v1/redo",
			"/v1/rollback", "/v1/merge", "/v1/runs", "/v1/mounts":
			if r.Method == http.MethodPost {
				defer d.st.UseHistory()()
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (d *Daemon) gc(ctx context.Context, req GCRequest) (GCReply, error) {
	keep, err := d.st.Retention(ctx)
	if err == nil && req.Keep != "" {
		keep, err = store.ParseRetention(req.Keep)
	}
	if err == nil && req.Dropped != "" {
		if keep.Dropped, err = store.ParseAge(req.Dropped); keep.Dropped == 0 {
			keep.Dropped = time.Nanosecond
		}
	}
	var classes *store.Classes
	if err == nil && req.Class != "" {
		var c store.Classes
		if c, _, err = d.st.Classes(ctx); err == nil {
			c, err = c.ParseClassLimits(req.Class)
			classes = &c
		}
	}
	if err != nil {
		if errors.Is(err, syscall.EINVAL) {
			err = &Error{ExitUsage, err}
		}
		return GCReply{}, fmt.Errorf("gc: %w", err)
	}
	start := time.Now()
	res, err := d.st.Collect(ctx, store.GCOptions{
		Keep: &keep, Classes: classes, DryRun: req.DryRun, Thorough: req.Thorough, Roots: d.openContents, Replaced: replacedImports, Who: d.whoAsks(ctx),
		Measure: store.MeasureNow,
	})
	out := GCReply{GCResult: res, Keep: keep.String(), DryRun: req.DryRun}
	if err != nil {
		return out, fmt.Errorf("gc: %w", err)
	}
	if !req.DryRun {
		d.log.Info("collected", "keep", out.Keep, "states", res.States, "versions", res.Versions, "blobs", res.Blobs, "before", res.Before,
			"after", res.After, "time", time.Since(start))
	}
	return out, nil
}

// openContents are the contents that open files of live workspaces need.
func (d *Daemon) openContents() []blob.Content {
	var list []blob.Content
	_ = d.each("", func(f *fs.FS) error { // it returns none
		list = append(list, f.Contents()...)
		return nil
	})
	return list
}

// whoAsks is the program that sent a request, as far as known.
func (d *Daemon) whoAsks(ctx context.Context) string {
	if pid, ok := ctx.Value(peerKey{}).(int); ok && pid != 0 {
		return fmt.Sprintf("process %d", pid)
	}
	return ""
}

func (d *Daemon) retention(ctx context.Context, req RetentionRequest) (RetentionReply, error) {
	was, err := d.st.Retention(ctx)
	if err != nil || req.Keep == "" {
		return RetentionReply{Keep: was.String()}, err
	}
	keep, err := store.ParseRetention(req.Keep)
	if err != nil {
		return RetentionReply{}, &Error{ExitUsage, err}
	}
	out := RetentionReply{Keep: keep.String(), Was: was.String()}
	if out.Keep == out.Was {
		return out, Fail(ExitNothing, "retain: it is %q already", out.Keep)
	}
	if err := d.st.SetRetention(ctx, keep); err != nil {
		return RetentionReply{}, err
	}
	d.log.Info("what is kept of the history was changed", "keep", out.Keep, "was", out.Was)
	return out, nil
}

// Collecting by itself, if the store has a policy that limits anything.
const (
	gcEvery = 10 * time.Minute
	gcIdle  = 20 * time.Second // nothing was changed for so long
	gcBusy  = 50 * time.Millisecond
	// gcMeasure is how old may be what is known of the store's bytes.
	gcMeasure = time.Hour
)

// keepCollecting collects now and then while nobody works, until the daemon ends.
func (d *Daemon) keepCollecting() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-d.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	every, idle := d.o.collectEvery, d.o.collectIdle
	if every == 0 {
		every, idle = gcEvery, gcIdle
	}
	for {
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
		if limited, err := d.st.Limited(ctx); err != nil || !limited {
			continue
		}
		if !d.idle(ctx, idle) {
			continue
		}
		if _, err := d.st.Collect(ctx, store.GCOptions{
			Roots: d.openContents, Replaced: replacedImports, Who: "daemon", Pause: d.whileIdle, Measure: gcMeasure,
		}); err != nil &&
			ctx.Err() == nil && !errors.Is(err, blob.ErrCollecting) {
			d.log.Warn("could not collect; trying again later", "error", err)
		}
	}
}

// idle reports whether nothing is changed for a while.
func (d *Daemon) idle(ctx context.Context, long time.Duration) bool {
	last := d.st.Last()
	select {
	case <-time.After(long):
	case <-ctx.Done():
		return false
	}
	return d.st.Last() == last
}

// whileIdle waits until nobody changes anything.
func (d *Daemon) whileIdle(ctx context.Context) error {
	for last := d.st.Last(); ; last = d.st.Last() {
		time.Sleep(time.Millisecond)
		if d.st.Last() == last {
			return ctx.Err()
		}
		d.idle(ctx, gcBusy)
	}
}
