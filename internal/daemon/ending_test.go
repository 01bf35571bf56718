package daemon

import (
	"context"
	"errors"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// TestRequestsWhileADaemonEnds: whoever asks a daemon that is ending is answered by it, or finds that there is none and
// asks elsewhere; no request is lost on the way.
func TestRequestsWhileADaemonEnds(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	if err := store.Init(ctx, dir, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	o := Options{Store: dir, Driver: sqlite.Driver(), Serve: true}
	for range 10 {
		d, err := Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Listen(ctx); err != nil {
			t.Fatal(err)
		}
		c, err := Dial(dir)
		if err != nil || c == nil {
			t.Fatal("no daemon", err)
		}
		elsewhere := errors.New("elsewhere")
		c.OrElse(func(context.Context) (*Client, error) { return nil, elsewhere })
		ended := make(chan error)
		go func() { ended <- d.Close() }()
		for n := 0; ; n++ {
			_, err := c.Sync(ctx, SyncRequest{})
			if errors.Is(err, elsewhere) {
				break
			}
			if err != nil {
				var gone *GoneError
				if errors.As(err, &gone) {
					err = errors.Join(err, gone.err)
				}
				t.Fatalf("request %d: %v", n, err)
			}
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
