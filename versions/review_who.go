package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"wsfs/internal/diff"
	"wsfs/store"
)

// ChangeBy is who did something.
type ChangeBy struct {
	At      int64
	Seq     store.Seq
	Session *store.Session // nil: unknown, as Command
	Command *store.Command
	Step    *store.Process // the part of the command that did it, as Entry.Step; nil: the command itself
}

// maxReviewed is how many versions of a file are looked at.
const maxReviewed = 512

// changedBy finds out who made changes: new lines belong to whom blame says, removed ones to who removed them, the rest to who made the
// versions in which it happened.
func (m *merge) changedBy(ctx context.Context, list []Change) error {
	for i := 0; i < len(list); {
		n := i
		for n < len(list) && list[n].e == list[i].e {
			n++
		}
		if err := m.changesBy(ctx, list[i:n]); err != nil {
			return fmt.Errorf("find who changed %q: %w", list[i].Path, err)
		}
		i = n
	}
	return nil
}

// changesBy is changedBy for one entity.
func (m *merge) changesBy(ctx context.Context, list []Change) error {
	e := list[0].e
	v := e.t
	if v == nil {
		if v = m.theirs.dead[m.theirs.ino(e.id)]; v == nil {
			return nil
		}
	}
	chain, err := m.since(ctx, v, e.b)
	if err != nil {
		return err
	}
	var lines []*LineOwner
	var killers []int
	at := map[store.Segment]bool{}
	steps := make([][]store.Segment, len(list))
	add := func(i int, seg store.Segment) {
		if !slices.Contains(steps[i], seg) {
			steps[i], at[seg] = append(steps[i], seg), true
		}
	}
	for i := range list {
		c := &list[i]
		if c.Hunk {
			if lines == nil && len(c.New) > 0 {
				b, err := Blame(ctx, m.st, e.t, BlameRange{})
				if err != nil {
					return err
				}
				lines = b.Owners
			}
			for _, o := range lines[min(len(lines), c.at.B):min(len(lines), c.at.B+c.at.BLen)] {
				add(i, store.Segment{Timeline: o.Version.Origin, Cut: o.Version.Seq})
			}
			if len(c.New) > 0 || len(chain) == 0 {
				continue
			}
			if killers == nil {
				if killers, err = m.killers(ctx, chain); err != nil {
					return err
				}
			}
			for k := c.at.A; k < c.at.A+c.at.ALen && k < len(killers); k++ {
				if n := killers[k]; n > 0 {
					add(i, store.Segment{Timeline: chain[n].Origin, Cut: chain[n].Seq})
				}
			}
			continue
		}
		for n, x := range chain {
			if n > 0 && stepDid(c.What, chain[n-1], x) || n == 0 && e.b == nil {
				add(i, store.Segment{Timeline: x.Origin, Cut: x.Seq})
			}
		}
		if len(steps[i]) == 0 {
			add(i, store.Segment{Timeline: v.Origin, Cut: v.Seq})
		}
	}
	return m.name(ctx, list, steps, at)
}

// stepDid reports whether a step from one version to the next did something of a kind.
func stepDid(what string, from, to *store.Version) bool {
	switch what {
	case Added:
		return from.Content != to.Content
	case Modified:
		return from.Content != to.Content
	case ReviewAttributes:
		return !otherwiseSame(from, to)
	case Renamed:
		return sameVersion(from, to) && to.Nlink > 0
	case Removed:
		return to.Nlink == 0
	}
	return false
}

// since is the versions from base up to v, oldest first; base is among them if there is one.
func (m *merge) since(ctx context.Context, v, base *store.Version) ([]*store.Version, error) {
	before, err := m.st.VersionsBefore(ctx, v.ID, maxReviewed)
	if err != nil && !errors.Is(err, syscall.ENOENT) {
		return nil, err
	}
	var out []*store.Version
	for _, x := range before {
		out = append(out, x.Version)
		if base != nil && x.ID == base.ID {
			break
		}
	}
	slices.Reverse(out)
	return out, nil
}

// killers is for each line of the first of some versions the one in which it is gone, 0 if it is in all.
func (m *merge) killers(ctx context.Context, chain []*store.Version) ([]int, error) {
	texts, err := m.texts(ctx, chain[0])
	if err != nil {
		return nil, err
	}
	was := texts[0]
	out := make([]int, len(diff.Lines(was)))
	place := make([]int, len(out)) // where lines are that live
	for i := range place {
		place[i] = i
	}
	for n := 1; n < len(chain); n++ {
		if chain[n].Content == chain[n-1].Content || chain[n].Size > maxMerge {
			continue
		}
		if texts, err = m.texts(ctx, chain[n]); err != nil {
			return nil, err
		}
		list := diff.Diff(was, texts[0])
		was = texts[0]
		k, shift := 0, 0
		for i := range place {
			if out[i] != 0 {
				continue
			}
			for k < len(list) && list[k].A+list[k].ALen <= place[i] {
				shift += list[k].BLen - list[k].ALen
				k++
			}
			if k < len(list) && list[k].A <= place[i] {
				out[i] = n
			} else {
				place[i] += shift
			}
		}
	}
	return out, nil
}

// name puts names to steps.
func (m *merge) name(ctx context.Context, list []Change, steps [][]store.Segment, at map[store.Segment]bool) error {
	keys := make([]store.Segment, 0, len(at))
	for seg := range at {
		keys = append(keys, seg)
	}
	rows, err := m.st.ChangesAt(ctx, keys)
	if err != nil {
		return err
	}
	of := map[store.Segment]*store.ChangeRow{}
	for i, row := range rows {
		of[keys[i]] = row
	}
	for i := range list {
		for _, seg := range steps[i] {
			row := of[seg]
			if row == nil {
				continue
			}
			by := ChangeBy{At: row.At, Seq: row.Seq, Session: row.Session, Command: row.Command}
			by.Step = (&Entry{Command: row.Command, Process: row.Process}).Step()
			if !slices.ContainsFunc(list[i].By, func(x ChangeBy) bool {
				if x.Step != by.Step && (x.Step == nil || by.Step == nil || x.Step.ID != by.Step.ID) {
					return false
				}
				return x.Command == by.Command && x.Session == by.Session || x.Command != nil && by.Command != nil && x.Command.ID == by.Command.ID
			}) {
				list[i].By = append(list[i].By, by)
			}
		}
		slices.SortFunc(list[i].By, func(a, b ChangeBy) int { return int(a.Seq - b.Seq) })
	}
	return nil
}
