package versions

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"wsfs/internal/diff"
	"wsfs/store"
)

// ReviewAttributes is what a Change says besides Added, Removed, Renamed and Modified: mode, owner, device number, target or extended
// attributes are others.
const ReviewAttributes = "attributes"

// Change is the smallest part of what a workspace changed that can be taken in alone: a hunk of a text, or something that was done to a
// file as a whole.
type Change struct {
	// ID is made of the path in the common point and of what is changed, with the lines around it there, but of no line number.
	ID        string
	What      string
	Path      string // in the workspace; of what was removed in the common point
	From      string // of what was renamed
	Dir, Git  bool   // Git: it is below .git
	Hunk      bool   // of a text: the rest is set
	OldLine   int    // where it is in the common point, and in the workspace, from 1
	Line      int
	Old, New  [][]byte // lines
	By        []ChangeBy
	Said      *ReviewSaid // nil: nobody has said anything
	e         *entity
	at        diff.Change
	oldV, now *store.Version
}

// Review is what a workspace changed that another state does not come from.
type Review struct {
	At, From, Base Place
	Changes        []Change // by path, then by place
}

// PlanReview finds what led to from and not to at: what a merge would take in. who also finds who did it.
func PlanReview(ctx context.Context, st *store.Store, at, from Place, who bool) (*Review, error) {
	m, err := newMerge(ctx, st, at, from, MergeSelect{})
	if err == nil {
		err = m.meet(ctx)
	}
	if err != nil {
		return nil, err
	}
	list, err := m.changes(ctx)
	if err != nil {
		return nil, err
	}
	if who {
		if err := m.changedBy(ctx, list); err != nil {
			return nil, err
		}
	}
	return &Review{At: at, From: from, Base: m.plan.Base, Changes: list}, nil
}

// changes takes apart what theirs changed.
func (m *merge) changes(ctx context.Context) ([]Change, error) {
	var out []Change
	for _, e := range m.list {
		list, err := m.changesOf(ctx, e)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	slices.SortStableFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

func (m *merge) changesOf(ctx context.Context, e *entity) ([]Change, error) {
	if e.b == nil && e.t == nil {
		return nil, nil
	}
	was, _, err := m.base.path(ctx, e.id)
	if err != nil {
		return nil, err
	}
	is, there, err := m.theirs.path(ctx, e.id)
	if err != nil {
		return nil, err
	}
	path, first := is, was
	if !there {
		path = was
	}
	if e.b == nil {
		first = is
	}
	if path == "" {
		path = "."
	}
	one := func(what string, parts ...any) Change {
		return Change{ID: changeID(first, what, 0, parts...), What: what, Path: path, Dir: e.isDir(), Git: inGit(path), e: e, oldV: e.b, now: e.t}
	}
	switch {
	case e.b == nil:
		return []Change{one(Added, contentParts(e.t)...)}, nil
	case e.t == nil:
		return []Change{one(Removed, contentParts(e.b)...)}, nil
	}
	var list []Change
	if !slices.Equal(e.nb, e.nt) {
		var parts []any
		for _, k := range slices.Concat(e.nb, []store.DirName{{}}, e.nt) {
			parts = append(parts, fmt.Sprint(k.Parent), k.Name)
		}
		c := one(Renamed, parts...)
		c.From = was
		list = append(list, c)
	}
	if !otherwiseSame(e.b, e.t) {
		list = append(list, one(ReviewAttributes, attributeParts(e.t)...))
	}
	if e.t.Type() != fileType || e.t.Content == e.b.Content {
		return list, nil
	}
	base, theirs, ok, err := m.reviewTexts(ctx, e, path)
	if err != nil {
		return nil, err
	}
	if !ok {
		return append(list, one(Modified, contentParts(e.t)...)), nil
	}
	for _, h := range HunksOf(first, base, theirs) {
		c := one(Modified)
		c.ID, c.Hunk, c.at, c.OldLine, c.Line, c.Old, c.New = h.ID, true, h.at, h.OldLine, h.Line, h.Old, h.New
		list = append(list, c)
	}
	return list, nil
}

// HunksOf are the changes that make now of what a text was; path is where it was.
func HunksOf(path string, was, now []byte) []Change {
	var list []Change
	seen := map[string]int{}
	a, b := diff.Lines(was), diff.Lines(now)
	for _, at := range diff.Diff(was, now) {
		old, lines := a[at.A:at.A+at.ALen], b[at.B:at.B+at.BLen]
		parts := []any{a[max(0, at.A-3):at.A], old, lines, a[at.A+at.ALen : min(len(a), at.A+at.ALen+3)]}
		id := changeID(path, Modified, 0, parts...)
		n := seen[id]
		seen[id]++
		if n > 0 {
			id = changeID(path, Modified, n, parts...)
		}
		list = append(list, Change{
			ID: id, What: Modified, Path: path, Git: inGit(path), Hunk: true, at: at, OldLine: at.A + 1, Line: at.B + 1, Old: old, New: lines,
		})
	}
	return list
}

// WholeChange is a change of what is at a path that is no hunk: Added or Modified to v, ReviewAttributes to those of v, or v Removed.
func WholeChange(path, what string, v *store.Version) Change {
	parts := contentParts(v)
	if what == ReviewAttributes {
		parts = attributeParts(v)
	}
	return Change{ID: changeID(path, what, 0, parts...), What: what, Path: path, Dir: v.IsDir(), Git: inGit(path)}
}

// reviewTexts reads the two texts of an entity; ok is false if it is not for merging line by line.
func (m *merge) reviewTexts(ctx context.Context, e *entity, path string) (base, theirs []byte, ok bool, err error) {
	if e.b.Size > maxMerge || e.t.Size > maxMerge || inGit(path) {
		return nil, nil, false, nil
	}
	texts, err := m.texts(ctx, e.b, e.t)
	if err != nil {
		return nil, nil, false, fmt.Errorf("review %q: %w", path, err)
	}
	return texts[0], texts[1], !diff.Binary(texts[0]) && !diff.Binary(texts[1]), nil
}

func otherwiseSame(b, t *store.Version) bool {
	x := *t
	x.Content = b.Content
	return sameVersion(b, &x)
}

func contentParts(v *store.Version) []any {
	return []any{fmt.Sprint(v.Type(), v.Rdev), v.Content[:], v.Target}
}

func attributeParts(v *store.Version) []any {
	parts := []any{fmt.Sprint(v.Mode, v.UID, v.GID, v.Rdev), v.Target}
	for _, k := range slices.Sorted(maps.Keys(v.Xattrs)) {
		parts = append(parts, k, v.Xattrs[k])
	}
	return parts
}

// changeID is short and does not depend on anything but its arguments. n counts what is the same in one file.
func changeID(path, what string, n int, parts ...any) string {
	h := sha256.New()
	add := func(b []byte) {
		h.Write(binary.AppendUvarint(nil, uint64(len(b))))
		h.Write(b)
	}
	add([]byte(path))
	add([]byte(what))
	add(binary.AppendUvarint(nil, uint64(n)))
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			add([]byte(p))
		case []byte:
			add(p)
		case [][]byte:
			add(binary.AppendUvarint(nil, uint64(len(p))))
			for _, line := range p {
				add(line)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:5])
}
