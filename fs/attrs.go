package fs

import (
	"context"
	"errors"
	"fmt"

	"wsfs/store"
)

// Names cost a quarter of what attributes do, and who lists a directory of 100,000 files may want no more than names. So only a
// directory with few entries is read with the attributes of all; in one with more, those of an entry and of some behind it are read
// when somebody asks for the first. Who asks for one entry after the other gets more each time.
const (
	attrsMore = 32 // who lists, or asks for a second one soon behind another
	attrsNear = 64 // how many cookies that is at most
	attrsMost = 1024
)

// dirLimits is how much of a directory is read at once.
type dirLimits struct {
	whole int // up to so many entries with their attributes
	// For the first lookup up to so many names are read. In a directory that has more, it and the next ones ask the database for the one
	// name; who asks so many times is better served with all names.
	large int
	asks  uint16
	fill  bool // the rest of the attributes is read while it is listed
}

func defaultDirLimits() dirLimits { return dirLimits{whole: 2048, large: 2048, asks: 1024, fill: true} }

var errLargeDir = errors.New("the directory is large")

// attributes reads what memory does not have of the entry at a place in the listing of p, and of want-1 behind it, more if those before it were
// read last. FS.mu is released meanwhile: the caller has to look again.
func (f *FS) attributes(c *Call, p *node, at, want int) error {
	d := p.dir
	if first := d.order[at].cookie; d.asked > 0 && first >= d.asked && first < d.asked+attrsNear {
		want = min(max(2*d.asks, attrsMore), attrsMost)
	}
	d.asks = want
	last, err := f.readAttributes(c, p, at, want)
	d.asked = max(d.asked, last+1)
	return err
}

// readAttributes reads what memory does not have of at most want entries from a place in the listing of p on, and returns the cookie of
// the last one that it looked at. FS.mu is released meanwhile.
func (f *FS) readAttributes(c *Call, p *node, at, want int) (last uint64, err error) {
	d := p.dir
	var inos []store.Ino
	var cookies []uint64
	for i := at; i < len(d.order) && len(inos) < want && i < at+4*want; i++ {
		if e := &d.order[i]; !e.dead() && e.cold == 0 && !f.has(e.ino) {
			inos, cookies = append(inos, e.ino), append(cookies, e.cookie)
			last = e.cookie
		}
	}
	view, moves := f.view, f.moves
	f.loads++
	f.mu.Unlock()
	c.yield()
	vers, err := view.Versions(context.Background(), inos)
	f.mu.Lock()
	f.loads--
	if moves != f.moves || p.dir != d {
		return last, nil
	}
	if err != nil {
		return last, fmt.Errorf("read the attributes of %d files: %w", len(inos), err)
	}
	for i, v := range vers {
		at := d.after(cookies[i] - 1)
		if at == len(d.order) || d.order[at].cookie != cookies[i] || d.order[at].ino != inos[i] || f.has(inos[i]) {
			continue // gone meanwhile, or newer
		}
		if v == nil {
			return last, fmt.Errorf("%q is inode %d, of which the database knows nothing: %w", d.order[at].name, inos[i], store.ErrCorrupt)
		}
		if f.mayCool(p) && coolable(v) && (len(f.byID) == 0 || f.byID[v.Ino] == nil) {
			f.keepCold(p, at, v, 0)
			continue
		}
		n := newNode(*v)
		n.gone = v.Nlink == 0
		f.adopt(n)
		n.found(p, d.order[at].name)
	}
	return last, nil
}

// fill reads the attributes of a large directory that is listed beside everything else: who has the names looks at the files next, often.
// It goes from the end to the beginning, towards whoever goes the other way. FS.mu is held.
func (f *FS) fill(p *node) {
	d := p.dir
	if d.filled || d.live <= f.limits.whole || !f.limits.fill || f.closed {
		return
	}
	d.filled = true
	f.done.Go(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		const step = attrsMost / 4
		for end := d.next; end > firstCookie; {
			if f.closed || p.dir != d || p.gone || f.inMemory() >= f.opts.MaxNodes/2 {
				return
			}
			above := d.after(end - 1)
			if above == 0 {
				return
			}
			at := max(0, above-step)
			end = d.order[at].cookie
			if _, err := f.readAttributes(nil, p, at, step); err != nil {
				return // whoever needs one gets the error
			}
		}
	})
}

// allAttributes is attributes of every entry that has none in memory. The listing must be open.
func (f *FS) allAttributes(c *Call, p *node) error {
	for i := 0; i < len(p.dir.order); {
		if e := &p.dir.order[i]; e.dead() || e.cold != 0 || f.has(e.ino) {
			i++
			continue
		}
		cookie := p.dir.order[i].cookie
		if err := f.attributes(c, p, i, attrsMost); err != nil {
			return err
		}
		i = p.dir.after(cookie - 1)
	}
	return nil
}

// ask looks a name up in a directory that memory does not have, without reading it if it is large. It reports whether it could: if not, the
// directory may have been read meanwhile. FS.mu is released. What a directory that is not in memory holds, the database has: nothing
// changes it without reading it, and what the database does not have yet stays in memory.
func (f *FS) ask(c *Call, p *node, name string) (*node, bool, error) {
	if !p.large {
		if err := f.loadUpTo(c, p, f.limits.whole, f.limits.large); err != nil || p.dir != nil || !p.large {
			return nil, false, err
		}
	}
	if p.asks++; p.asks > f.limits.asks {
		return nil, false, nil
	}
	view, moves, ino := f.view, f.moves, p.v.Ino
	f.loads++
	f.mu.Unlock()
	c.yield()
	nm, err := view.Lookup(context.Background(), ino, name)
	var v *store.Version
	if err == nil {
		v, err = view.Version(context.Background(), nm.Ino)
	}
	f.mu.Lock()
	f.loads--
	if moves != f.moves || p.dir != nil || p.loading != nil || p.gone {
		return nil, false, nil
	}
	if errors.Is(err, store.ErrNotFound) && v == nil && nm.Ino == 0 {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look up %q: %w", name, err)
	}
	n := f.nodeOf(nm.Ino)
	if n == nil {
		n = newNode(*v)
		f.adopt(n)
	}
	n.found(p, name)
	return n, true, nil
}
