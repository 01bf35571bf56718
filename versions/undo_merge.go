package versions

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"wsfs/blob"
	"wsfs/internal/diff"
	"wsfs/store"
)

// maxMerge is the largest text that is merged line by line.
const maxMerge = 16 << 20

// fused is an inode as a plan leaves it.
type fused struct {
	v     store.Version
	text  []byte // of a content that is in no store yet; v.Content is not valid then
	fresh bool   // bytes came together that were nowhere before, or v.Content is another than now
}

// conflictReason is why something cannot be taken back; "" if it can.
type conflictReason string

// fuse takes the step from theirs to base back in ours: what ours has of base becomes theirs, what somebody changed since
// stays. Contents are merged line by line.
func (p *planner) fuse(ctx context.Context, ours *fused, base *store.Version, to *fused) (conflictReason, error) {
	v, theirs := &ours.v, &to.v
	if base.Type() != v.Type() || theirs.Type() != v.Type() {
		return "something of another type is there now", nil
	}
	why, err := p.fuseContent(ctx, ours, base, to)
	if why != "" || err != nil {
		return why, err
	}
	back := func(o *uint32, b, t uint32) {
		if *o == b {
			*o = t
		}
	}
	back(&v.Mode, base.Mode, theirs.Mode)
	back(&v.UID, base.UID, theirs.UID)
	back(&v.GID, base.GID, theirs.GID)
	back(&v.Rdev, base.Rdev, theirs.Rdev)
	if v.Target == base.Target {
		v.Target = theirs.Target
		if v.Type() != fileType {
			v.Size = theirs.Size
		}
	}
	if exact := p.sel.ExactTimes && ours.text == nil && v.Content == theirs.Content; exact || v.Mtime == base.Mtime {
		v.Mtime = theirs.Mtime
	}
	v.Xattrs = fuseXattrs(v.Xattrs, base.Xattrs, theirs.Xattrs)
	return "", nil
}

func fuseXattrs(ours, base, theirs map[string][]byte) map[string][]byte {
	same := func(a, b map[string][]byte, k string) bool {
		x, inA := a[k]
		y, inB := b[k]
		return inA == inB && bytes.Equal(x, y)
	}
	var out map[string][]byte
	set := func(k string, val []byte) {
		if out == nil {
			out = maps.Clone(ours)
			if out == nil {
				out = map[string][]byte{}
			}
		}
		if val == nil {
			delete(out, k)
		} else {
			out[k] = val
		}
	}
	for k := range base {
		if _, still := theirs[k]; !still && same(ours, base, k) {
			set(k, nil)
		}
	}
	for k, val := range theirs {
		if !same(base, theirs, k) && same(ours, base, k) {
			if val == nil {
				val = []byte{}
			}
			set(k, val)
		}
	}
	if out == nil {
		return ours
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (p *planner) fuseContent(ctx context.Context, ours *fused, base *store.Version, to *fused) (conflictReason, error) {
	v, theirs := &ours.v, &to.v
	switch {
	case v.Type() != fileType, to.text == nil && base.Content == theirs.Content:
		return "", nil
	case ours.text == nil && to.text != nil && v.Content == base.Content:
		ours.setText(to.text)
		return "", nil
	case ours.text == nil && v.Content == base.Content:
		v.Content, v.Size, v.Holes, v.Merge = theirs.Content, theirs.Size, theirs.Holes, theirs.ID
		ours.fresh = true
		return "", nil
	case ours.text == nil && to.text == nil && v.Content == theirs.Content:
		return "", nil
	case v.Size > maxMerge || base.Size > maxMerge || theirs.Size > maxMerge:
		return conflictReason(fmt.Sprintf("it was changed since, and is too large to merge (more than %d MiB)", maxMerge>>20)), nil
	}
	text, err := p.textOf(ctx, ours)
	if err != nil {
		return "", err
	}
	b, err := contentOf(ctx, p.st, base)
	if err != nil {
		return "", err
	}
	t, err := p.textOf(ctx, to)
	if err != nil {
		return "", err
	}
	if diff.Binary(text) || diff.Binary(b) || diff.Binary(t) {
		return "it was changed since, and is no text that could be merged", nil
	}
	merged, hunks, ok := diff.Merge3(b, text, t)
	if !ok {
		h := hunks[0].Ours
		return conflictReason(fmt.Sprintf("the same lines were changed since (line %d)", h.Start+1)), nil
	}
	if bytes.Equal(merged, text) {
		return "", nil
	}
	if merged == nil {
		merged = []byte{}
	}
	ours.setText(merged)
	v.Merge = theirs.ID
	return "", nil
}

// setText gives f a content that is in no store yet.
func (f *fused) setText(text []byte) {
	f.text, f.fresh = text, true
	f.v.Content, f.v.Size, f.v.Holes = blob.Ref{}, int64(len(text)), 0
}

// textOf is the content of an inode as the plan has it.
func (p *planner) textOf(ctx context.Context, f *fused) ([]byte, error) {
	if f.text != nil {
		return f.text, nil
	}
	return contentOf(ctx, p.st, &f.v)
}
