package versions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"wsfs/blob"
	"wsfs/internal/diff"
	"wsfs/store"
)

// part is what is taken of an entity if that is not all: t is changed to that. full is what theirs has, text the content if it is one
// that no version has.
type part struct {
	full *store.Version
	text []byte
}

// Taken is what a merge took of a path.
type Taken struct {
	Path string
	IDs  []string
}

// take leaves out what is not among the chosen changes, as if they had left it alone. What comes brings the directories that it is in.
func (m *merge) take(ctx context.Context) error {
	all, err := m.changes(ctx)
	if err != nil {
		return err
	}
	chosen, err := ChooseChanges(all, m.sel.Hunks)
	if err != nil {
		return err
	}
	of := map[*entity][]int{}
	for i := range all {
		of[all[i].e] = append(of[all[i].e], i)
	}
	for i := range all {
		for up := all[i].e; chosen[i] && up != nil && len(up.nt) > 0; {
			up = m.at[up.nt[0].Parent]
			if up == nil || up.b != nil {
				break
			}
			for _, k := range of[up] {
				chosen[k] = true
			}
		}
	}
	for _, e := range m.list {
		if err := m.takeOf(ctx, e, all, of[e], chosen); err != nil {
			return err
		}
	}
	for i := range all {
		if !chosen[i] {
			continue
		}
		if n := len(m.plan.Taken); n > 0 && m.plan.Taken[n-1].Path == all[i].Path {
			m.plan.Taken[n-1].IDs = append(m.plan.Taken[n-1].IDs, all[i].ID)
		} else {
			m.plan.Taken = append(m.plan.Taken, Taken{all[i].Path, []string{all[i].ID}})
		}
	}
	return nil
}

func (m *merge) takeOf(ctx context.Context, e *entity, all []Change, mine []int, chosen []bool) error {
	took := 0
	for _, i := range mine {
		if chosen[i] {
			took++
		}
	}
	switch {
	case len(mine) > 0 && took == len(mine):
		e.chosen = true
		return nil
	case took == 0:
		if len(mine) > 0 {
			m.plan.Skipped++
		}
		e.t, e.nt = e.b, e.nb
		return nil
	}
	// A part: it is on both sides, or it would be one change.
	m.plan.Skipped++
	e.chosen = true
	t := *e.t
	p := &part{full: e.t}
	whole := false
	var hunks []Change
	attributes, names := false, false
	for _, i := range mine {
		c := &all[i]
		switch {
		case !chosen[i]:
		case c.Hunk:
			hunks = append(hunks, *c)
		case c.What == Modified:
			whole = true
		case c.What == Renamed:
			names = true
		case c.What == ReviewAttributes:
			attributes = true
		}
	}
	if !names {
		e.nt = e.nb
	}
	if !attributes {
		t.Mode, t.UID, t.GID, t.Rdev, t.Target, t.Xattrs = e.b.Mode, e.b.UID, e.b.GID, e.b.Rdev, e.b.Target, e.b.Xattrs
		if t.Type() != fileType {
			t.Size = e.b.Size
		}
	}
	if t.Type() == fileType && !whole {
		t.Content, t.Size, t.Holes, t.Mtime = e.b.Content, e.b.Size, e.b.Holes, e.b.Mtime
		if len(hunks) > 0 {
			texts, err := m.texts(ctx, e.b, p.full)
			if err != nil {
				return err
			}
			p.text = TakeHunks(texts[0], texts[1], hunks)
			t.Content, t.Size, t.Holes, t.Mtime = blob.Sum(p.text), int64(len(p.text)), 0, p.full.Mtime
		}
	}
	e.t, e.part = &t, p
	return nil
}

// TakeHunks is base with some of the changes that make theirs of it, which HunksOf has found.
func TakeHunks(base, theirs []byte, hunks []Change) []byte {
	some := map[diff.Change]bool{}
	for i := range hunks {
		some[hunks[i].at] = true
	}
	a, b := diff.Lines(base), diff.Lines(theirs)
	out := []byte{}
	at := 0
	for _, c := range diff.Diff(base, theirs) {
		if !some[c] {
			continue
		}
		for _, l := range slices.Concat(a[at:c.A], b[c.B:c.B+c.BLen]) {
			out = append(out, l...)
		}
		at = c.A + c.ALen
	}
	for _, l := range a[at:] {
		out = append(out, l...)
	}
	return out
}

// ChooseChanges says which changes ids name, each by enough of its beginning to be the only one.
func ChooseChanges(all []Change, ids []string) ([]bool, error) {
	out := make([]bool, len(all))
	for _, id := range ids {
		found := -1
		for i := range all {
			if len(id) < 4 || !strings.HasPrefix(all[i].ID, id) {
				continue
			}
			if found >= 0 {
				return nil, fmt.Errorf("%q is the beginning of more than one change: %w", id, syscall.EINVAL)
			}
			found = i
		}
		if found < 0 {
			return nil, fmt.Errorf("there is no change %q (any more); `wsfs review` lists them: %w", id, syscall.ENOENT)
		}
		out[found] = true
	}
	return out, nil
}
