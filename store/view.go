package store

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
)

// View is one state of a tree: a read path, nearest timeline first. It is immutable, safe for concurrent use and holds
// no transaction, so that a view pinned for days never keeps the database's log from being folded in. A view whose
// first cut is MaxSeq follows the head of that timeline.
type View struct {
	s    *Store
	q    querier // where its queries run; the pool but for Check
	path []Segment
	// from is the path by the true timelines, read when it is asked for.
	from atomic.Pointer[[]Segment]
}

// ViewAt returns the state of timeline at seq; MaxSeq follows the head. A seq that lies on an ancestor is read there.
// It wraps ENOENT if there is no such timeline.
func (s *Store) ViewAt(ctx context.Context, timeline TimelineID, seq Seq) (*View, error) {
	return s.viewAt(ctx, s.r, timeline, seq)
}

func (s *Store) viewAt(ctx context.Context, q querier, timeline TimelineID, seq Seq) (*View, error) {
	path, err := readPath(ctx, q, timeline, seq)
	if err != nil {
		return nil, s.dbError(fmt.Sprintf("find timeline %d at seq %d", timeline, seq), err)
	}
	return &View{s: s, q: q, path: path}, nil
}

// readPath normalises (timeline, seq) to the timeline that owns it and returns the path from there.
func readPath(ctx context.Context, q querier, timeline TimelineID, seq Seq) ([]Segment, error) {
	t, err := timelineRow(ctx, q, timeline)
	if err == nil && t.Parent != 0 && seq <= t.ParentSeq {
		if timeline, err = owner(ctx, q, timeline, seq); err == nil {
			t, err = timelineRow(ctx, q, timeline)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case t.Hidden:
		return nil, fmt.Errorf("timeline %d is a hidden segment: %w", timeline, ErrNotFound)
	case seq > t.Head && seq != MaxSeq:
		if err := notCut(ctx, q, t, seq); err != nil {
			return nil, err
		}
	case seq < t.GCSeq:
		if err := stillKept(ctx, q, timeline, seq, t.GCSeq); err != nil {
			return nil, err
		}
	}
	return append([]Segment{{timeline, seq}}, t.Chain...), nil
}

const sqlOwner = `WITH RECURSIVE l(id, parent, parent_seq, n) AS (
	SELECT id, parent_id, parent_seq, 0 FROM timeline WHERE id = ?
	UNION ALL SELECT t.id, t.parent_id, t.parent_seq, l.n + 1 FROM l CROSS JOIN timeline t WHERE t.id = l.parent AND l.parent_seq >= ?)
	SELECT id FROM l ORDER BY n DESC LIMIT 1`

// owner is the timeline that owns seq, timeline itself or an ancestor.
func owner(ctx context.Context, q querier, timeline TimelineID, seq Seq) (TimelineID, error) {
	_, err := scanAll(ctx, q, 1, sqlOwner, []any{int64(timeline), int64(seq)}, func(c *cells) error {
		timeline = TimelineID(c.int(0))
		return nil
	})
	return timeline, err
}

// ViewOf returns the state that a workspace shows: the head of its timeline, or its base.
func (s *Store) ViewOf(ctx context.Context, ws *Workspace) (*View, error) {
	return s.viewOf(ctx, s.r, ws)
}

func (s *Store) viewOf(ctx context.Context, q querier, ws *Workspace) (*View, error) {
	if ws.Timeline != 0 {
		return s.viewAt(ctx, q, ws.Timeline, MaxSeq)
	}
	return s.viewAt(ctx, q, ws.Base, ws.BaseSeq)
}

// Path is the read path, nearest first. Behind its first entry it may hold hidden segments, which stand for several
// timelines: what asks for timelines wants Lineage. The caller must not change it.
func (v *View) Path() []Segment { return v.path }

// Head is the timeline of the view and the seq it shows, MaxSeq if it follows the head.
func (v *View) Head() (TimelineID, Seq) { return v.path[0].Timeline, v.path[0].Cut }

// Child returns the head of a timeline that starts at v, whether or not its row is in the database yet. It refuses a
// view that follows a head, because that would go on changing below the child.
func (v *View) Child(t TimelineID) (*View, error) {
	if v.path[0].Cut == MaxSeq {
		return nil, fmt.Errorf("start timeline %d at the moving head of timeline %d: give its seq: %w", t, v.path[0].Timeline,
			syscall.EINVAL)
	}
	return &View{s: v.s, q: v.q, path: append([]Segment{{t, MaxSeq}}, v.path...)}, nil
}

// Lookup finds one directory entry. The error wraps ENOENT if there is none.
func (v *View) Lookup(ctx context.Context, parent Ino, name string) (Name, error) {
	hits, err := namesOn(ctx, v.q, v.path, []dirName{{parent, name}})
	if err != nil {
		return Name{}, v.s.dbError(fmt.Sprintf("look up %q in directory %d", name, parent), err)
	}
	if hits[0].ino == 0 {
		return Name{}, fmt.Errorf("look up %q in directory %d: %w", name, parent, ErrNotFound)
	}
	return Name{Parent: parent, Name: name, Ino: hits[0].ino, Type: hits[0].kind}, nil
}

// Version finds the state of one inode; it wraps ENOENT if the inode does not exist in this view. An inode that lost
// its last name is still found, with Nlink 0.
func (v *View) Version(ctx context.Context, ino Ino) (*Version, error) {
	vs, err := v.Versions(ctx, []Ino{ino})
	if err != nil {
		return nil, err
	}
	if vs[0] == nil {
		return nil, fmt.Errorf("find inode %d: %w", ino, ErrNotFound)
	}
	return vs[0], nil
}

// Versions finds the states of many inodes at once. The result has nil for those that do not exist in this view.
func (v *View) Versions(ctx context.Context, inos []Ino) ([]*Version, error) {
	vs, err := versionsOn(ctx, v.q, v.path, inos)
	if err != nil {
		return nil, v.s.dbError(fmt.Sprintf("find %d inodes", len(inos)), err)
	}
	return vs, nil
}

// Resolve walks path from the root: bytes, separated by '/'; empty parts and "." are skipped, ".." and symbolic links
// are not followed. The root itself has the zero Name but for Ino and Type. The error wraps ENOENT or ENOTDIR.
func (v *View) Resolve(ctx context.Context, path string) (Name, *Version, error) {
	at := Name{Ino: RootIno, Type: syscall.S_IFDIR}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." {
			continue
		}
		if at.Type != syscall.S_IFDIR {
			return Name{}, nil, fmt.Errorf("resolve %q: %q is not a directory: %w", path, at.Name, syscall.ENOTDIR)
		}
		next, err := v.Lookup(ctx, at.Ino, part)
		if err != nil {
			return Name{}, nil, fmt.Errorf("resolve %q: %w", path, err)
		}
		at = next
	}
	ver, err := v.Version(ctx, at.Ino)
	if err != nil {
		return Name{}, nil, fmt.Errorf("resolve %q: %w", path, err)
	}
	return at, ver, nil
}
