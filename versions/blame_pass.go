package versions

import (
	"bytes"
	"context"
	"sort"
	"syscall"

	"wsfs/internal/diff"
	"wsfs/store"
)

// recentText is the texts read last, newest first: going back, the older of a pair is the newer of the next.
type recentText struct {
	ids   [3]store.VersionID
	texts [3][]byte
	kept  store.VersionID // the result's, which goes on to be used
}

// text is the bytes of v; they are good until the text after the next one is read.
func (b *blamer) text(ctx context.Context, v *store.Version) ([]byte, error) {
	r := &b.recent
	for i, id := range r.ids {
		if id == v.ID { // to the front: what is used now must not be overwritten by the next
			text := r.texts[i]
			copy(r.ids[1:i+1], r.ids[:i])
			copy(r.texts[1:i+1], r.texts[:i])
			r.ids[0], r.texts[0] = id, text
			return text, nil
		}
	}
	if v.Type() != syscall.S_IFREG || v.Size == 0 {
		return contentOf(ctx, b.st, v)
	}
	if v.Size > MaxPatch {
		return nil, syscall.EFBIG
	}
	if r.ids[2] != 0 && r.ids[2] != r.kept {
		b.ahead.free(r.texts[2])
	}
	r.ids[2], r.texts[2] = 0, nil
	text, err := b.ahead.text(ctx, v)
	if err == nil {
		r.ids = [3]store.VersionID{v.ID, r.ids[0], r.ids[1]}
		r.texts = [3][]byte{text, r.texts[0], r.texts[1]}
	}
	return text, err
}

// pass splits lines of the version v into those that old has too, with their places there, and the rest. Without an error, refs is used up.
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

// passLines pairs lines of the newer text with those of the older one. refs becomes handed: most versions take few of many lines.
func passLines(was, is []byte, refs []lineRef) (handed, kept []lineRef) {
	shift := int32(0) // of the older text's line numbers against the newer one's
	handed = refs[:0]
	hand := func(list []lineRef) {
		n := len(handed)
		if handed = handed[:n+len(list)]; len(list) > 0 && &handed[n] != &list[0] {
			copy(handed[n:], list)
		}
		for i := n; i < len(handed) && shift != 0; i++ {
			handed[i].at += shift
		}
	}
	for _, c := range lineChanges(was, is) {
		n := refsBefore(refs, c.B)
		hand(refs[:n])
		refs = refs[n:]
		n = refsBefore(refs, c.B+c.BLen)
		kept = append(kept, refs[:n]...)
		refs = refs[n:]
		shift += int32(c.ALen - c.BLen)
	}
	hand(refs)
	return handed, kept
}

// refsBefore is how many of refs are before a line.
func refsBefore(refs []lineRef, line int) int {
	return sort.Search(len(refs), func(i int) bool { return int(refs[i].at) >= line })
}

// A small edit is found without looking at every line: where the texts stop to agree, a place is sought within
// anchorReach lines from where they agree again for anchorLines lines or anchorBytes bytes.
const (
	anchorReach = 24
	anchorLines = 16
	anchorBytes = 4096
)

// lineChanges is diff.Diff for versions of one text, which mostly differ in a few small places: it compares bytes from
// one such place to the next, and line by line only there. Where that does not lead on, the rest is compared by lines.
func lineChanges(was, is []byte) []diff.Change {
	var list []diff.Change
	a, b := 0, 0 // lines so far
	add := func(x, y []byte) {
		for _, c := range diff.Diff(x, y) {
			c.A, c.B = c.A+a, c.B+b
			list = append(list, c)
		}
	}
	for {
		head := commonHead(was, is)
		n := bytes.Count(was[:head], []byte{'\n'})
		a, b, was, is = a+n, b+n, was[head:], is[head:]
		if len(was) == 0 && len(is) == 0 {
			return list
		}
		x, y, ok := anchor(was, is)
		if !ok {
			add(was, is)
			return list
		}
		add(was[:x.off], is[:y.off])
		a, b, was, is = a+x.line, b+y.line, was[x.off:], is[y.off:]
	}
}

// spot is the start of a line.
type spot struct{ line, off int }

// anchor finds the nearest place from where two texts agree again.
func anchor(a, b []byte) (x, y spot, ok bool) {
	p, q := spots(a), spots(b)
	for sum := 1; sum < len(p)+len(q)-1; sum++ {
		for i := max(0, sum-len(q)+1); i <= min(sum, len(p)-1); i++ {
			x, y := p[i], q[sum-i]
			if agree(a[x.off:], b[y.off:]) {
				return x, y, true
			}
		}
	}
	return spot{}, spot{}, false
}

// spots is where the first lines of a text start, and its end if that is near.
func spots(text []byte) []spot {
	list := make([]spot, 1, anchorReach+1)
	for off := 0; off < len(text) && len(list) <= anchorReach; {
		n := bytes.IndexByte(text[off:], '\n') + 1
		if n == 0 {
			n = len(text) - off
		}
		off += n
		list = append(list, spot{len(list), off})
	}
	return list
}

// agree reports whether two texts begin with enough equal lines.
func agree(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	if a[0] != b[0] {
		return false
	}
	whole := len(a) <= anchorBytes && len(a) == len(b)
	a, b = a[:min(len(a), anchorBytes)], b[:min(len(b), anchorBytes)]
	if whole && bytes.Equal(a, b) {
		return true
	}
	head := commonHead(a, b)
	return head > anchorBytes/2 || bytes.Count(a[:head], []byte{'\n'}) >= anchorLines
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
