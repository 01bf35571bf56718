package versions

import (
	"cmp"
	"context"
	"fmt"

	"wsfs/store"
)

// inoRun is a stretch of our changes of an inode that nobody else's came between.
type inoRun struct {
	born          bool
	before, after *store.Version
	from, to      moment
	command       store.CommandID
}

// inoRuns are those of an inode, newest first. Nothing lies before the one that made it.
func inoRuns(list []inoEvent) []inoRun {
	var out []inoRun
	open := false
	for i := range list {
		e := &list[i]
		if !e.mine {
			open = false
			continue
		}
		if open && !e.born {
			r := &out[len(out)-1]
			r.after, r.to, r.command = e.after, e.at, e.command
			continue
		}
		out = append(out, inoRun{born: e.born, before: e.before, after: e.after, from: e.at, to: e.at, command: e.command})
		open = true
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// inode is an inode after our changes of it were taken back; nil if there is none.
func (p *planner) inode(ctx context.Context, ino store.Ino) (*fused, error) {
	if f, ok := p.state[ino]; ok {
		return f, nil
	}
	now := p.now[ino]
	if now == nil {
		vs, err := p.h.view.Versions(ctx, []store.Ino{ino})
		if err != nil {
			return nil, err
		}
		if now = vs[0]; now == nil {
			p.state[ino] = nil
			return nil, nil
		}
		p.now[ino] = now
	}
	f := &fused{v: *now}
	f.v.Replaced, f.v.Merge = 0, 0
	p.state[ino] = f
	if p.out[ino] {
		return f, nil
	}
	for _, r := range inoRuns(p.h.inos[ino]) {
		if r.born {
			break
		}
		if r.before == nil || r.after == nil {
			return nil, fmt.Errorf("undo: the versions of %q around change %d are not in the store any more; nothing was changed", p.pathOf(ino), r.from.seq)
		}
		why, err := p.fuse(ctx, f, r.after, &fused{v: *r.before})
		if err != nil {
			return nil, fmt.Errorf("undo: read %q: %w", p.pathOf(ino), err)
		}
		if why != "" {
			p.conflict(p.pathOf(ino), "%s, after %s", why, by(r.command))
			break
		}
	}
	return f, nil
}

// mergeInto takes the replacement of a file by another back in cur, which has the name now: what came since is kept.
func (p *planner) mergeInto(ctx context.Context, path string, cur store.Ino, r *nameRun) error {
	base, err := p.made(ctx, r)
	if err != nil {
		return err
	}
	theirs, err := p.inode(ctx, r.before)
	if err != nil {
		return err
	}
	ours, err := p.inode(ctx, cur)
	if err != nil {
		return err
	}
	if base == nil || theirs == nil || ours == nil {
		return fmt.Errorf("undo: the versions of %q are not in the store any more; nothing was changed", path)
	}
	why, err := p.fuse(ctx, ours, base, theirs)
	if err != nil {
		return fmt.Errorf("undo: read %q: %w", path, err)
	}
	if why != "" {
		p.conflict(path, "%s, after %s", why, by(r.command))
	}
	p.merged[cur] = true
	return nil
}

// made is what our changes left in the file that a run put in place.
func (p *planner) made(ctx context.Context, r *nameRun) (*store.Version, error) {
	var v *store.Version
	open := false
	list := p.h.inos[r.after]
	for i := range list {
		e := &list[i]
		switch {
		case e.born && e.mine:
			v, open = e.after, true
		case !e.mine && (open || e.at.compare(r.to) > 0):
			if v != nil || e.before != nil {
				return cmp.Or(v, e.before), nil
			}
			view, err := p.st.ViewAt(ctx, e.timeline, e.at.seq-1)
			if err != nil {
				return nil, err
			}
			vs, err := view.Versions(ctx, []store.Ino{r.after})
			if err != nil {
				return nil, err
			}
			return vs[0], nil
		case open || e.at.compare(r.to) <= 0:
			if e.after != nil {
				v = e.after
			}
		}
	}
	if v != nil {
		return v, nil
	}
	// It was there before, and has not changed since.
	f, err := p.inode(ctx, r.after)
	if f == nil || err != nil {
		return nil, err
	}
	return p.now[r.after], nil
}

// pathOf is a path of an inode, now or as it was last.
func (p *planner) pathOf(ino store.Ino) string {
	if ino == store.RootIno {
		return "."
	}
	keys := p.h.keys[ino]
	for _, k := range keys {
		if list := p.h.names[k]; len(list) == 0 || list[len(list)-1].after == ino {
			return p.h.place.path(k)
		}
	}
	if len(keys) > 0 {
		return p.h.place.path(keys[len(keys)-1])
	}
	return fmt.Sprintf("#%d", ino)
}
