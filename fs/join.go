package fs

import (
	"bytes"
	"context"
	"slices"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// A stale save of a text becomes one version that has both sides: what was written and what was met are merged before the save is
// committed, so nobody reads the one without the other, and a kill leaves all of it or nothing. The op brings what was written, too: its
// conflict, which is resolved from the start, names it.
//
// Who has the file open goes on at the places that he knows. So what is open for writing more than once is merged when the last
// but one is closed (conflict.go), and the one handle there is goes on from what it wrote, should it write again (goesOn).

// maxJoins is how often a rename merges anew because somebody was faster. After that it leaves an open conflict.
const maxJoins = 32

// joint is what a save becomes: what was written, with what others made.
type joint struct {
	content blob.Content
	parts   []blob.Staged      // of content; none if it is what was written
	ended   []store.ConflictID // earlier conflicts that end with it
	met     bool               // what this very save met is in it
	other   store.VersionID    // the other parent
	seen    sight              // what the writer has seen of it
	mixed   bool               // content is not what was written
}

// mergeable reports whether a conflict may end with a merge.
func (m *met) mergeable() bool {
	return m != nil && m.policy == PolicyMerge && m.why == store.WhyStale && m.base.version != 0
}

// unmerged is m as something to be merged. id 0: it is no conflict yet.
func (m *met) unmerged(id store.ConflictID, who store.Attribution) unmerged {
	return unmerged{id: id, base: m.base, head: m.head.Content, met: m.head.Version, path: m.path, who: who}
}

// join merges what was written with what each of a list has, as far as they go together. nil: nothing does, or it cannot be read now;
// then the conflicts are open. file.mu may be held, nothing else.
func (f *FS) join(c *Call, wrote blob.Content, text func(*Call) ([]byte, error), list []unmerged) *joint {
	j, err := f.joinTexts(c, wrote, text, list)
	if err != nil {
		f.log.Error("merge what two sessions wrote; the conflict stays open", "path", list[0].path, "error", err)
		return nil
	}
	return j
}

func (f *FS) joinTexts(c *Call, wrote blob.Content, text func(*Call) ([]byte, error), list []unmerged) (*joint, error) {
	if wrote.Size > mergeMax {
		return nil, nil
	}
	ours, err := text(c)
	if err != nil {
		return nil, err
	}
	now, j := ours, &joint{content: wrote}
	for i := range list {
		u := &list[i]
		if u.base.content.Size > mergeMax || u.head.Size > mergeMax {
			continue
		}
		base, err := f.text(c, u.base.content)
		if err != nil {
			return nil, err
		}
		head, err := f.text(c, u.head)
		if err != nil {
			return nil, err
		}
		merged, ok := MergeText(u.path, base, now, head)
		if !ok {
			continue
		}
		now, j.other = merged, u.met
		j.seen = sight{version: u.base.version, content: wrote}
		if u.id != 0 {
			j.ended = append(j.ended, -u.id)
		} else {
			j.met = true
		}
	}
	if !j.met && len(j.ended) == 0 {
		return nil, nil
	}
	if j.mixed = !bytes.Equal(now, ours); j.mixed {
		if j.parts, err = f.stageText(now); err != nil {
			return nil, err
		}
		j.content = contentOf(j.parts)
	}
	return j, nil
}

// stageText stores a text; none is needed if it is empty.
func (f *FS) stageText(text []byte) ([]blob.Staged, error) {
	switch {
	case len(text) == 0:
		return nil, nil
	case len(text) <= blob.MaxBlob:
		return []blob.Staged{f.blobs.StageSmall(slices.Clone(text))}, nil
	}
	st, _, err := f.blobs.Edit(context.Background(), blob.Content{}, int64(len(text)), extents{{Off: 0, Len: int64(len(text))}}, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return []blob.Staged{st}, nil
}

// joinCut is join for a cut of n, which has content, and of what waits to be merged into it. m is what this cut meets, nil if nobody.
// fl.mu is held.
func (f *FS) joinCut(c *Call, n *node, fl *file, m *met, content blob.Content) *joint {
	if !f.tracks.on.Load() {
		return nil
	}
	f.mu.Lock()
	var list []unmerged
	if fl.writers <= 1 {
		list = slices.Clone(f.tracks.unmerged[n])
		if m.mergeable() {
			list = append(list, m.unmerged(0, fl.who))
		}
	}
	f.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	return f.join(c, content, f.textOf(fl), list)
}

// puts makes it the content of v, which the op brings. FS.mu is held.
func (j *joint) puts(ch *change, v *store.Version) {
	ch.op.Resolves = append(ch.op.Resolves, j.ended...)
	v.Merge = j.other
	if j.mixed {
		v.Content, v.Size, v.Holes, v.Mtime, v.Ctime = j.content.Ref, j.content.Size, 0, ch.now, ch.now
		ch.op.Contents = append(ch.op.Contents, j.parts...)
	}
}

// joined is the end of an op that has it: memory is as the op says. knows: its session has seen what it wrote, which is not so where it
// moved what others wrote. FS.mu is held, and the content lock of n if it has one.
func (f *FS) joined(n *node, j *joint, who store.Attribution, knows bool) {
	list := slices.DeleteFunc(f.tracks.unmerged[n], func(u unmerged) bool { return slices.Contains(j.ended, -u.id) })
	if len(list) == 0 {
		delete(f.tracks.unmerged, n)
	} else {
		f.tracks.unmerged[n] = list
	}
	if knows && who.Session != nil {
		// What it has seen is in no version: one before it counts, should this process end.
		f.sees(n.ino, who.Session, j.seen.version, j.seen.content)
	}
	if j.mixed {
		n.draft = draft{}
		n.mixed = true
		n.untold = f.notifier.push(event{id: n.id}) // the mount that it came by has other pages, too
	}
}

// becomes gives fl a content that it has not written itself. The handle that wrote last goes on from what it wrote. Both locks are held.
func (fl *file) becomes(content, wrote blob.Content) {
	if fl.by != nil {
		fl.by.apart = &wrote
	}
	fl.committed, fl.committedHoles, fl.changed, fl.written = content, 0, false, false
	fl.drop()
	fl.base, fl.limit, fl.size, fl.valid, fl.validBytes = content, content.Size, content.Size, nil, 0
}

// goesOn brings the content to what h wrote last, if it has become more than that since: the writer goes on at the places that
// he knows, and what is missing is merged again when he is done. fl.mu is held.
func (f *FS) goesOn(c *Call, h *Handle, fl *file, who store.Attribution) error {
	if h.apart == nil {
		return nil
	}
	wrote := *h.apart
	text, err := f.text(c, wrote)
	if err != nil {
		return err
	}
	f.mu.Lock()
	dirty, by := h.n.dirtySince != 0 && fl.changed, fl.by
	f.mu.Unlock()
	if dirty && by != h { // what it wrote itself is what it goes on from, not yet merged where a process before this one ended
		if err := f.cut(c, h.n, fl, by); err != nil {
			return err
		}
	}
	if err := fl.truncate(f, c, 0); err != nil {
		return err
	}
	if err := fl.write(f, c, text, 0); err != nil {
		return err
	}
	now := f.now().UnixNano()
	if f.ledger != nil && len(text) > 0 { // one note, which has the size, too: no kill leaves a part of it
		h.n.kept = true
		f.ledger.wrote(h, who, now, 0, text, nil)
		f.removeScratch(fl)
	} else {
		f.noteCut(h, fl, who, now, editDirt|editWrote)
	}
	h.rejoins()
	return nil
}

// rejoins ends that the file is more than what h wrote: h goes by what is there. The lock of the content is held.
func (h *Handle) rejoins() {
	if h.apart != nil {
		h.f.ledger.apart(h.key(), nil, 0)
		h.apart = nil
	}
}

// untoldFor is how long an open waits for kernels to hear that a file has become something else.
const untoldFor = time.Second

// hears waits until kernels have heard what became of the content of n behind their back, so that who opens it now reads that. It
// reports whether FS.mu, which is held, was released. Not for requests that hold a directory in the kernel: telling may wait for those.
func (f *FS) hears(c *Call, n *node) (waited bool) {
	if n.untold == 0 {
		return false
	}
	t := n.untold
	n.untold = 0
	if f.notifier.told(t, 0) {
		return false
	}
	f.mu.Unlock()
	c.yield()
	ok := f.notifier.told(t, untoldFor)
	f.mu.Lock()
	if !ok {
		f.log.Warn("a kernel was slow to hear of a merged file", "inode", n.ino)
	}
	return true
}
