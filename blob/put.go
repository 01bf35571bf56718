package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// PutReader stores everything r has as one content, right now: nothing of it is in Staged.Small. The Ref is the one that
// Edit gives the same bytes. Large content is cut while r is being read.
func (s *Store) PutReader(ctx context.Context, r io.Reader) (Staged, error) {
	if err := s.writable(); err != nil {
		return Staged{}, err
	}
	first := s.bufs.getWindow()
	n, err := readWindow(r, first[:MaxBlob+1])
	if err != nil || n <= MaxBlob {
		defer s.bufs.putWindow(first)
		if err != nil {
			return Staged{}, err
		}
		return s.PutPacked(first[:n])
	}
	m, err := readWindow(r, first[n:])
	if err != nil {
		s.bufs.putWindow(first)
		return Staged{}, err
	}
	p := &put{edit: &edit{s: s, ctx: ctx, batch: s.newBatch(s.o.Large, 0), made: map[int64]Ref{}, bulk: true}}
	p.edit.batch.stream = true
	defer p.edit.batch.leave()
	if err := p.all(r, first, n+m); err != nil {
		return Staged{}, err
	}
	e := p.edit
	e.dirty = []Extent{{0, e.size}}
	return e.finish(part{level: levelFor(e.size)})
}

// readWindow fills p and returns less only at the end of r.
func readWindow(r io.Reader, p []byte) (int, error) {
	n, err := io.ReadFull(r, p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return n, fmt.Errorf("blob: reading content to store: %w", err)
	}
	return n, nil
}

// put feeds windows to workers.
type put struct {
	edit *edit
	wg   sync.WaitGroup

	mu  sync.Mutex
	err error // guarded by mu; the first one
}

// all reads and cuts everything. It takes over buf, which holds the first n bytes.
func (p *put) all(r io.Reader, buf []byte, n int) error {
	e := p.edit
	free := make(chan struct{}, e.s.o.Workers)
	defer p.wg.Wait()
	for start := int64(0); ; start += windowSize {
		if err := errors.Join(e.ctx.Err(), p.failed()); err != nil {
			e.s.bufs.putWindow(buf)
			return err
		}
		e.size += int64(n)
		free <- struct{}{}
		full, have := buf, n // buf and n are the next window's before this one is done
		p.wg.Go(func() {
			defer func() { <-free }()
			p.window(start, full, have)
		})
		if n < windowSize {
			break
		}
		buf = e.s.bufs.getWindow()
		var err error
		if n, err = readWindow(r, buf); err != nil || n == 0 {
			e.s.bufs.putWindow(buf)
			if err != nil {
				return err
			}
			break
		}
	}
	p.wg.Wait()
	return p.failed()
}

func (p *put) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// window cuts and stores the n bytes in buf.
func (p *put) window(start int64, buf []byte, n int) {
	e := p.edit
	defer e.s.bufs.putWindow(buf)
	w := &window{
		s: e.s, ctx: e.ctx, start: start, size: int64(n), buf: buf, filled: true,
		dirty: []Extent{{0, int64(n)}},
	}
	err := w.run()
	if err == nil {
		err = e.windowDone(w)
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = errors.Join(p.err, err)
	}
}
