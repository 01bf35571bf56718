package daemon

import (
	"bytes"
	"context"
	"io"
	"maps"

	"golang.org/x/sys/unix"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/internal/hosttree"
	"wsfs/store"
)

// takenMerge is an entry of which the workspace keeps something of its own when the directory's is taken in.
type takenMerge struct {
	*fs.ImportMerge
	mode   uint32            // what the directory has, and the next comparison begins with
	xattrs map[string][]byte // likewise
}

// wasAttrs are the extended attributes of a path when workspace and directory were last equal there.
func (t *taking) wasAttrs(ctx context.Context, p string) (map[string][]byte, error) {
	if t.idx.Moved[p] {
		return t.idx.Xattrs[p], nil
	}
	_, ver, err := stateAt(ctx, t.base, p)
	return attrsOf(ver), err
}

// attrs are the extended attributes that an entry gets: the directory's, and what the workspace changed of them. own
// reports whether it changed any; ok is false if both changed the same one.
func (t *taking) attrs(ctx context.Context, p string, ver *store.Version) (host, all map[string][]byte, own, ok bool, err error) {
	was, err := t.wasAttrs(ctx, p)
	if err != nil {
		return nil, nil, false, false, err
	}
	changed := changedAttrs(was, attrsOf(ver))
	host, able, err := t.tree.Xattrs(p)
	if err != nil {
		return nil, nil, false, false, err
	}
	if !able { // that it has none says nothing
		return nil, attrsOf(ver), len(attrsOf(ver)) > 0, true, nil
	}
	set, clash := missingAttrs(changed, was, attrsOf(ver), host)
	return host, overlay(host, set), len(changed) > 0, clash == "", nil
}

// keepAttrs lets an entry that is taken in keep the extended attributes that the workspace gave it; false if it cannot.
func (t *taking) keepAttrs(ctx context.Context, p string, now *hosttree.Entry, ver *store.Version) (bool, error) {
	if ver == nil || !hasAttrs(now) || ver.Type() != now.Type() {
		return true, nil
	}
	host, all, own, ok, err := t.attrs(ctx, p, ver)
	if err != nil || !ok || !own {
		return ok, err
	}
	m := &fs.ImportMerge{Have: blob.Content{Ref: ver.Content, Size: ver.Size}, Mode: now.Mode, Xattrs: all}
	t.merges[p] = &takenMerge{m, now.Mode, host}
	return true, nil
}

// merge takes in a text that the workspace changed in other lines; false if it cannot.
func (t *taking) merge(ctx context.Context, p string, base, have, now *hosttree.Entry, ver *store.Version) (bool, error) {
	if ver == nil || ver.Nlink > 1 || !mergeable(p, base, have, now) {
		return false, nil
	}
	mode, ok := mergeMode(base.Mode, have.Mode, now.Mode)
	if !ok {
		return false, nil
	}
	was, ok, err := t.d.text(ctx, base)
	if err != nil || !ok {
		return false, err
	}
	ours, ok, err := t.d.text(ctx, have)
	if err != nil || !ok {
		return false, err
	}
	theirs, ok, err := t.onlyName(p)
	if err != nil || !ok {
		return false, err
	}
	merged, ok := mergeTexts(was, ours, theirs)
	if !ok {
		return false, nil
	}
	host, all, _, ok, err := t.attrs(ctx, p, ver)
	if err != nil || !ok {
		return false, err
	}
	if bytes.Equal(merged, ours) && mode == have.Mode && maps.EqualFunc(all, attrsOf(ver), bytes.Equal) {
		return true, nil // it has all of it
	}
	m := &fs.ImportMerge{
		Have: blob.Content{Ref: ver.Content, Size: ver.Size}, Mode: mode, Xattrs: all, Max: maxApplyMerge,
		Text: func(b []byte) ([]byte, bool) { return mergeTexts(was, ours, b) },
	}
	t.merges[p] = &takenMerge{m, now.Mode, host}
	t.only[p] = true
	if len(t.out.Merged) < maxListed {
		t.out.Merged = append(t.out.Merged, Path(p))
	}
	return true, nil
}

// onlyName reads a file of the directory that has one name and is small enough to be merged.
func (t *taking) onlyName(p string) ([]byte, bool, error) {
	f, err := t.tree.Open(p)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Nlink > 1 {
		return nil, false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxApplyMerge+1))
	return b, err == nil && len(b) <= maxApplyMerge, err
}
