package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// amendFor is how long the version that a close or fsync of a still open file made may be replaced by the same
// handle's next one. A loop of small appends through one descriptor is one version; a log that grows for hours has
// one every five seconds at most.
const amendFor = 5 * time.Second

// draft is a version that its handle may still amend: nobody has seen history between it and the amendment, since
// every change after it is by the same command and no fork, tag or pin names a point behind it.
type draft struct {
	by *Handle
	id store.VersionID
	at int64
}

// cut makes a version of everything about n that no version has: its birth, its bytes, its times. It returns when the
// version would survive the end of this process. fl.mu is held. A file without names makes none.
func (f *FS) cut(c *Call, n *node, fl *file, by *Handle) error {
	f.mu.Lock()
	if n.stale {
		f.mu.Unlock()
		return f.cutStale(c, n, fl)
	}
	if n.dirtySince == 0 || n.gone {
		f.mu.Unlock()
		return nil
	}
	changed := fl.changed
	f.mu.Unlock()
	return f.cutAs(c, n, fl, by, changed)
}

// cutLate makes the version that merges what could not be merged when it was written, if there is anything. The gate was passed: it
// is no part of what was written before. fl.mu is held.
func (f *FS) cutLate(c *Call, n *node, fl *file) error {
	f.mu.Lock()
	late := n.dirtySince == 0 && !n.gone && !n.stale && f.merges(n, 1)
	if late {
		fl.who = f.tracks.unmerged[n][0].who
	}
	f.mu.Unlock()
	if !late {
		return f.cut(c, n, fl, nil)
	}
	return f.cutAs(c, n, fl, nil, false)
}

// cutAs is cut once it is known that there is something to do. changed: there are other bytes.
func (f *FS) cutAs(c *Call, n *node, fl *file, by *Handle, changed bool) error {

	var parts []blob.Staged
	content, holes := fl.committed, fl.committedHoles
	if changed {
		var err error
		if fl.size <= blob.MaxBlob { // what is larger asks when it is packed
			err = f.st.Room(fl.size, c.yield)
		}
		if err == nil {
			err = f.unpatch(c, n, fl)
		}
		if err == nil {
			parts, err = fl.stage(f, c, true)
		}
		if err != nil {
			return fmt.Errorf("make a version of %q: %w", f.label(n), err)
		}
		content = contentOf(parts)
		if holes, err = fl.countHoles(f, content); err != nil {
			f.blobs.Applied(parts)
			return fmt.Errorf("make a version of %q: %w", f.label(n), err)
		}
	}
	var m *met
	knows := false
	if changed {
		var err error
		if m, knows, err = f.meetsCut(c, n, fl, by, content); err != nil {
			f.blobs.Applied(parts)
			return fmt.Errorf("make a version of %q: %w", f.label(n), err)
		}
		if m != nil && m.policy == PolicyReject && !n.fresh {
			return f.refuse(c, n, fl, m, content, parts)
		}
	}
	wrote, j := content, f.joinCut(c, n, fl, m, content)
	if j != nil {
		content = j.content
	}
	f.mu.Lock()
	if n.gone || j == nil && n.dirtySince == 0 { // unlinked while its bytes were packed; or there is nothing to merge
		f.mu.Unlock()
		f.blobs.Applied(parts)
		if j != nil {
			f.blobs.Applied(j.parts)
		}
		return nil
	}
	ch := f.cutChange(c, n, fl, by, content, j)
	ch.receipt, ch.made = fl.naming, n.id
	v := ch.version(n)
	v.Content, v.Size, v.Holes = content.Ref, content.Size, holes
	v.Mtime, v.Ctime = n.v.Mtime, n.v.Ctime
	if ch.op.Kind == store.OpSetattr && j == nil {
		f.blobs.Applied(parts)
		parts = nil
	} else {
		ch.op.Contents = parts
	}
	ch.mixed = changed && !knows
	f.clashes(ch, m, n, fl.who, wrote, j)
	if j != nil {
		j.puts(ch, v)
		parts = ch.op.Contents
	}
	since := n.dirtySince
	n.dirtySince = 0
	forget := f.keepPatch(n, ch.op.Contents)
	mixed := j != nil && j.mixed
	if mixed {
		ch.apart, ch.wrote = fl.by, wrote
	}
	slot, err := ch.commit()
	if err != nil {
		forget()
		n.dirtySince = since
		f.mu.Unlock()
		f.blobs.Applied(parts)
		return fmt.Errorf("make a version of %q: %w", f.label(n), err)
	}
	if j == nil && knows && fl.who.Session != nil {
		f.sees(n.ino, fl.who.Session, n.v.ID, content)
	}
	if !ch.op.Amend {
		n.draft = draft{by: by, id: n.v.ID, at: ch.now}
	}
	delete(f.dirty, n)
	if j != nil {
		f.joined(n, j, fl.who, true)
	}
	if mixed {
		fl.becomes(content, wrote)
	} else {
		fl.committed, fl.committedHoles, fl.changed, fl.written = content, holes, false, false
		fl.base, fl.limit, fl.valid, fl.validBytes = content, content.Size, nil, 0
	}
	f.mu.Unlock()
	if fl.spill != nil {
		fl.drop() // the next write starts a fresh one; kept pages would only use disk
	}
	err = f.finish(c, slot, nil)
	f.noteClean(n, fl, err)
	return err
}

