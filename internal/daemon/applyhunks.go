package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	"wsfs/internal/diff"
	"wsfs/internal/hosttree"
	"wsfs/internal/report"
	"wsfs/store"
	"wsfs/versions"
)

// applyHunks is which parts of what would be applied are wanted.
type applyHunks struct {
	list   []versions.Change
	chosen []bool
	of     map[string][]int // by path
}

// findHunks takes apart what there is to apply, and finds what was asked for. Ids are those of `wsfs review`, where what the directory was is what the
// workspace was forked from.
func (p *applying) findHunks(ctx context.Context, paths []string) error {
	if len(p.req.Hunks) == 0 && !p.req.List {
		return nil
	}
	h := &applyHunks{of: map[string][]int{}}
	for _, path := range paths {
		list, err := p.changesOf(ctx, path)
		if err != nil {
			return err
		}
		for _, c := range list {
			h.of[path] = append(h.of[path], len(h.list))
			h.list = append(h.list, c)
		}
	}
	if p.req.List {
		p.out.Changes = []*report.ChangeLine{}
		for i := range h.list {
			p.out.Changes = append(p.out.Changes, report.ChangeLineOf(&h.list[i]))
		}
	}
	if len(p.req.Hunks) == 0 {
		return nil
	}
	var err error
	if h.chosen, err = versions.ChooseChanges(h.list, p.req.Hunks); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	p.hunks = h
	return nil
}

// changesOf are the parts of what a path has become in the workspace since it was equal to the directory's.
func (p *applying) changesOf(ctx context.Context, path string) ([]versions.Change, error) {
	want, ver, err := stateAt(ctx, p.view, path)
	if err != nil {
		return nil, err
	}
	was, err := p.was(ctx, path)
	if err != nil {
		return nil, err
	}
	old := &store.Version{Mode: was.Mode, Content: was.Ref, Size: was.Size, Target: was.Target}
	switch {
	case !was.Exists() && !want.Exists():
		return nil, nil
	case !was.Exists():
		return []versions.Change{versions.WholeChange(path, versions.Added, ver)}, nil
	case !want.Exists():
		return []versions.Change{versions.WholeChange(path, versions.Removed, old)}, nil
	case was.Type() != want.Type():
		return []versions.Change{versions.WholeChange(path, versions.Modified, ver)}, nil
	}
	var list []versions.Change
	attrs := want.Mode != was.Mode
	if hasAttrs(&want) && !attrs {
		wasAttrs, err := p.wasAttrs(ctx, path)
		if err != nil {
			return nil, err
		}
		attrs = len(changedAttrs(wasAttrs, attrsOf(ver))) > 0
	}
	if attrs {
		list = append(list, versions.WholeChange(path, versions.ReviewAttributes, ver))
	}
	if want.Ref == was.Ref && want.Size == was.Size && want.Target == was.Target {
		return list, nil
	}
	base, now, ok, err := p.applyTexts(ctx, path, &was, &want)
	if err != nil {
		return nil, err
	}
	if !ok {
		return append(list, versions.WholeChange(path, versions.Modified, ver)), nil
	}
	return append(list, versions.HunksOf(path, base, now)...), nil
}

// applyTexts reads what a file was and is; false if it is not for taking apart.
func (p *applying) applyTexts(ctx context.Context, path string, was, want *hosttree.Entry) (base, now []byte, ok bool, err error) {
	if !mergeable(path, was, want) {
		return nil, nil, false, nil
	}
	if base, ok, err = p.d.text(ctx, was); err != nil || !ok {
		return nil, nil, false, err
	}
	if now, ok, err = p.d.text(ctx, want); err != nil || !ok {
		return nil, nil, false, err
	}
	return base, now, !diff.Binary(base) && !diff.Binary(now), nil
}

// took says how much of a path was asked for, beside --only.
func (h *applyHunks) took(path string) (some, all bool) {
	all = true
	for _, i := range h.of[path] {
		some, all = some || h.chosen[i], all && h.chosen[i]
	}
	return some, all && some
}

// ids are those of what was asked for.
func (h *applyHunks) ids() []string {
	var out []string
	if h != nil {
		for i := range h.list {
			if h.chosen[i] {
				out = append(out, h.list[i].ID)
			}
		}
	}
	return out
}

// part makes a step of some of what the workspace changed in a file. What it was counts as what both had as before: the rest is still to come.
func (p *applying) part(ctx context.Context, path string) error {
	s := step{path: path, part: true}
	var err error
	if s.want, s.ver, err = stateAt(ctx, p.view, path); err != nil {
		return err
	}
	if s.base, err = p.was(ctx, path); err != nil {
		return err
	}
	if s.host, err = p.tree.Look(path); err != nil && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	if s.ver.Nlink > 1 {
		p.conflict(path, "it has several names: take all of its changes, or none")
		return nil
	}
	if !mergeable(path, &s.base, &s.want, &s.host) {
		p.conflict(path, changedToo)
		return nil
	}
	base, now, ok, err := p.applyTexts(ctx, path, &s.base, &s.want)
	if err != nil {
		return err
	}
	if !ok { // attributes without a content that is no text
		p.conflict(path, "its content is no text that a part could be taken of: take all of its changes, or none")
		return nil
	}
	if s.ours, err = hostText(p.tree, path); err != nil {
		return err
	}
	var some []versions.Change
	mode := s.base.Mode
	for _, i := range p.hunks.of[path] {
		switch c := &p.hunks.list[i]; {
		case !p.hunks.chosen[i]:
		case c.What == versions.ReviewAttributes:
			mode = s.want.Mode
			if err := p.partAttrs(ctx, &s); err != nil {
				return err
			}
		default:
			some = append(some, *c)
		}
	}
	mode, ok = mergeMode(s.base.Mode, s.host.Mode, mode)
	if ok {
		s.merged, ok = mergeTexts(base, s.ours, versions.TakeHunks(base, now, some))
	}
	if !ok {
		p.conflict(path, changedToo)
		return nil
	}
	s.isMerged, s.foreign = true, !bytes.Equal(s.ours, base)
	s.put = hosttree.Entry{Mode: mode, Size: int64(len(s.merged))}
	if s.mode = bytes.Equal(s.merged, s.ours); !s.mode || mode != s.host.Mode || len(s.attrs) > 0 {
		p.steps = append(p.steps, s)
	}
	return nil
}

// partAttrs adds the extended attributes to a part.
func (p *applying) partAttrs(ctx context.Context, s *step) error {
	was, err := p.wasAttrs(ctx, s.path)
	if err != nil {
		return err
	}
	want := attrsOf(s.ver)
	able, clash := false, ""
	if s.hostAttrs, able, err = p.tree.Xattrs(s.path); err != nil {
		return err
	}
	changed := changedAttrs(was, want)
	if !able {
		was = nil
	}
	if s.attrs, clash = missingAttrs(changed, was, want, s.hostAttrs); clash != "" {
		p.conflict(s.path, fmt.Sprintf("its extended attribute %s was changed there too", clash))
	}
	return nil
}
