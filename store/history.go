package store

import (
	"context"
	"fmt"
)

// NamesOf lists the names that ino has in this view, in no particular order; none if it has no name or does not exist.
// The root has none.
func (v *View) NamesOf(ctx context.Context, ino Ino) ([]Name, error) {
	names, err := v.namesOf(ctx, ino)
	if err != nil {
		return nil, v.s.dbError(fmt.Sprintf("find the names of inode %d", ino), err)
	}
	return names, nil
}

func (v *View) namesOf(ctx context.Context, ino Ino) ([]Name, error) {
	// Every name that the inode has or had somewhere on the path, then the question whether this view still sees it
	// there: a nearer timeline may have removed the name or given it away.
	var had []dirName
	seen := map[dirName]bool{}
	add := func(c *cells) error {
		n := dirName{Ino(c.int(0)), c.string(1)}
		if !seen[n] {
			seen[n] = true
			had = append(had, n)
		}
		return c.bad
	}
	for _, seg := range v.path {
		if _, err := scanAll(ctx, v.q, 2, `SELECT parent_ino, name FROM file_node WHERE timeline_id = ? AND ino = ? AND seq <= ?`,
			[]any{int64(seg.Timeline), int64(ino), int64(seg.Cut)}, add); err != nil {
			return nil, err
		}
		if seg.Cut == MaxSeq {
			continue
		}
		if _, err := scanAll(ctx, v.q, 2, `SELECT parent_ino, name FROM file_node_history WHERE timeline_id = ? AND ino = ?
			AND seq <= ? AND end_seq > ?`,
			[]any{int64(seg.Timeline), int64(ino), int64(seg.Cut), int64(seg.Cut)}, add); err != nil {
			return nil, err
		}
	}
	if len(had) == 0 {
		return nil, nil
	}
	hits, err := namesOn(ctx, v.q, v.path, had)
	if err != nil {
		return nil, err
	}
	var out []Name
	for i, h := range hits {
		if h.ino == ino {
			out = append(out, Name{Parent: had[i].parent, Name: had[i].name, Ino: ino, Type: h.kind})
		}
	}
	return out, nil
}

// SeqAt is the newest seq on v's read path whose change was made at or before at (ns since the epoch), and the
// timeline it is on. It wraps ENOENT if every change on the path is younger. It reads the changes since then.
func (v *View) SeqAt(ctx context.Context, at int64) (TimelineID, Seq, error) {
	for _, seg := range v.path {
		var seq Seq
		found, err := scanAll(ctx, v.q, 1, `SELECT seq FROM change WHERE timeline_id = ? AND seq <= ? AND at <= ?
			ORDER BY seq DESC LIMIT 1`, []any{int64(seg.Timeline), int64(seg.Cut), at}, func(c *cells) error {
			seq = Seq(c.int(0))
			return c.bad
		})
		if err != nil {
			return 0, 0, v.s.dbError("find the change at a time", err)
		}
		if found {
			return seg.Timeline, seq, nil
		}
	}
	return 0, 0, fmt.Errorf("find the change at a time: %w", ErrNotFound)
}
