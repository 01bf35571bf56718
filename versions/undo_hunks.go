package versions

import (
	"bytes"
	"context"
	"slices"

	"wsfs/internal/diff"
	"wsfs/store"
)

// UndoHunk is one place of a text that an undo changes: lines from Line on (counted from 1) become others.
type UndoHunk struct {
	Line     int
	Old, New [][]byte
}

// hunks tells the places of texts that change, if that is asked for, and keeps only those that are picked.
func (p *planner) hunks(ctx context.Context, changed map[store.Ino]bool) error {
	if !p.sel.Hunks && p.sel.Picks == nil {
		return nil
	}
	var keep []UndoEntry
	for _, e := range p.plan.Entries {
		old, text, ok, err := p.sides(ctx, &e)
		if err != nil {
			return err
		}
		var changes []diff.Change
		if ok {
			changes = diff.Diff(old, text)
			a, b := diff.Lines(old), diff.Lines(text)
			for _, c := range changes {
				e.Hunks = append(e.Hunks, UndoHunk{Line: c.A + 1, Old: a[c.A : c.A+c.ALen], New: b[c.B : c.B+c.BLen]})
			}
		}
		if p.sel.Picks != nil {
			picks := p.sel.Picks[e.Path]
			switch {
			case len(picks) == 0:
				p.drop(&e)
				continue
			case len(changes) > 0 && len(picks) < len(changes):
				p.put(&e, pickLines(old, text, changes, picks))
			}
		}
		keep = append(keep, e)
	}
	p.plan.Entries = keep
	p.plan.Created, p.plan.Changed, p.plan.Removed, p.plan.Renamed = 0, 0, 0, 0
	for _, e := range keep {
		p.plan.count(e.What)
	}
	return nil
}

// sides is what a path holds now and what it will hold, if both are texts that differ.
func (p *planner) sides(ctx context.Context, e *UndoEntry) (old, text []byte, ok bool, err error) {
	was := p.presentAt(e.key)
	if e.What != UndoChanged || !p.regular(was, e.ino) {
		return nil, nil, false, nil
	}
	now, f := p.now[was], p.state[e.ino]
	if now == nil || f == nil || now.Size > maxMerge || f.v.Size > maxMerge {
		return nil, nil, false, nil
	}
	if old, err = contentOf(ctx, p.st, now); err == nil {
		text, err = p.textOf(ctx, f)
	}
	return old, text, err == nil && !bytes.Equal(old, text) && !diff.Binary(old) && !diff.Binary(text), err
}

// pickLines is old with only some of the changes that lead to text.
func pickLines(old, text []byte, changes []diff.Change, picks []int) []byte {
	a, b := diff.Lines(old), diff.Lines(text)
	out := []byte{}
	at := 0
	for i, c := range changes {
		if !slices.Contains(picks, i) {
			continue
		}
		out = append(out, bytes.Join(a[at:c.A], nil)...)
		out = append(out, bytes.Join(b[c.B:c.B+c.BLen], nil)...)
		at = c.A + c.ALen
	}
	return append(out, bytes.Join(a[at:], nil)...)
}

// drop takes a path out of the plan.
func (p *planner) drop(e *UndoEntry) {
	delete(p.want, e.key)
	if e.What == UndoRenamed {
		for k, ino := range p.want {
			if ino == 0 && p.presentAt(k) == e.ino {
				delete(p.want, k)
			}
		}
	}
	if e.What != UndoRemoved {
		p.plan.Versions = slices.DeleteFunc(p.plan.Versions, func(v store.Version) bool { return v.Ino == e.ino })
		delete(p.plan.texts, e.ino)
	}
}

// put gives the file that has the path now another text: it stays the file it is.
func (p *planner) put(e *UndoEntry, text []byte) {
	p.drop(e)
	ino := p.presentAt(e.key)
	v := *p.now[ino]
	f := &fused{v: v}
	f.v.Replaced, f.v.Merge, f.v.Mtime = 0, 0, 0
	if s := p.state[e.ino]; s != nil && s.v.ID != 0 {
		f.v.Merge = s.v.Merge
	}
	f.setText(text)
	p.plan.Versions = append(p.plan.Versions, f.v)
	p.plan.texts[ino] = text
}
