package store

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"time"

	"wsfs/blob"
)

// drainFor is for how long collecting waits for contents that are just being written.
const drainFor = time.Minute

// contents removes blobs that no row names, and then packs.
func (g *collector) contents(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, drainFor)
	c, err := g.s.blobs.Collect(wait)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && g.o.Kind != RemovalPurge {
		g.s.o.Log.Info("contents are left for the next collection: large ones are just being written", "store", g.s.dir)
		return nil
	}
	if err != nil {
		return err
	}
	defer c.End()
	d, err := g.letGo(ctx)
	if err != nil {
		return err
	}
	defer g.s.letting.set(nil)
	m, err := g.marked(ctx, d)
	if err != nil {
		return err
	}
	if err := g.sweep(ctx, c, m); err != nil {
		return err
	}
	if err := g.forgetGone(ctx, m.gone); err != nil {
		return err
	}
	return g.packs(ctx, c)
}

// marked finds out what is needed.
func (g *collector) marked(ctx context.Context, d *drops) (_ *marks, err error) {
	m := &marks{s: g.s, refs: make(map[markKey]struct{}), dry: g.dry, drops: d}
	if m.gone, err = g.s.goneRefs(ctx); err != nil {
		return nil, err
	}
	if m.removed, err = g.removals(ctx); err != nil {
		return nil, err
	}
	if err := m.rows(ctx, g.pause); err != nil {
		return nil, err
	}
	if g.o.Roots != nil {
		for _, r := range g.o.Roots() {
			if err := m.content(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// markKey is half of a Ref: enough that no two of a store are equal.
type markKey [16]byte

// marks are the refs that something names, trees with all that is below.
type marks struct {
	s     *Store
	refs  map[markKey]struct{}
	dry   *dryRun           // or nil
	drops *drops            // or nil
	gone  map[blob.Ref]bool // what is not there because of its class; true: some version names it
	// removed: versions without names up to this seq, by the timeline that made them, show nothing (gc_removed.go)
	removed map[TimelineID]Seq
}

func (m *marks) add(r blob.Ref) (is bool) {
	k := markKey(r[:16])
	if _, is = m.refs[k]; !is {
		m.refs[k] = struct{}{}
	}
	return is
}

func (m *marks) has(r blob.Ref) bool {
	_, ok := m.refs[markKey(r[:16])]
	return ok
}

// isGone notes that a version names a content that a class let go. Who stores that again asks for it, and so keeps it.
func (m *marks) isGone(r blob.Ref) bool {
	_, gone := m.gone[r]
	if gone {
		m.gone[r] = true
	}
	return gone
}

// content marks a content. One that cannot be walked ends the collection: what is below it is not known.
func (m *marks) content(ctx context.Context, c blob.Content) error {
	if c.Ref.IsZero() || c.Size <= blob.MaxBlob {
		if !c.Ref.IsZero() {
			m.add(c.Ref)
		}
		return nil
	}
	c, err := m.s.blobs.Unpatched(ctx, c)
	if err != nil {
		return err
	}
	err = m.s.blobs.Walk(ctx, c, func(r blob.Ref) error {
		if m.add(r) {
			return iofs.SkipDir // and all below it
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("no content is removed, because one is damaged and what belongs to it is not known (`wsfs check` names the files): %w", err)
	}
	return nil
}

// rows marks what the database names. It reads in pieces: nothing that comes meanwhile needs to be seen, see blob.Collection.
func (m *marks) rows(ctx context.Context, pause func(context.Context) error) error {
	var t, past, ino, seq int64
	for n := gcChunk; n == gcChunk; {
		if err := pause(ctx); err != nil {
			return err
		}
		n = 0
		var large []blob.Content
		if _, err := scanAll(ctx, m.s.r, 9, `SELECT timeline_id, past, ino, seq, content_hash, size, version_id, origin_timeline_id, nlink FROM file_version
			WHERE (timeline_id, past, ino, seq) > (?, ?, ?, ?) ORDER BY timeline_id, past, ino, seq LIMIT ?`, []any{t, past, ino, seq, int64(gcChunk)},
			func(c *cells) error {
				n++
				t, past, ino, seq = c.int(0), c.int(1), c.int(2), c.int(3)
				v := contentRow{t: TimelineID(t), by: TimelineID(c.int(7)), seq: Seq(seq), id: VersionID(c.int(6)), removed: c.int(8) == 0}
				switch r := c.ref(4); {
				case r.IsZero() || m.dry.goes(v.t, v.id) || v.removedBefore(m.removed):
				case m.isGone(r):
				case v.goes(m.drops):
				case c.int(5) <= blob.MaxBlob:
					m.add(r)
				case !m.has(r):
					large = append(large, blob.Content{Ref: r, Size: c.int(5)})
				}
				return c.bad
			}); err != nil {
			return err
		}
		for _, c := range large {
			if err := m.content(ctx, c); err != nil {
				return err
			}
		}
	}
	for _, q := range []string{
		`SELECT content_hash FROM conflict WHERE content_hash IS NOT NULL`, `SELECT output_ref FROM command WHERE output_ref IS NOT NULL`,
	} {
		var unsized []blob.Ref
		if _, err := scanAll(ctx, m.s.r, 1, q, nil, func(c *cells) error {
			unsized = append(unsized, c.ref(0))
			return c.bad
		}); err != nil {
			return err
		}
		for _, r := range unsized {
			size, err := m.s.blobs.SizeOf(ctx, r)
			if err == nil {
				err = m.content(ctx, blob.Content{Ref: r, Size: size})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// contentRow is what of a version decides whether it keeps its content.
type contentRow struct {
	t, by   TimelineID // where it is, and for a copy in a hidden segment where it was made; else 0
	seq     Seq
	id      VersionID
	removed bool // it has no name
}

// removedBefore reports whether it is of a removal that cannot be taken back (gc_removed.go).
func (v *contentRow) removedBefore(upTo map[TimelineID]Seq) bool {
	by := v.by
	if by == 0 {
		by = v.t
	}
	return v.removed && v.seq <= upTo[by]
}

// goes reports whether classes let it go. A hidden segment has copies of what is shown, which do not, and of what was removed.
func (v *contentRow) goes(d *drops) bool { return (v.by == 0 || v.removed) && d.goes(v.id) }

// sweep removes the rows of blobs that are not marked.
func (g *collector) sweep(ctx context.Context, c *blob.Collection, m *marks) error {
	after := int64(0)
	for n := gcChunk; n == gcChunk; {
		n = 0
		var refs []blob.Ref
		if _, err := scanAll(ctx, g.s.r, 2, `SELECT id, hash FROM blob WHERE id > ? ORDER BY id LIMIT ?`, []any{after, int64(gcChunk)},
			func(c *cells) error {
				n++
				after = c.int(0)
				if r := c.ref(1); !m.has(r) {
					refs = append(refs, r)
				}
				return c.bad
			}); err != nil {
			return err
		}
		refs = c.Condemn(refs)
		if len(refs) == 0 {
			if err := g.pause(ctx); err != nil {
				return err
			}
			continue
		}
		var doomed []blob.Ref
		if err := g.step(ctx, func(ctx context.Context) error {
			doomed = c.Doomed(refs)
			if err := g.noteGone(ctx, m.drops, doomed); err != nil {
				return err
			}
			for _, r := range doomed {
				if _, err := scanAll(ctx, g.s.w, 1, `SELECT COALESCE(length(data), pack_length) FROM blob WHERE hash = ?`, []any{r[:]}, func(c *cells) error {
					g.res.Blobs++
					g.res.BlobBytes += c.int(0)
					return nil
				}); err != nil {
					return err
				}
				if _, err := g.s.w.exec(ctx, `DELETE FROM blob WHERE hash = ?`, r[:]); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		c.Forget(doomed)
	}
	return nil
}

// livePack is what of a pack is still named.
type livePack struct {
	blobs, bytes int64
}

// recordOverhead is what a pack has beside the stored bytes of each blob.
const recordOverhead = 52

// packs removes packs that nothing names, and rewrites those of which little is left: live records go to a new one, one
// transaction moves their places, and when that is durable the old one is deleted.
func (g *collector) packs(ctx context.Context, c *blob.Collection) error {
	list, err := c.Packs()
	if err != nil || len(list) == 0 {
		return err
	}
	live := map[uint32]*livePack{}
	for _, p := range list {
		live[p.Number] = &livePack{}
	}
	after := int64(0)
	for n := gcChunk; n == gcChunk; {
		if err := g.pause(ctx); err != nil {
			return err
		}
		n = 0
		if _, err := scanAll(ctx, g.s.r, 3, `SELECT id, pack, pack_length FROM blob WHERE id > ? ORDER BY id LIMIT ?`, []any{after, int64(gcChunk)},
			func(c *cells) error {
				n++
				after = c.int(0)
				if p := live[uint32(c.int(1))]; p != nil {
					p.blobs++
					p.bytes += c.int(2) + recordOverhead
				}
				return c.bad
			}); err != nil {
			return err
		}
	}
	for _, p := range list {
		l := live[p.Number]
		const header = 16
		dead := p.Bytes - header - l.bytes
		if l.blobs > 0 && (dead <= 0 || !g.o.Thorough && dead*5 < p.Bytes*2) {
			continue
		}
		if err := g.rewrite(ctx, c, p); err != nil {
			return err
		}
	}
	return nil
}

// rewriteBytes is about how much one step of rewriting copies.
const rewriteBytes = 4 << 20

func (g *collector) rewrite(ctx context.Context, c *blob.Collection, p blob.Pack) error {
	var ids []int64
	if _, err := scanAll(ctx, g.s.r, 1, `SELECT id FROM blob WHERE pack = ? ORDER BY pack_offset`, []any{int64(p.Number)}, func(c *cells) error {
		ids = append(ids, c.int(0))
		return nil
	}); err != nil {
		return err
	}
	stuck := false
	for len(ids) > 0 {
		if err := g.pause(ctx); err != nil {
			return err
		}
		locs, n, err := g.locations(ctx, ids)
		if err != nil {
			return err
		}
		ids = ids[n:]
		all, err := g.move(ctx, c, locs)
		if err != nil {
			return err
		}
		stuck = stuck || !all
	}
	if stuck {
		return nil // something damaged is in it
	}
	// The last commit that named it must not come back after a power cut.
	if err := g.s.commitDurably(ctx); err != nil {
		return err
	}
	g.s.at("gc durable")
	if g.s.Held() {
		return nil // a backup reads it by its old name; nothing is live in it, so the next round deletes it
	}
	if err := c.Remove(p.Number); err != nil {
		return err
	}
	g.s.at("gc removed")
	g.res.Packs++
	return nil
}

// locations finds the first of some blobs, and how many of ids that is.
func (g *collector) locations(ctx context.Context, ids []int64) (list []blob.Location, n int, err error) {
	ids = ids[:min(len(ids), gcChunk)]
	size := int64(0)
	for n < len(ids) && size < rewriteBytes {
		if _, err := scanAll(ctx, g.s.r, 7, `SELECT `+blobCols+` FROM blob b WHERE b.id = ?`, []any{ids[n]}, func(c *cells) error {
			l := c.location()
			size += l.Length
			list = append(list, l)
			return c.bad
		}); err != nil {
			return nil, 0, err
		}
		n++
	}
	return list, n, nil
}

// move gives blobs new places. all is false if some had to stay.
func (g *collector) move(ctx context.Context, c *blob.Collection, locs []blob.Location) (all bool, err error) {
	to, err := c.Copy(ctx, locs)
	if err != nil {
		return false, err
	}
	g.s.at("gc copied")
	all = true
	err = g.step(ctx, func(ctx context.Context) error {
		for i, l := range to {
			if l.Size == 0 {
				all = false
				continue
			}
			if _, err := g.s.w.exec(ctx, `UPDATE blob SET pack = ?, pack_offset = ? WHERE hash = ? AND pack = ? AND pack_offset = ?`,
				int64(l.Pack), l.Offset, l.Ref[:], int64(locs[i].Pack), locs[i].Offset); err != nil {
				return err
			}
			g.res.Moved += l.Length
		}
		return nil
	})
	return all, err
}
