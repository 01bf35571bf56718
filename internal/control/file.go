package control

import (
	"bytes"
	"context"
	"sync"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/internal/ui"
)

// file is an open file whose text is made when it is read. A long text is made in steps: make(limit) is its beginning,
// longer for a larger limit, and more says whether there is any behind it.
type file struct {
	make func(ctx context.Context, limit int) (text []byte, more bool, err error)

	mu    sync.Mutex
	text  []byte // guarded by mu
	limit int    // guarded by mu; that text was made with, 0: not made
	more  bool   // guarded by mu
}

const (
	firstLimit = 1000
	nextLimit  = 16 // times as many
)

// whole is a file that is made at once.
func whole(make func(ctx context.Context) ([]byte, error)) fs.Generated {
	return &file{make: func(ctx context.Context, _ int) ([]byte, bool, error) {
		text, err := make(ctx)
		return text, false, err
	}}
}

// ReadAt implements fs.Generated.
func (f *file) ReadAt(c *fs.Call, p []byte, off int64) (int, error) {
	if !f.mu.TryLock() {
		c.Blocks()
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	for f.limit == 0 || f.more && off >= int64(len(f.text)) {
		c.Blocks()
		limit := firstLimit
		if f.limit > 0 {
			limit = f.limit * nextLimit
		}
		ctx, stop := patient(c)
		text, more, err := f.make(ctx, limit)
		stop()
		if err != nil {
			return 0, err
		}
		f.text, f.more, f.limit = text, more, limit
	}
	if off >= int64(len(f.text)) {
		return 0, nil
	}
	return copy(p, f.text[off:]), nil
}

// WriteAt implements fs.Generated.
func (f *file) WriteAt(*fs.Call, []byte, int64) (int, error) { return 0, syscall.EBADF }

// Close implements fs.Generated.
func (f *file) Close() {}

// patience is how long what a caller waits for goes on after a signal: a runtime that sends itself signals all the time
// must get its answer, and who waits for minutes must be able to go.
const patience = 2 * time.Second

// patient is a context that ends some time after the caller was interrupted.
func patient(c *fs.Call) (context.Context, func()) {
	ctx, stop := context.WithCancel(context.Background())
	if c.Cancel != nil {
		cancel := c.Cancel
		go func() {
			select {
			case <-cancel:
				select {
				case <-time.After(patience):
					stop()
				case <-ctx.Done():
				}
			case <-ctx.Done():
			}
		}()
	}
	return ctx, stop
}

// print collects what fn prints.
func (t *Tree) print(fn func(*ui.Out) error) ([]byte, error) {
	var b bytes.Buffer
	o := &ui.Out{W: &b, Now: t.o.Now()}
	err := fn(o)
	if err == nil {
		err = o.Flush()
	}
	return b.Bytes(), err
}
