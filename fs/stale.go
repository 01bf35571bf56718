package fs

import (
	"bytes"
	"fmt"
	"io"

	"wsfs/blob"
	"wsfs/store"
)

// mergeMax is the largest content that is merged with another; what is larger replaces it.
const mergeMax = memMax

// cutStale is cut for a node whose inode has become something else since its handle was opened: what was written comes
// from a stale base. It goes to what the inode is now, three-way merged where that is clean, appended where it was only
// appended, and else as the newest content; whatever it replaces is the version before. If the inode is in the tree no
// more, it is an unlinked file like any other. fl.mu is held; the content lock of the newer node is taken inside it, never
// the other way round.
func (f *FS) cutStale(c *Call, n *node, fl *file) error {
	f.mu.Lock()
	now := f.live(c, n)
	if n.dirtySince == 0 || now == nil || !now.isReg() {
		f.mu.Unlock()
		return nil
	}
	if !fl.changed { // only times
		n.dirtySince = 0
		delete(f.dirty, n)
		f.mu.Unlock()
		return nil
	}
	base, lfl := fl.committed, now.content()
	f.mu.Unlock()
	fail := func(err error, parts []blob.Staged) error {
		f.blobs.Applied(parts)
		return fmt.Errorf("make a version of %q, which was replaced while it was open: %w", f.label(n), err)
	}
	if err := f.unpatch(c, n, fl); err != nil {
		return fail(err, nil)
	}
	parts, err := fl.stage(f, c, false)
	if err != nil {
		return fail(err, nil)
	}
	wrote := contentOf(parts)
	lfl.lock(c)
	defer lfl.mu.Unlock()
	if err := f.cut(c, now, lfl, nil); err != nil {
		return fail(err, parts)
	}
	head := lfl.committed
	result, merged, lost, err := f.reconcile(c, now, fl, base, wrote, head)
	if err != nil {
		return fail(err, parts)
	}
	parts = append(parts, merged...)
	holes, err := lfl.countHoles(f, result)
	if err != nil {
		return fail(err, parts)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := f.begin(nil, store.OpWrite, fl.who) // nil: the mount that it came by has other pages, too
	v := ch.version(now)
	v.Content, v.Size, v.Holes, v.Mtime, v.Ctime = result.Ref, result.Size, holes, ch.now, ch.now
	if result != wrote {
		v.Merge = n.v.ID
	}
	ch.item(store.OpWrite, now, nil, "")
	ch.op.Contents = parts
	if lost {
		ch.op.Conflicts = append(ch.op.Conflicts, f.clash(&met{
			why: store.WhyStale, base: sight{version: n.v.ID}, head: store.Past{Version: now.v.ID},
		}, now, wrote))
		now.birth, now.shared = nil, true
	}
	slot, err := ch.commit()
	if err != nil {
		return fail(err, parts)
	}
	lfl.committed, lfl.committedHoles, lfl.changed, lfl.written = result, holes, false, false
	lfl.drop()
	lfl.base, lfl.limit, lfl.size, lfl.valid, lfl.validBytes = result, result.Size, result.Size, nil, 0
	f.leaveFile(now, lfl)
	n.dirtySince, n.slot, n.v.ID = 0, slot, now.v.ID
	delete(f.dirty, n)
	fl.committed, fl.changed, fl.written = wrote, false, false
	fl.base, fl.limit, fl.valid, fl.validBytes = wrote, wrote.Size, nil, 0
	if fl.spill != nil {
		fl.drop()
	}
	f.mu.Unlock()
	err = f.st.Wait(slot)
	f.mu.Lock()
	return err
}

func contentOf(parts []blob.Staged) blob.Content {
	if len(parts) == 0 {
		return blob.Content{}
	}
	return parts[len(parts)-1].Content
}

// reconcile finds the content that keeps both what was written over base, as fl has it, and what the head of n has become
// since. lost: it could not, and what was written is all that is left.
func (f *FS) reconcile(c *Call, n *node, fl *file, base, wrote, head blob.Content) (_ blob.Content, _ []blob.Staged, lost bool, _ error) {
	if head == base || head == wrote || f.inGit(n) {
		return wrote, nil, false, nil
	}
	if base.Size > mergeMax || wrote.Size > mergeMax || head.Size > mergeMax {
		return wrote, nil, true, nil
	}
	var texts [3][]byte
	for i, from := range []blob.Content{base, head, wrote} {
		texts[i] = make([]byte, from.Size)
		var err error
		if from == wrote {
			_, err = fl.readAt(f, c, texts[i], 0)
		} else if from.Size > 0 {
			err = f.readContent(c, from, texts[i], 0)
		}
		if err != nil && err != io.EOF {
			return blob.Content{}, nil, false, err
		}
	}
	was, ours, theirs := texts[0], texts[1], texts[2]
	f.mu.Lock()
	name, _ := f.pathOf(n)
	f.mu.Unlock()
	merged, ok := MergeText(name, was, ours, theirs)
	if tail, appended := bytes.CutPrefix(theirs, was); !ok && appended {
		merged, ok = append(bytes.Clone(ours), tail...), true
	}
	if !ok {
		f.log.Warn("a write replaced what came after it was read; the version before has that", "inode", n.ino)
		return wrote, nil, true, nil
	}
	parts, err := f.stageText(merged)
	return contentOf(parts), parts, false, err
}

// inGit reports whether the node is below a directory .git, whose files mean something together.
func (f *FS) inGit(n *node) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n != nil && n.ino != store.RootIno {
		if n.name == ".git" {
			return true
		}
		n = f.nodeOf(n.parent)
	}
	return false
}
