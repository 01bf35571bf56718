package versions

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"wsfs/internal/diff"
	"wsfs/store"
)

// states works out what becomes of the entities themselves: contents, modes, owners, times, extended attributes.
func (m *merge) states(ctx context.Context) error {
	for _, e := range m.list {
		if len(e.want) == 0 || e.t == nil || !e.chosen {
			continue
		}
		if e.o == nil {
			e.revive(m)
			continue
		}
		if e.b != nil && sameVersion(e.b, e.t) {
			// Time stamps mean something (a stamp file of make), but those of a merge; they are never worth a conflict.
			if e.t.Merge == 0 && e.t.Mtime != e.b.Mtime && e.o.Mtime == e.b.Mtime && sameVersion(e.b, e.o) && !e.t.IsDir() {
				f := &fused{v: *e.o}
				f.v.Replaced, f.v.Merge, f.v.Mtime = 0, 0, e.t.Mtime
				m.put(e, f, false)
			}
			continue
		}
		if err := m.fuse(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// revive makes an entity that ours does not have.
func (e *entity) revive(m *merge) {
	f := &fused{v: *e.t}
	f.v.Ino, f.v.Nlink, f.v.Replaced, f.v.Merge = m.inoHere(e.id), 0, 0, 0
	if old := m.ours.dead[f.v.Ino]; old != nil && old.ID != e.t.ID {
		f.v.ID, f.v.Merge = old.ID, e.t.ID
	}
	if f.v.Mtime == 0 {
		f.v.Mtime = 1 // 0 means now
	}
	if e.part != nil && e.part.text != nil {
		f.setText(e.part.text)
	}
	m.put(e, f, false)
}

// put takes a state into the plan. Where bytes come to a file that programs may have built from, its time is now.
func (m *merge) put(e *entity, f *fused, both bool) {
	if f.text != nil {
		m.plan.texts[f.v.Ino] = f.text
	}
	m.plan.Versions = append(m.plan.Versions, f.v)
	e.state, e.both = f, both
}

// fuse brings their change of an entity to ours.
func (m *merge) fuse(ctx context.Context, e *entity) error {
	f := &fused{v: *e.o}
	v, t, prefer := &f.v, e.t, m.sel.Prefer == PreferTheirs
	v.Replaced, v.Merge = 0, 0
	b := e.b
	if b == nil { // both made it
		if sameVersion(e.o, t) || e.isDir() {
			return nil
		}
		b = &store.Version{Mode: v.Type()}
		if v.Mode == t.Mode {
			b.Mode = v.Mode
		}
		if v.Content == t.Content {
			b.Content, b.Size = v.Content, v.Size
		}
		b.UID, b.GID = v.UID, v.GID
	}
	clash := ""
	take := func(what string, same bool, unchanged, oursOnly bool, set func()) {
		switch {
		case same || oursOnly:
		case unchanged || prefer:
			set()
		default:
			clash = what
		}
	}
	take("permissions", v.Mode == t.Mode, v.Mode == b.Mode, t.Mode == b.Mode, func() { v.Mode = v.Mode&^0o7777 | t.Mode&0o7777 })
	take("owner", v.UID == t.UID, v.UID == b.UID, t.UID == b.UID, func() { v.UID = t.UID })
	take("group", v.GID == t.GID, v.GID == b.GID, t.GID == b.GID, func() { v.GID = t.GID })
	take("device number", v.Rdev == t.Rdev, v.Rdev == b.Rdev, t.Rdev == b.Rdev, func() { v.Rdev = t.Rdev })
	take("target", v.Target == t.Target, v.Target == b.Target, t.Target == b.Target, func() { v.Target, v.Size = t.Target, t.Size })
	xattrs, bad := mergeXattrs(v.Xattrs, b.Xattrs, t.Xattrs, prefer)
	if v.Xattrs = xattrs; bad != "" {
		clash = "extended attribute " + bad
	}
	if clash != "" && m.sel.Prefer == PreferNone {
		why := ConflictAttr
		if e.b == nil {
			why = ConflictAdd
		}
		if err := m.conflict(ctx, e, why, "its "+clash+" was changed on both sides"); err != nil {
			return err
		}
	}
	both := false
	if v.Type() == fileType {
		var err error
		if both, err = m.fuseContent(ctx, e, f, b); err != nil {
			return err
		}
	}
	if sameVersion(v, e.o) && f.text == nil {
		return nil
	}
	v.Merge = t.ID
	switch {
	case f.text != nil || v.Content != e.o.Content:
		v.Mtime = 0 // now
	case v.Mtime == b.Mtime && t.Mtime != 0:
		v.Mtime = t.Mtime
	}
	m.put(e, f, both)
	return nil
}

func mergeXattrs(ours, base, theirs map[string][]byte, prefer bool) (out map[string][]byte, clash string) {
	if maps.EqualFunc(base, theirs, bytes.Equal) || maps.EqualFunc(ours, theirs, bytes.Equal) {
		return ours, ""
	}
	same := func(x, y map[string][]byte, k string) bool {
		p, inX := x[k]
		q, inY := y[k]
		return inX == inY && bytes.Equal(p, q)
	}
	out = maps.Clone(ours)
	if out == nil {
		out = map[string][]byte{}
	}
	keys := slices.Sorted(maps.Keys(theirs))
	for k := range base {
		if _, ok := theirs[k]; !ok {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		switch {
		case same(base, theirs, k) || same(ours, theirs, k):
		case !same(ours, base, k) && !prefer:
			clash = k
		default:
			if val, ok := theirs[k]; ok {
				out[k] = val
			} else {
				delete(out, k)
			}
		}
	}
	if len(out) == 0 {
		out = nil
	}
	return out, clash
}

// fuseContent merges contents; both says that what comes out is neither side's alone.
func (m *merge) fuseContent(ctx context.Context, e *entity, f *fused, b *store.Version) (both bool, err error) {
	v, t := &f.v, e.t
	whole := func() {
		if v.Content, v.Size, v.Holes = t.Content, t.Size, t.Holes; e.part != nil && e.part.text != nil {
			f.setText(e.part.text)
		}
	}
	partly := e.part != nil && e.part.text != nil
	switch {
	case t.Content == b.Content || t.Content == v.Content:
		return false, nil
	case v.Content == b.Content && e.b != nil && !partly:
		whole()
		return false, nil
	}
	path, _, err := m.ours.path(ctx, e.id)
	if err != nil {
		return false, err
	}
	give := func(why, detail string, line int) (bool, error) {
		switch m.sel.Prefer {
		case PreferTheirs:
			whole()
			return false, nil
		case PreferOurs:
			return false, nil
		}
		if e.b == nil {
			why, detail = ConflictAdd, "both made a file of that name"
		}
		if err := m.conflict(ctx, e, why, detail); err != nil {
			return false, err
		}
		e.conflicts[len(e.conflicts)-1].Line = line
		return false, nil
	}
	switch {
	case e.b == nil:
		return give(ConflictAdd, "", 0)
	case v.Size > maxMerge || b.Size > maxMerge || t.Size > maxMerge:
		return give(ConflictBinary, fmt.Sprintf("both changed it, and it is larger than %d MiB", maxMerge>>20), 0)
	case inGit(path):
		return give(ConflictEdit, "both changed it, and files of .git are never merged", 0)
	}
	sides := []*store.Version{b, e.o, t}
	if partly {
		sides[2] = e.part.full
	}
	texts, err := m.texts(ctx, sides...)
	if err != nil {
		return false, fmt.Errorf("merge %q: %w", path, err)
	}
	for _, text := range texts {
		if diff.Binary(text) {
			return give(ConflictBinary, "both changed it, and it is no text", 0)
		}
	}
	parsed := slices.Clone(texts)
	if partly {
		texts[2] = e.part.text
	}
	merged, hunks, ok := diff.Merge3(texts[0], texts[1], texts[2])
	if !ok && m.sel.Prefer == PreferNone {
		line := hunks[0].Ours.Start + 1
		return give(ConflictEdit, fmt.Sprintf("both changed the same lines (line %d here)", line), line)
	}
	if !ok {
		merged = chooseHunks(merged, texts[1], texts[2], hunks, m.sel.Prefer)
	}
	if !diff.StillParses(path, merged, parsed...) {
		return give(ConflictSyntax, "with the lines of both it would not parse any more", 0)
	}
	if bytes.Equal(merged, texts[1]) {
		return false, nil
	}
	if bytes.Equal(merged, texts[2]) {
		whole()
		return false, nil
	}
	if merged == nil {
		merged = []byte{}
	}
	f.setText(merged)
	return true, nil
}

func (m *merge) texts(ctx context.Context, vs ...*store.Version) ([][]byte, error) {
	var out [][]byte
	for _, v := range vs {
		text, err := contentOf(ctx, m.st, v)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// chooseHunks puts one side in the place of each block of a merged text that has both.
func chooseHunks(merged, ours, theirs []byte, hunks []diff.Hunk, prefer Prefer) []byte {
	all, o, t := diff.Lines(merged), diff.Lines(ours), diff.Lines(theirs)
	var out []byte
	at := 0
	add := func(lines [][]byte) {
		for _, l := range lines {
			out = append(out, l...)
		}
	}
	for _, h := range hunks {
		add(all[at:h.Merged.Start])
		if prefer == PreferTheirs {
			add(t[h.Theirs.Start:h.Theirs.End])
		} else {
			add(o[h.Ours.Start:h.Ours.End])
		}
		at = h.Merged.End
	}
	add(all[at:])
	return out
}
