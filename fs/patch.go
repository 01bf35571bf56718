package fs

import (
	"context"
	"fmt"

	"wsfs/blob"
	"wsfs/store"
)

// Large files with small writes all over them get a provisional content when they are cut: what was written, over what was
// there (blob.StagePatch). Working out the tree while fsync waits would read and store most of the file. The applier does
// that before it writes the row; until then, and until nodes have learned of it, memory and the journal name the
// provisional content. The database never does.
const (
	// patchFrom is how much of a file Edit would have to read and cut for it to be put off.
	patchFrom = 8 << 20
	// patchRatio is how many times as much that has to be as what was written.
	patchRatio = 4
	patchBlock = 64 << 10 // about what one small write makes Edit read
)

// scattered reports whether what was written is little and all over the file. Only for contents without holes: those
// would have to be counted. mu is held.
func (fl *file) scattered() bool {
	if fl.spill == nil || fl.punched || fl.committedHoles != 0 || fl.base.Size <= blob.MaxBlob || fl.limit != fl.base.Size ||
		fl.size < fl.base.Size || fl.validBytes < fl.size-fl.limit {
		return false
	}
	var touched, last int64
	last = -1
	for _, e := range fl.valid {
		from, to := max(e.Off/patchBlock, last+1), (end(e)-1)/patchBlock
		touched += max(0, to-from+1) * patchBlock
		last = max(last, to)
	}
	return touched >= patchFrom && touched >= patchRatio*fl.validBytes
}

// unpatch makes sure that the base of fl is no provisional content: nothing is written over one. fl.mu is held.
func (f *FS) unpatch(c *Call, n *node, fl *file) error {
	f.mu.Lock()
	st, ok := f.unsettled[n]
	f.mu.Unlock()
	if !ok {
		return nil
	}
	c.yield()
	if _, err := f.blobs.Unpatched(context.Background(), st.Content); err != nil {
		return fmt.Errorf("put %q together: %w", f.label(n), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.learn(n)
	return nil
}

// keepPatch remembers that n is about to get a provisional content. FS.mu is held.
func (f *FS) keepPatch(n *node, parts []blob.Staged) (forget func()) {
	if len(parts) == 0 || !parts[len(parts)-1].Patch {
		return func() {}
	}
	st := parts[len(parts)-1].Again()
	f.blobs.Restage(st)
	f.unsettled[n] = st
	return func() { f.forgetPatch(n) }
}

// forgetPatch ends what keepPatch began. FS.mu is held.
func (f *FS) forgetPatch(n *node) {
	if st, ok := f.unsettled[n]; ok {
		delete(f.unsettled, n)
		f.blobs.Applied([]blob.Staged{st})
	}
}

// carry puts into op what it names of provisional contents, and returns it: an op can be replayed without those before it.
// FS.mu is held.
func (f *FS) carry(op *store.Op) []blob.Staged {
	var more []blob.Staged
	for n, st := range f.unsettled {
		named := false
		for i := range op.Versions {
			named = named || op.Versions[i].Content == st.Content.Ref && op.Versions[i].Ino == n.ino
		}
		for i := range op.Contents {
			named = named && op.Contents[i].Content != st.Content
		}
		if named {
			f.blobs.Restage(st)
			more = append(more, st)
		}
	}
	op.Contents = append(op.Contents[:len(op.Contents):len(op.Contents)], more...)
	return more
}

// learn gives n the content that its provisional one was found to be. FS.mu is held, and the lock of its contents if it
// has any.
func (f *FS) learn(n *node) {
	st, ok := f.unsettled[n]
	if !ok {
		return
	}
	now, ok := f.blobs.Settled(st.Content)
	if !ok {
		return
	}
	if n.v.Content == st.Content.Ref {
		n.v.Content = now.Ref
	}
	if fl := n.file; fl != nil {
		if fl.committed == st.Content {
			fl.committed = now
		}
		if fl.base == st.Content {
			fl.base = now
		}
	}
	f.forgetPatch(n)
}

// learnAll is learn for all nodes. No lock is held.
func (f *FS) learnAll() {
	f.mu.Lock()
	list := make(map[*node]*file, len(f.unsettled))
	for n := range f.unsettled {
		list[n] = n.file
	}
	f.mu.Unlock()
	for n, fl := range list {
		if fl != nil {
			fl.mu.Lock()
		}
		f.mu.Lock()
		if n.file == fl {
			f.learn(n)
		}
		f.mu.Unlock()
		if fl != nil {
			fl.mu.Unlock()
		}
	}
}

// settleAll waits until no content is provisional, for who is about to compare contents. No lock is held.
func (f *FS) settleAll(ctx context.Context) error {
	f.mu.Lock()
	n, slot := len(f.unsettled), f.st.Last()
	f.mu.Unlock()
	if n == 0 {
		return nil
	}
	if err := f.st.Apply(ctx, slot); err != nil {
		return fmt.Errorf("put large files together: %w", err)
	}
	f.learnAll()
	return nil
}
