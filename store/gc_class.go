package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"wsfs/blob"
)

// Classes let go of the bytes of past versions sooner than the policy does. Only of bytes: the version stays, with its names, size and
// attribution, until the policy takes it, so a past state still says what was there and who made it. Reading the bytes is
// refused by name (LetGoError), which table content_gone makes tell from damage.
//
// What is looked at is a content for as long as an inode had it, whatever else of the inode changed. It is let go if nothing shows it: no present, no
// tag, pin, fork, beginning of a timeline or line of a reflog; and if it was replaced or removed longer ago than its class
// keeps. Its class is that of the paths it had: secret if one of them is, else versioned if one is, else the one that keeps
// longest. So a move never loses bytes. But for secrets, a name does not count that it had for less than a minute before it got
// another: programs write to a temporary file and rename that.

// LetGoError is a content that a class does not keep any more. It wraps ENODATA, for whoever reads the file, and blob.ErrNotFound.
type LetGoError struct {
	Ref   blob.Ref
	Class PathClass
	At    int64 // when it was collected, ns since the epoch
}

func (e *LetGoError) Error() string {
	return fmt.Sprintf("the bytes are not kept any more: the class %s keeps its past only for a while (`wsfs class` shows for how long), collected at %s",
		e.Class, time.Unix(0, e.At).Format(time.DateTime))
}

// Unwrap makes errors.Is true for both.
func (e *LetGoError) Unwrap() []error { return []error{syscall.ENODATA, blob.ErrNotFound} }

// letting is what a collection is letting go of: for whoever works out something from the past these contents are gone, though
// they may still be there.
type letting struct {
	mu   sync.RWMutex
	refs map[blob.Ref]PathClass // guarded by mu
}

func (l *letting) set(refs map[blob.Ref]PathClass) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refs = refs
}

// drops are the versions that classes let go, and their contents.
type drops struct {
	versions map[VersionID]struct{}
	refs     map[blob.Ref]PathClass
	before   map[TimelineID]Seq // states from here on lack nothing of it
}

// letGoKey is the setting that says from where on nothing of a timeline was let go.
func letGoKey(t TimelineID) string { return fmt.Sprintf("let go %d", t) }

func letGoBefore(ctx context.Context, q querier, t TimelineID) (Seq, error) {
	text, err := setting(ctx, q, letGoKey(t))
	if err != nil || text == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("setting %q: %w: %w", letGoKey(t), err, ErrCorrupt)
	}
	return Seq(n), nil
}

func (d *drops) goes(v VersionID) bool {
	if d == nil {
		return false
	}
	_, ok := d.versions[v]
	return ok
}

func (d *drops) lets(r blob.Ref) bool {
	if d == nil {
		return false
	}
	_, ok := d.refs[r]
	return ok
}

