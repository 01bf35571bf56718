package blob

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"slices"
	"syscall"
)

// Collection removes blobs and packs that nothing needs, beside everything else that the store does. One runs at a time. Its
// maker knows what is needed; in this order it
//
//  1. begins (Collect), which waits for what was staged before to be applied;
//  2. finds out what is needed: what the index's owner names from then on, or staging asks for, is safe by itself;
//  3. condemns what is not, and deletes in one transaction of the index's only writer those rows that Doomed still has;
//  4. rewrites packs (Copy, then the new places in one transaction, made durable, then Remove).
//
// A crash at any point leaves at worst bytes in packs that no row names; the next collection finds those.
type Collection struct {
	s      *Store
	cutoff uint32 // packs below are as they will ever be
}

// ErrCollecting: another collection runs.
var ErrCollecting = fmt.Errorf("blob: another collection runs: %w", syscall.EBUSY)

// Collect begins a collection. It waits until nothing is left that was staged before, or ctx ends. End must be called.
func (s *Store) Collect(ctx context.Context) (*Collection, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	c := &Collection{s: s, cutoff: s.packs.rotate()}
	turn, ok := s.guard.begin(c.cutoff)
	if !ok {
		return nil, ErrCollecting
	}
	if err := s.guard.drained(ctx, turn); err != nil {
		c.End()
		return nil, fmt.Errorf("blob: waiting for contents that are just being written: %w", err)
	}
	return c, nil
}

// End ends the collection. What was condemned and is still there is a blob as any other.
func (c *Collection) End() { c.s.guard.end() }

// Condemn returns those of refs that may be deleted: staging has not asked for them since the collection began, and does not
// find them from now on.
func (c *Collection) Condemn(refs []Ref) []Ref { return c.s.guard.condemn(refs) }

// Doomed returns those of condemned refs that were not stored again. It is called within the transaction that deletes them.
func (c *Collection) Doomed(refs []Ref) []Ref { return c.s.guard.doomed(refs) }

// Forget takes blobs that were deleted out of memory: what is gone is not read any more.
func (c *Collection) Forget(refs []Ref) { c.s.cache.forget(refs) }

// Pack is a file that a collection may rewrite.
type Pack struct {
	Number uint32
	Bytes  int64 // its size
}

// Packs lists the packs that the collection may rewrite or remove.
func (c *Collection) Packs() ([]Pack, error) {
	entries, err := os.ReadDir(c.s.packs.dir)
	if err != nil {
		return nil, fmt.Errorf("blob: listing packs: %w", err)
	}
	var list []Pack
	for _, e := range entries {
		n, ok := parsePackName(e.Name())
		if !ok || n >= c.cutoff || c.s.pending.inPack(n) {
			continue
		}
		st, err := e.Info()
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("blob: listing packs: %w", err)
		}
		list = append(list, Pack{n, st.Size()})
	}
	return list, nil
}

// Copy writes blobs that lie in packs once more, stored bytes as they are, and syncs them. It returns where they are now, in
// the order of locs. Each is verified before; one that is damaged is left out: its Location is zero.
func (c *Collection) Copy(ctx context.Context, locs []Location) ([]Location, error) {
	s := c.s
	out := make([]Location, len(locs))
	buf := s.bufs.getOut()
	defer func() { s.bufs.putOut(buf) }()
	first := 0
	flush := func(upTo int) error {
		if len(buf) > 0 {
			pack, off, err := s.packs.append(buf)
			if err != nil {
				return err
			}
			for i := first; i < upTo; i++ {
				if out[i].Size != 0 {
					out[i].Pack, out[i].Offset = pack, out[i].Offset+off
				}
			}
			buf = buf[:0]
		}
		first = upTo
		return nil
	}
	for i, loc := range locs {
		if err := s.Verify(ctx, loc); errors.Is(err, ErrCorrupt) {
			s.o.Log.Error("a damaged blob stays where it is, and its pack with it", "ref", loc.Ref.String(), "err", err)
			continue
		} else if err != nil {
			return nil, err
		}
		at := len(buf)
		buf = slices.Grow(buf, recordHeader+int(loc.Length))[:at+recordHeader+int(loc.Length)]
		head := loc
		head.Offset -= recordHeader
		if err := s.readPack(buf[at:], head); err != nil {
			return nil, err
		}
		out[i] = loc
		out[i].Pack, out[i].Offset = 0, int64(at+recordHeader)
		if len(buf) >= flushAt {
			if err := flush(i + 1); err != nil {
				return nil, err
			}
		}
	}
	if err := flush(len(locs)); err != nil {
		return nil, err
	}
	return out, s.packs.sync()
}

// Remove deletes a pack that no row names any more, durably. Who reads it still goes on: a look-up that finds it gone is
// made again.
func (c *Collection) Remove(n uint32) error {
	if n >= c.cutoff || c.s.pending.inPack(n) {
		return fmt.Errorf("blob: removing pack %08d, which is in use: %w", n, syscall.EBUSY)
	}
	return c.s.packs.remove(n)
}

// inPack reports whether something lies in a pack that is not applied yet.
func (p *pending) inPack(n uint32) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, e := range p.packs {
		if e.loc.Pack == n {
			return true
		}
	}
	for _, e := range p.small {
		if e.loc.Pack == n {
			return true
		}
	}
	return len(p.patches) > 0 // their lists name pieces anywhere
}

// rotate makes the next append begin a new pack, and returns its number.
func (p *packs) rotate() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur != 0 && p.end > packHeader {
		p.order = append(p.order, p.cur)
		p.cur = 0
	}
	if p.cur != 0 {
		return p.cur
	}
	return p.last + 1
}

// remove deletes a pack. The one with the highest number stays, so that no number is ever used twice: a new one is made
// first.
func (p *packs) remove(n uint32) error {
	p.mu.Lock()
	var err error
	if n == p.last {
		err = p.writable()
	}
	if err == nil && (n == p.cur || p.dirty[n] != nil || p.busy[n] != nil) {
		err = fmt.Errorf("blob: removing %s, which is written to: %w", p.path(n), syscall.EBUSY)
	}
	if err != nil {
		p.mu.Unlock()
		return err
	}
	if f := p.files[n]; f != nil {
		delete(p.files, n)
		if i := slices.Index(p.order, n); i >= 0 {
			p.order = slices.Delete(p.order, i, i+1)
		}
		if err := f.Close(); err != nil {
			p.log.Warn("closing a pack that was only read", "pack", p.path(n), "err", err)
		}
	}
	p.mu.Unlock()
	if err := p.sync(); err != nil { // the name of the new one
		return err
	}
	if err := os.Remove(p.path(n)); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("blob: removing a pack: %w", err)
	}
	if err := syncDir(p.dir); err != nil {
		return fmt.Errorf("blob: removing a pack: %w", err)
	}
	return nil
}

// SizeOf is the size of a content of which only the Ref is known: that of the blob, or what it says as a node of a tree.
func (s *Store) SizeOf(ctx context.Context, ref Ref) (int64, error) {
	data, err := s.blob(ctx, ref)
	if err != nil {
		return 0, err
	}
	if len(data) >= minNodeLength && string(data[:4]) == nodeMagic {
		if n := node(data); n.size() > MaxBlob {
			if _, err := parseNode(data, levelFor(n.size()), n.size()); err == nil {
				return n.size(), nil
			}
		}
	}
	return int64(len(data)), nil
}