// cutChange starts the op of a cut: a birth, an amendment, new bytes, or only new times. What is merged amends nothing. FS.mu is held.
func (f *FS) cutChange(c *Call, n *node, fl *file, by *Handle, content blob.Content, j *joint) *change {
	who := fl.who
	if n.fresh {
		p := f.nodeOf(n.parent)
		ch := f.begin(c, store.OpCreate, who)
		ch.version(n)
		ch.version(p)
		ch.bind(p, n.name, n)
		ch.item(store.OpCreate, n, p, n.name)
		p.dir.fresh--
		return ch
	}
	kind := store.OpWrite
	if content == fl.committed {
		kind = store.OpSetattr
	}
	ch := f.begin(c, kind, who)
	d := n.draft
	if j == nil && by != nil && d.by == by && d.id == n.v.ID && sameCommand(who.Command, f.run.command) && n.v.Seq >= f.run.from &&
		n.v.Seq > f.pinned && ch.now-d.at <= int64(amendFor) {
		ch.op.Kind, ch.op.Amend, ch.op.Seq = store.OpWrite, true, n.v.Seq
		v := ch.version(n)
		v.ID, v.Parent, v.Replaced, v.Merge = n.v.ID, n.v.Parent, n.v.Replaced, n.v.Merge
		return ch
	}
	ch.item(kind, n, nil, "")
	return ch
}

// stage stores the bytes and returns what the op has to carry; the last part is the content, none means empty. later: it
// may be a provisional one.
func (fl *file) stage(f *FS, c *Call, later bool) ([]blob.Staged, error) {
	if fl.size == 0 {
		return nil, nil
	}
	if fl.inMem && fl.size <= blob.MaxBlob {
		return []blob.Staged{f.blobs.StageSmall(slices.Clone(fl.mem[:fl.size]))}, nil
	}
	c.yield()
	ctx := context.Background()
	var parts []blob.Staged
	base := fl.base
	if fl.limit < base.Size {
		base = blob.Content{}
		if fl.limit > 0 {
			// The file was cut and has grown since: what was cut off must not show through.
			st, _, err := f.blobs.Edit(ctx, fl.base, fl.limit, nil, bytes.NewReader(nil))
			if err != nil {
				return nil, err
			}
			parts, base = append(parts, st), st.Content
		}
	}
	var src io.ReaderAt = zeroTail{fl.spill}
	if fl.inMem {
		src = bytes.NewReader(fl.mem)
	} else if fl.spill == nil {
		src = bytes.NewReader(nil)
	}
	if later && fl.scattered() {
		if st, ok, err := f.blobs.StagePatch(ctx, base, fl.size, fl.valid, src); ok || err != nil {
			return []blob.Staged{st}, err
		}
	}
	edit := f.blobs.Edit
	if fl.ahead != nil {
		edit = fl.ahead.Edit
		fl.ahead, fl.aheadEnd = nil, 0
	}
	st, _, err := edit(ctx, base, fl.size, fl.valid, src)
	if err != nil {
		f.blobs.Applied(parts)
		return nil, err
	}
	return append(parts, st), nil
}

// zeroTail reads a scratch file that may be shorter than its valid extents: the rest is zeros.
type zeroTail struct{ f *os.File }

func (z zeroTail) ReadAt(p []byte, off int64) (int, error) { return len(p), readFull(z.f, p, off) }

// ZeroRun: however much was never written, or punched, an edit does not read it.
func (z zeroTail) ZeroRun(off int64) int64 { return zeroRun(z.f, off) }

// settle makes what was written to a node and not yet closed a version, before its name or link count changes.
func (f *FS) settle(c *Call, id store.Ino) error {
	f.mu.Lock()
	n, fl := f.known(id), (*file)(nil)
	if n != nil && n.dirtySince != 0 && (!n.gone || n.stale) {
		fl = n.file
	}
	f.mu.Unlock()
	if fl == nil {
		return nil
	}
	fl.lock(c)
	defer fl.mu.Unlock()
	return f.cut(c, n, fl, nil)
}

// settleName is settle for what name leads to; a name that does not exist is the caller's to report.
func (f *FS) settleName(c *Call, parent store.Ino, name string) error {
	f.mu.Lock()
	n, err := f.child(c, parent, name)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.settle(c, n.id)
}

// cutDirty makes versions of the dirty files that want it and returns every error joined; the rest is still done.
func (f *FS) cutDirty(want func(*node) bool) error {
	f.mu.Lock()
	type dirtyFile struct {
		n  *node
		fl *file
		by *Handle
	}
	var list []dirtyFile
	for n := range f.dirty {
		if n.file != nil && want(n) {
			list = append(list, dirtyFile{n, n.file, n.file.by})
		}
	}
	f.mu.Unlock()
	var errs []error
	for _, d := range list {
		d.fl.mu.Lock()
		if err := f.cut(nil, d.n, d.fl, d.by); err != nil {
			errs = append(errs, err)
		}
		f.mu.Lock()
		f.leaveFile(d.n, d.fl)
		f.mu.Unlock()
		d.fl.mu.Unlock()
	}
	return errors.Join(errs...)
}
