package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"

	"wsfs/blob"
	"wsfs/internal/diff"
	"wsfs/internal/hosttree"
)

// maxApplyMerge is the largest text that is merged with what the other side made of it.
const maxApplyMerge = 1 << 20

// mergeable reports whether three files may be merged line by line. What git keeps for itself is not text, whatever it
// looks like.
func mergeable(path string, entries ...*hosttree.Entry) bool {
	for _, e := range entries {
		if e.Type() != syscall.S_IFREG || e.Size > maxApplyMerge {
			return false
		}
	}
	return !slices.Contains(strings.Split(path, "/"), ".git")
}

// mergeMode merges permissions: what one side changed, or both alike.
func mergeMode(base, ours, theirs uint32) (uint32, bool) {
	switch {
	case theirs == base || theirs == ours:
		return ours, true
	case ours == base:
		return theirs, true
	}
	return 0, false
}

// mergeTexts merges ours and theirs; false if that takes a decision.
func mergeTexts(base, ours, theirs []byte) ([]byte, bool) {
	if diff.Binary(base) || diff.Binary(ours) || diff.Binary(theirs) {
		return nil, false
	}
	merged, _, ok := diff.Merge3(base, ours, theirs)
	return merged, ok
}

// text reads a content; false if it cannot be read any more.
func (d *Daemon) text(ctx context.Context, e *hosttree.Entry) ([]byte, bool, error) {
	if e.Size == 0 {
		return nil, true, nil
	}
	b, err := io.ReadAll(d.st.Blobs().Reader(ctx, blob.Content{Ref: e.Ref, Size: e.Size}))
	if errors.Is(err, blob.ErrCorrupt) {
		return nil, false, nil
	}
	return b, err == nil, err
}

// hostText reads a file of the directory, as far as it is no larger than can be merged.
func hostText(t *hosttree.Tree, path string) ([]byte, error) {
	f, err := t.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxApplyMerge+1))
}

// merge makes a step of a file that was changed on both sides, in different places; false if it cannot.
func (p *applying) merge(ctx context.Context, s *step, was *hosttree.Entry) (bool, error) {
	if !mergeable(s.path, was, &s.want, &s.host) {
		return false, nil
	}
	mode, ok := mergeMode(was.Mode, s.host.Mode, s.want.Mode)
	if !ok {
		return false, nil
	}
	base, ok, err := p.d.text(ctx, was)
	if err != nil || !ok {
		return false, err
	}
	theirs, ok, err := p.d.text(ctx, &s.want)
	if err != nil || !ok {
		return false, err
	}
	ours, err := hostText(p.tree, s.path)
	if err != nil || len(ours) > maxApplyMerge {
		return false, err
	}
	merged, ok := mergeTexts(base, ours, theirs)
	if !ok {
		return false, nil
	}
	s.isMerged, s.merged, s.ours, s.foreign = true, merged, ours, !bytes.Equal(merged, theirs)
	s.put = hosttree.Entry{Mode: mode, Size: int64(len(merged))}
	s.mode = bytes.Equal(merged, ours)
	if s.mode && mode == s.host.Mode && len(s.attrs) == 0 { // it has all of it: an apply was cut short
		p.equal[s.path] = s.want
		return true, nil
	}
	p.steps = append(p.steps, *s)
	return true, nil
}

// stillOurs fails if what a step is going to replace was changed meanwhile: what somebody writes while all is staged would be lost.
func (p *applying) stillOurs(s *step) error {
	if !s.isMerged {
		return p.stillThere(s.path, &s.host)
	}
	same, err := p.tree.SameBytes(s.path, int64(len(s.ours)), bytes.NewReader(s.ours))
	if err == nil && !same {
		err = Fail(ExitFailed, "merge %q: it was changed there just now: %w", s.path, syscall.EAGAIN)
	}
	return err
}

// stillThere fails if a path is not what it was; of a directory it may hold other things.
func (p *applying) stillThere(path string, was *hosttree.Entry) error {
	now, err := p.tree.Look(path)
	if errors.Is(err, syscall.ENOTDIR) {
		now, err = hosttree.Entry{}, nil
	}
	if err != nil {
		return err
	}
	same := now.Type() == was.Type()
	if same && was.Exists() && !was.IsDir() {
		same = now.Ino == was.Ino && now.Mode == was.Mode && now.Size == was.Size && now.Mtime == was.Mtime
	}
	if !same {
		return Fail(ExitFailed, "%q was changed there just now; apply again: %w", path, syscall.EAGAIN)
	}
	return nil
}

// holdsStep reports whether the directory has what a step wants there.
func (p *applying) holdsStep(ctx context.Context, s *step, now *hosttree.Entry) (bool, error) {
	switch {
	case s.keep:
		return now.Type() == s.want.Type(), nil
	case !s.isMerged:
		return p.d.holds(ctx, p.tree, s.path, now, &s.want)
	case now.Mode != s.put.Mode:
		return false, nil
	}
	return p.tree.SameBytes(s.path, s.put.Size, bytes.NewReader(s.merged))
}