// letGo decides what classes let go. From then on nobody makes anything of it: what was begun before is in the database.
func (g *collector) letGo(ctx context.Context) (*drops, error) {
	c, _, err := g.s.Classes(ctx)
	if err != nil {
		return nil, err
	}
	if g.o.Classes != nil {
		c = *g.o.Classes
	}
	if !c.Limited() || g.o.Kind == RemovalPurge {
		return nil, nil
	}
	for {
		p, err := g.plan(ctx, g.s.r)
		if err != nil {
			return nil, err
		}
		d, err := g.past(ctx, p, &c)
		if err != nil || len(d.refs) == 0 || g.dry != nil {
			return d, err
		}
		going, err := g.going(ctx, d)
		if err != nil {
			return nil, err
		}
		same := false
		if err := g.alone(ctx, func(ctx context.Context) error {
			now, err := g.plan(ctx, g.s.w)
			if same = err == nil && now.within(p); !same {
				return err
			}
			g.s.letting.set(going)
			for t, before := range d.before {
				had, err := letGoBefore(ctx, g.s.w, t)
				if err == nil && before > had {
					err = setSetting(ctx, g.s.w, letGoKey(t), fmt.Sprint(int64(before)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}); err != nil || same {
			return d, err
		}
	}
}

// going are the contents that drops let go and that no other version names: those stay, and are refused to nobody meanwhile. Versions
// that come later only name more, and none goes but by a collection.
func (g *collector) going(ctx context.Context, d *drops) (map[blob.Ref]PathClass, error) {
	removed, err := g.removals(ctx)
	if err != nil {
		return nil, err
	}
	going := maps.Clone(d.refs)
	var t, past, ino, seq int64
	for n := gcChunk; n == gcChunk; {
		if err := g.pause(ctx); err != nil {
			return nil, err
		}
		n = 0
		if _, err := scanAll(ctx, g.s.r, 8, `SELECT timeline_id, past, ino, seq, content_hash, version_id, origin_timeline_id, nlink FROM file_version
			WHERE (timeline_id, past, ino, seq) > (?, ?, ?, ?) ORDER BY timeline_id, past, ino, seq LIMIT ?`, []any{t, past, ino, seq, int64(gcChunk)},
			func(c *cells) error {
				n++
				t, past, ino, seq = c.int(0), c.int(1), c.int(2), c.int(3)
				v := contentRow{t: TimelineID(t), by: TimelineID(c.int(6)), seq: Seq(seq), id: VersionID(c.int(5)), removed: c.int(7) == 0}
				if !v.removedBefore(removed) && !v.goes(d) {
					delete(going, c.ref(4))
				}
				return c.bad
			}); err != nil {
			return nil, err
		}
	}
	return going, nil
}

// within reports whether everything in a plan that a decision looked at is in the plan that it was made by. States that came at the end of
// a timeline since, and timelines that came, have nothing that was decided about.
func (p *gcPlan) within(was *gcPlan) bool {
	for _, t := range was.timelines {
		old, n := was.need[t.ID], p.need[t.ID]
		if old == nil || n == nil {
			continue
		}
		for _, seq := range n.points {
			if _, ok := slices.BinarySearch(old.points, seq); !ok && seq < t.Head {
				return false
			}
		}
	}
	return true
}

// past finds the versions that classes let go.
func (g *collector) past(ctx context.Context, p *gcPlan, c *Classes) (*drops, error) {
	d := &drops{versions: map[VersionID]struct{}{}, refs: map[blob.Ref]PathClass{}, before: map[TimelineID]Seq{}}
	for _, t := range p.timelines {
		n := p.need[t.ID]
		if t.Hidden || n == nil || g.dry != nil && g.dry.timelines[t.ID] {
			continue
		}
		if err := g.pause(ctx); err != nil {
			return nil, err
		}
		l := &classed{g: g, c: c, t: t, points: n.points, names: &pastNames{q: g.s.r, path: append([]Segment{{t.ID, MaxSeq}}, t.Chain...)}}
		if err := l.run(ctx, d); err != nil {
			return nil, fmt.Errorf("timeline %d: %w", t.ID, err)
		}
	}
	return d, nil
}

// classed works out what classes let go of one timeline.
type classed struct {
	g      *collector
	c      *Classes
	t      *Timeline
	points []Seq
	names  *pastNames
	since  map[time.Duration]Seq // by age, the state that was the present then
	ring   map[string][]pastVersion
}

// since is the state that was the present so long ago: what was past then is older.
func (l *classed) sinceAge(ctx context.Context, age time.Duration) (Seq, error) {
	if seq, ok := l.since[age]; ok {
		return seq, nil
	}
	seq := MaxSeq
	_, err := scanAll(ctx, l.g.s.r, 2, `SELECT n.seq, (SELECT COALESCE(max(c.seq), 0) FROM change c WHERE c.timeline_id = ? AND c.seq < n.seq)
		FROM (SELECT min(seq) AS seq FROM change WHERE timeline_id = ? AND at > ?) n WHERE n.seq IS NOT NULL`,
		[]any{int64(l.t.ID), int64(l.t.ID), l.g.now - int64(age)}, func(c *cells) error {
			seq = Seq(c.int(1))
			return nil
		})
	if l.since == nil {
		l.since = map[time.Duration]Seq{}
	}
	l.since[age] = seq
	return seq, err
}

// floor is for how long a class keeps everything.
func (l ClassLimit) floor() time.Duration {
	if l.For != 0 {
		return min(l.For, LeastClass)
	}
	return LeastClass
}

func (l *classed) run(ctx context.Context, d *drops) error {
	least, rings := time.Duration(math.MaxInt64), false
	for class, limit := range l.c.Limits {
		if _, ok := l.c.Limit(class); ok {
			least, rings = min(least, limit.floor()), rings || limit.Versions > 0
		}
	}
	from, err := l.sinceAge(ctx, least)
	if err != nil || from == 0 {
		return err // nothing is old enough for any class
	}
	drop := func(v pastVersion, class PathClass) {
		for _, id := range v.ids {
			d.versions[id] = struct{}{}
		}
		d.refs[v.ref] = class
		d.before[l.t.ID] = max(d.before[l.t.ID], v.end)
	}
	if err := l.g.pastVersions(ctx, l.t, func(v pastVersion) error {
		young := v.end > from
		if pointIn(l.points, v.seq, v.end) || young && !rings || l.g.dry.goes(l.t.ID, v.ids[len(v.ids)-1]) {
			return nil
		}
		paths, err := l.names.during(ctx, v.ino, v.seq, v.end)
		if err != nil {
			return err
		}
		class, at, err := l.of(ctx, paths)
		if err != nil {
			return err
		}
		limit, ok := l.c.Limit(class)
		if !ok {
			return nil
		}
		if limit.Versions > 0 {
			if l.ring == nil {
				l.ring = map[string][]pastVersion{}
			}
			v.class = class
			l.ring[at] = append(l.ring[at], v)
			return nil
		}
		since, err := l.sinceAge(ctx, limit.For)
		if err == nil && v.end <= since {
			drop(v, class)
		}
		return err
	}); err != nil {
		return err
	}
	for _, list := range l.ring {
		slices.SortFunc(list, func(a, b pastVersion) int { return int(max(-1, min(1, b.seq-a.seq))) })
		for i, v := range list {
			limit, _ := l.c.Limit(v.class)
			floor, err := l.sinceAge(ctx, limit.floor())
			if err != nil {
				return err
			}
			old := floor
			if limit.For > 0 {
				if old, err = l.sinceAge(ctx, limit.For); err != nil {
					return err
				}
			}
			if v.end <= floor && (i >= limit.Versions || limit.For > 0 && v.end <= old) {
				drop(v, v.class)
			}
		}
	}
	return nil
}

// lasting is for how long a content has a name that counts though it got another one then.
const lasting = time.Minute

// of is the class of a content that had some paths, and where it was last.
func (l *classed) of(ctx context.Context, paths []heldPath) (class PathClass, at string, err error) {
	end := Seq(-1)
	for _, p := range paths {
		if class := l.c.Of(p.path, false); class == Secret {
			if _, ok := l.c.Limit(class); ok {
				return Secret, p.path, nil
			}
		}
		if p.end > end {
			end, at = p.end, p.path
		}
	}
	class, keeps := Versioned, time.Duration(-1)
	for _, p := range paths {
		if p.end < end {
			short, err := l.brief(ctx, p)
			if err != nil {
				return Versioned, at, err
			}
			if short {
				continue
			}
		}
		is := l.c.Of(p.path, false)
		limit, ok := l.c.Limit(is)
		if !ok {
			return Versioned, at, nil
		}
		if limit.For == 0 {
			limit.For = math.MaxInt64
		}
		if limit.For > keeps {
			class, keeps = is, limit.For
		}
	}
	return class, at, nil
}

// brief reports whether a content had a path only for a moment.
func (l *classed) brief(ctx context.Context, p heldPath) (bool, error) {
	var from, to int64
	_, err := scanAll(ctx, l.g.s.r, 2, `SELECT (SELECT at FROM change WHERE timeline_id = ? AND seq = ?), (SELECT at FROM change WHERE timeline_id = ? AND seq = ?)`,
		[]any{int64(l.t.ID), int64(p.seq), int64(l.t.ID), int64(p.end)}, func(c *cells) error {
			if !c.null(0) && !c.null(1) {
				from, to = c.int(0), c.int(1)
			}
			return nil
		})
	return from != 0 && to-from < int64(lasting), err
}

// pastVersion is a content that an inode had, from seq until end, when it got another or lost its last name.
type pastVersion struct {
	ino      Ino
	seq, end Seq
	ids      []VersionID // the versions that name it, the first first
	ref      blob.Ref
	class    PathClass
}

// sqlHadContents goes along the versions of a timeline by inode, with the contents that are there.
const sqlHadContents = `SELECT x.ino, x.seq, x.version_id, x.nlink, CASE WHEN EXISTS (SELECT 1 FROM blob b WHERE b.hash = x.content_hash)
	THEN x.content_hash END FROM (SELECT v.ino, v.seq, v.version_id, v.nlink, v.content_hash FROM file_version v
	WHERE v.timeline_id = ? AND v.past = 0 AND (v.ino, v.seq) > (?, ?)
	UNION ALL SELECT w.ino, w.seq, w.version_id, w.nlink, w.content_hash FROM file_version w
	WHERE w.timeline_id = ? AND w.past = 1 AND (w.ino, w.seq) > (?, ?) ORDER BY 1, 2 LIMIT ?) x`

// pastVersions calls fn with the past contents of a timeline that are there and that some version keeps.
func (g *collector) pastVersions(ctx context.Context, t *Timeline, fn func(pastVersion) error) error {
	var ino, seq int64
	var run pastVersion
	removed := g.removedUpTo(t)
	for n := gcChunk; n == gcChunk; {
		if err := g.pause(ctx); err != nil {
			return err
		}
		n = 0
		type row struct {
			ino   Ino
			seq   Seq
			id    VersionID
			nlink int64
			ref   blob.Ref
		}
		var page []row
		if _, err := scanAll(ctx, g.s.r, 5, sqlHadContents, []any{int64(t.ID), ino, seq, int64(t.ID), ino, seq, int64(gcChunk)}, func(c *cells) error {
			n++
			ino, seq = c.int(0), c.int(1)
			page = append(page, row{Ino(ino), Seq(seq), VersionID(c.int(2)), c.int(3), c.ref(4)})
			return c.bad
		}); err != nil {
			return err
		}
		if n < gcChunk {
			page = append(page, row{})
		}
		for _, r := range page {
			if r.ino != run.ino || r.ref != run.ref {
				if r.ino == run.ino && run.end == MaxSeq {
					run.end = r.seq
				}
				if !run.ref.IsZero() && run.end != MaxSeq && len(run.ids) > 0 {
					if err := fn(run); err != nil {
						return err
					}
				}
				run = pastVersion{ino: r.ino, seq: r.seq, end: MaxSeq, ref: r.ref}
			}
			if r.nlink > 0 || r.seq > removed {
				run.ids = append(run.ids, r.id)
			}
			switch {
			case r.nlink > 0:
				run.end = MaxSeq
			case run.end == MaxSeq:
				run.end = r.seq // from then on only open files need it, and those are asked for themselves
			}
		}
	}
	return nil
}

// noteGone writes down which contents classes let go, as far as they are named only by what was let go, within the step that removes them.
func (g *collector) noteGone(ctx context.Context, d *drops, refs []blob.Ref) error {
	if d == nil {
		return nil
	}
	for _, r := range refs {
		class, ok := d.refs[r]
		if !ok {
			continue
		}
		if _, err := g.s.w.exec(ctx, `INSERT INTO content_gone (hash, class, at) VALUES (?, ?, ?)
			ON CONFLICT (hash) DO UPDATE SET class = excluded.class, at = excluded.at`, r[:], string(class), g.now); err != nil {
			return err
		}
		g.res.LetGo++
	}
	return nil
}

// goneRefs are the contents that classes let go before and that nobody stored again since; false: no version was met yet that names it.
func (s *Store) goneRefs(ctx context.Context) (map[blob.Ref]bool, error) {
	gone := map[blob.Ref]bool{}
	_, err := scanAll(ctx, s.r, 1, `SELECT n.hash FROM content_gone n WHERE NOT EXISTS (SELECT 1 FROM blob b WHERE b.hash = n.hash)`, nil,
		func(c *cells) error {
			gone[c.ref(0)] = false
			return c.bad
		})
	return gone, err
}

// forgetGone removes what is said of contents that are there, or that no version names.
func (g *collector) forgetGone(ctx context.Context, gone map[blob.Ref]bool) error {
	var list []blob.Ref
	for r, named := range gone {
		if !named {
			list = append(list, r)
		}
	}
	for some := range slices.Chunk(list, gcChunk) {
		if err := g.step(ctx, func(ctx context.Context) error {
			for _, r := range some {
				if _, err := g.s.w.exec(ctx, `DELETE FROM content_gone WHERE hash = ?`, r[:]); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return g.step(ctx, func(ctx context.Context) error {
		_, err := g.s.w.exec(ctx, `DELETE FROM content_gone WHERE EXISTS (SELECT 1 FROM blob b WHERE b.hash = content_gone.hash)`)
		return err
	})
}

// goneError is the error for a content without a row: one that a class let go, or blob.ErrNotFound.
func (s *Store) goneError(ctx context.Context, ref blob.Ref) error {
	var gone *LetGoError
	if _, err := scanAll(ctx, s.r, 2, `SELECT class, at FROM content_gone WHERE hash = ?`, []any{ref[:]}, func(c *cells) error {
		gone = &LetGoError{Ref: ref, Class: PathClass(c.string(0)), At: c.int(1)}
		return c.bad
	}); err != nil {
		return errors.Join(blob.ErrNotFound, err)
	}
	if gone != nil {
		return gone
	}
	return blob.ErrNotFound
}
