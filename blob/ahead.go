package blob

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// WindowSize is what an Ahead works on: large content is cut anew in each.
const WindowSize = windowSize

// Ahead is an Edit that begins while its source is still being written: windows that are written whole are cut and stored
// by a goroutine of its own, so that little is left to do when the content is wanted. Its methods may be called by
// several goroutines, but for Edit and Stop, of which one is called once, at the end.
type Ahead struct {
	src io.ReaderAt
	e   *edit

	mu     sync.Mutex
	idle   *sync.Cond
	state  map[int64]aheadState // guarded by mu; of windows that were handed over, by offset
	queue  []int64              // guarded by mu
	busy   bool                 // guarded by mu; the goroutine is there
	ended  bool                 // guarded by mu
	failed bool                 // guarded by mu; nothing that was made counts
}

type aheadState uint8

const (
	aheadQueued aheadState = iota
	aheadMade
	aheadSpoiled // changed after it was handed over: not made again
)

// NewAhead returns an Ahead that reads src, which has the new bytes at their offsets.
func (s *Store) NewAhead(src io.ReaderAt) *Ahead {
	a := &Ahead{src: src, e: s.newEdit(context.Background(), Content{}, 0, nil, nil), state: map[int64]aheadState{}}
	a.idle = sync.NewCond(&a.mu)
	a.e.bulk = true // keep the cache for others
	a.e.batch.keepOwn = true
	return a
}

// Window hands over the window at start, a multiple of WindowSize: all its bytes are new and in the source. They should not
// change any more; Changed says that they did.
func (a *Ahead) Window(start int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.state[start]; known || a.ended || a.failed {
		return
	}
	a.state[start] = aheadQueued
	a.queue = append(a.queue, start)
	if !a.busy {
		a.busy = true
		go a.work()
	}
}

// Changed says that bytes that may have been handed over were written again.
func (a *Ahead) Changed(off, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for start := off &^ (windowSize - 1); start < off+n; start += windowSize {
		if _, known := a.state[start]; known {
			a.state[start] = aheadSpoiled
		}
	}
}

func (a *Ahead) work() {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() {
		a.busy = false
		a.idle.Broadcast()
	}()
	for len(a.queue) > 0 && !a.ended && !a.failed {
		start := a.queue[0]
		a.queue = a.queue[1:]
		if a.state[start] != aheadQueued {
			continue
		}
		a.mu.Unlock()
		err := a.make(start)
		a.mu.Lock()
		switch {
		case err != nil:
			a.failed = true
		case a.state[start] == aheadQueued:
			a.state[start] = aheadMade
		}
	}
}

// make cuts and stores a window. Its bytes may change meanwhile: it is made of those that were read, and counts only if
// none did.
func (a *Ahead) make(start int64) error {
	e := a.e
	buf := e.s.bufs.getWindow()
	defer e.s.bufs.putWindow(buf)
	if err := readFull(a.src, buf, start); err != nil {
		return err
	}
	w := &window{
		s: e.s, ctx: e.ctx, start: start, size: windowSize, buf: buf, filled: true, dirty: []Extent{{0, windowSize}},
	}
	if err := w.run(); err != nil {
		return err
	}
	return e.windowDone(w)
}

// end waits for the goroutine and takes what it has made.
func (a *Ahead) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for a.busy {
		a.idle.Wait()
	}
	for start, st := range a.state {
		if st != aheadMade || a.failed {
			delete(a.e.made, start)
		}
	}
}

// Edit is Store.Edit with the windows that were made already, which the caller vouches for: in this content they are wholly
// dirty, and every change since Window was told.
func (a *Ahead) Edit(ctx context.Context, base Content, size int64, dirty []Extent, src io.ReaderAt) (Staged, EditStats, error) {
	a.end()
	s := a.e.s
	defer a.e.batch.leave()
	if a.failed || len(a.e.made) == 0 || size <= MaxBlob {
		a.Stop()
		return s.Edit(ctx, base, size, dirty, src)
	}
	if err := s.writable(); err != nil {
		return Staged{}, EditStats{}, err
	}
	dirty, err := tidy(dirty, size)
	if err == nil {
		base, err = s.Unpatched(ctx, base)
	}
	if err != nil {
		return Staged{}, EditStats{}, err
	}
	e := a.e
	e.ctx, e.base, e.size, e.dirty, e.src = ctx, base, size, dirty, src
	e.zero, _ = src.(ZeroReader)
	st, err := e.run()
	return st, e.batch.stats, err
}

// Stop ends an Ahead whose content nobody wants. What it has stored is given back to the disk where the file system can
// punch holes: nobody else can have come to know of it.
func (a *Ahead) Stop() {
	a.end()
	b := a.e.batch
	b.leave()
	b.mu.Lock()
	own := b.own
	b.own = nil
	b.mu.Unlock()
	slices.SortFunc(own, func(x, y Location) int { return cmp.Or(cmp.Compare(x.Pack, y.Pack), cmp.Compare(x.Offset, y.Offset)) })
	for len(own) > 0 {
		first, n := own[0], 1
		from, to := first.Offset-recordHeader, first.Offset+first.Length
		for n < len(own) && own[n].Pack == first.Pack && own[n].Offset-recordHeader == to {
			to = own[n].Offset + own[n].Length
			n++
		}
		if err := a.e.s.packs.punch(first.Pack, from, to-from); err != nil {
			a.e.s.o.Log.Debug("room of a content that nobody wants stays taken", "pack", first.Pack, "err", err)
			return
		}
		own = own[n:]
	}
}

// punch gives back the room of records that nothing names.
func (p *packs) punch(pack uint32, off, n int64) error {
	f, err := openFile(p.path(pack), unix.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fallocate(int(f.(osFile).Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}
