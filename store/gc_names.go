package store

import (
	"cmp"
	"context"
	"slices"
)

// pastNames finds the paths that inodes had on a timeline while it was written. It is used by one goroutine.
type pastNames struct {
	q    querier
	path []Segment          // of the timeline's head
	dirs map[Ino][]heldName // of directories
}

// heldName is a name that an inode had from seq until end.
type heldName struct {
	parent   Ino
	name     string
	seq, end Seq
}

const (
	// maxDepth and maxPaths end the search for paths of what was moved about a lot: nobody is the wiser by the rest.
	maxDepth = 1024
	maxPaths = 16
)

// heldPath is a path that an inode had from seq until end.
type heldPath struct {
	path     string
	seq, end Seq
}

// during are the paths that an inode had at any time from one state until before another, or if it had none then, the last before. It returns
// none if that is not known any more, or if they are too many.
func (p *pastNames) during(ctx context.Context, ino Ino, from, to Seq) ([]heldPath, error) {
	list, err := p.paths(ctx, ino, from, to, 0)
	slices.SortFunc(list, func(a, b heldPath) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.seq, b.seq)) })
	out := list[:0]
	for _, h := range list {
		if n := len(out); n > 0 && out[n-1].path == h.path && out[n-1].end >= h.seq {
			out[n-1].end = max(out[n-1].end, h.end)
			continue
		}
		out = append(out, h)
	}
	return out, err
}

func (p *pastNames) paths(ctx context.Context, ino Ino, from, to Seq, depth int) ([]heldPath, error) {
	if ino == RootIno {
		return []heldPath{{"", from, to}}, nil
	}
	if depth > maxDepth {
		return nil, nil
	}
	held, err := p.of(ctx, ino, depth > 0)
	if err != nil {
		return nil, err
	}
	var out []heldPath
	for _, h := range heldDuring(held, from, to) {
		a, b := max(from, h.seq), min(to, h.end)
		if a >= b { // the last before
			a, b = h.end-1, h.end
		}
		up, err := p.paths(ctx, h.parent, a, b, depth+1)
		if err != nil || up == nil {
			return nil, err
		}
		for _, dir := range up {
			if dir.path != "" {
				dir.path += "/"
			}
			dir.path += h.name
			out = append(out, dir)
		}
		if len(out) > maxPaths {
			return nil, nil
		}
	}
	return out, nil
}

// heldDuring are the names of a stretch, or if there were none, those that ended last before it.
func heldDuring(held []heldName, from, to Seq) []heldName {
	var in, before []heldName
	for _, h := range held {
		switch {
		case h.seq < to && h.end > from:
			in = append(in, h)
		case h.end > from:
		case len(before) > 0 && h.end < before[0].end:
		case len(before) > 0 && h.end == before[0].end:
			before = append(before, h)
		default:
			before = []heldName{h}
		}
	}
	if len(in) > 0 {
		return in
	}
	return before
}

// of are all names that an inode has or had, as far as they are still known.
func (p *pastNames) of(ctx context.Context, ino Ino, dir bool) ([]heldName, error) {
	if held, ok := p.dirs[ino]; ok {
		return held, nil
	}
	var out []heldName
	for i, seg := range p.path {
		var here []heldName
		if _, err := scanAll(ctx, p.q, 4, `SELECT parent_ino, name, seq, NULL FROM file_node WHERE timeline_id = ? AND ino = ? AND seq <= ?
			UNION ALL SELECT parent_ino, name, seq, end_seq FROM file_node_history WHERE timeline_id = ? AND ino = ? AND seq <= ?`,
			[]any{int64(seg.Timeline), int64(ino), int64(seg.Cut), int64(seg.Timeline), int64(ino), int64(seg.Cut)}, func(c *cells) error {
				h := heldName{Ino(c.int(0)), c.string(1), Seq(c.int(2)), MaxSeq}
				if !c.null(3) {
					h.end = Seq(c.int(3))
				}
				if i == 0 || h.end > seg.Cut {
					here = append(here, h)
				}
				return c.bad
			}); err != nil {
			return nil, err
		}
		for _, h := range here {
			if i > 0 {
				end, err := p.replaced(ctx, i, h)
				if err != nil {
					return nil, err
				}
				h.seq, h.end = 0, end
			}
			if h.end > 0 {
				out = append(out, h)
			}
		}
	}
	if dir {
		if p.dirs == nil {
			p.dirs = map[Ino][]heldName{}
		}
		p.dirs[ino] = out
	}
	return out, nil
}

// replaced is when the timeline gave a name that segment i has to something else; 0 if one between did before it began.
func (p *pastNames) replaced(ctx context.Context, i int, h heldName) (end Seq, err error) {
	for j := i - 1; j >= 0 && err == nil; j-- {
		first := MaxSeq
		key := []any{int64(p.path[j].Timeline), int64(h.parent), []byte(h.name), int64(p.path[j].Cut)}
		_, err = scanAll(ctx, p.q, 1, `SELECT min(seq) FROM (SELECT seq FROM file_node WHERE timeline_id = ? AND parent_ino = ? AND name = ? AND seq <= ?
			UNION ALL SELECT seq FROM file_node_history WHERE timeline_id = ? AND parent_ino = ? AND name = ? AND seq <= ?) x`,
			append(key, key...), func(c *cells) error {
				if !c.null(0) {
					first = Seq(c.int(0))
				}
				return c.bad
			})
		switch {
		case err != nil || first == MaxSeq:
		case j > 0:
			return 0, nil
		default:
			return first, nil
		}
	}
	return MaxSeq, err
}
