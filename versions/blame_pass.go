package versions

import (
	"bytes"
	"context"

	"wsfs/internal/diff"
	"wsfs/store"
)

// recentText is the text read last but one and last: going back, the older of a pair is the newer of the next.
type recentText struct {
	ids   [2]store.VersionID
	texts [2][]byte
}

func (b *blamer) text(ctx context.Context, v *store.Version) ([]byte, error) {
	r := &b.recent
	for i, id := range r.ids {
		if id == v.ID {
			return r.texts[i], nil
		}
	}
	text, err := contentOf(ctx, b.st, v)
	if err == nil {
		r.ids = [2]store.VersionID{v.ID, r.ids[0]}
		r.texts = [2][]byte{text, r.texts[0]}
	}
	return text, err
}

// pass splits lines of the version v into those that old has too, with their places there, and the rest.
func (b *blamer) pass(ctx context.Context, old, v *store.Version, refs []lineRef) (handed, kept []lineRef, err error) {
	switch {
	case old.Type() != v.Type() || old.Size == 0:
		return nil, refs, nil
	case old.Content == v.Content:
		return refs, nil, nil
	}
	is, err := b.text(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	was, err := b.text(ctx, old)
	if err != nil {
		return nil, nil, err
	}
	handed, kept = passLines(was, is, refs)
	return handed, kept, nil
}

// passLines pairs lines of the newer text with those of the older one. Ends that agree are not compared line by line:
// most edits are small.
func passLines(was, is []byte, refs []lineRef) (handed, kept []lineRef) {
	head := commonHead(was, is)
	tail := commonTail(was[head:], is[head:])
	first := int32(bytes.Count(is[:head], []byte{'\n'}))
	x, y := was[head:len(was)-tail], is[head:len(is)-tail]
	changes := diff.Diff(x, y)
	handed = make([]lineRef, 0, len(refs))
	shift := int32(0) // of the older text's line numbers against the newer one's
	next := 0
	for _, ref := range refs {
		for next < len(changes) && ref.at >= first+int32(changes[next].B+changes[next].BLen) {
			shift += int32(changes[next].ALen - changes[next].BLen)
			next++
		}
		if next < len(changes) && ref.at >= first+int32(changes[next].B) {
			kept = append(kept, ref)
			continue
		}
		handed = append(handed, lineRef{ref.at + shift, ref.final})
	}
	return handed, kept
}

// commonHead is how many bytes both texts begin with, in whole lines.
func commonHead(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for step := 4096; step > 0; step /= 4 {
		for i+step <= n && bytes.Equal(a[i:i+step], b[i:i+step]) {
			i += step
		}
	}
	return bytes.LastIndexByte(a[:i], '\n') + 1
}

// commonTail is how many bytes both texts end with, in whole lines.
func commonTail(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for step := 4096; step > 0; step /= 4 {
		for i+step <= n && bytes.Equal(a[len(a)-i-step:len(a)-i], b[len(b)-i-step:len(b)-i]) {
			i += step
		}
	}
	at := bytes.IndexByte(a[len(a)-i:], '\n')
	if at < 0 {
		return 0
	}
	return i - at - 1
}
