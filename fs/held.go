package fs

import (
	"context"
	"fmt"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// Held is a live workspace whose writers wait. Its methods are for one goroutine.
type Held struct {
	f     *FS
	moved []*Moved
	done  bool
}

// Edit is a set of end states, to be reached as one change.
type Edit struct {
	Kind   store.OpKind
	Who    store.Attribution
	Undoes []store.Undone
	// Merged, Pins and Conflicts go with the change, which is made for them even if nothing else differs.
	Merged    *store.Merged
	Pins      []store.PinChange
	Conflicts []store.Conflict
	Reviews   []store.Review
	// Names are wanted end states: what each name leads to, Ino 0 for nothing. Parents may be made by the same edit. No
	// name comes twice.
	Names []store.Name
	// Versions are wanted end states of inodes: of each, mode, owner, xattrs, content, size, holes, target, rdev and mtime
	// count (0: now), and Replaced and Merge if they are not 0. Link counts are worked out. An inode that has no name and
	// gets one must be among them. If its ID is not 0 and its Nlink is 0, it is taken for granted that it has no name now and
	// that this is its last version; the maker of the edit may know that where asking again would cost.
	Versions []store.Version
	// Contents are the bytes of contents that the store does not have.
	Contents []blob.Staged
	Resolves []store.ConflictID // conflicts that end with it
}

// Move is another point for the workspace to stand on.
type Move struct {
	Timeline store.TimelineID
	Seq      store.Seq
	Why      string
	Who      store.Attribution
}

// Hold makes all writers wait, makes versions of everything dirty, and returns when the database has them. The caller
// must not take long, and must release the workspace in any case.
func (f *FS) Hold(ctx context.Context) (*Held, error) { return f.hold(ctx, true) }

// HoldQueued is Hold, but the database may still be behind: what the writers did last is queued. At says whether that is what
// the caller knows of; only Move may be used.
func (f *FS) HoldQueued(ctx context.Context) (*Held, error) { return f.hold(ctx, false) }

func (f *FS) hold(ctx context.Context, applied bool) (*Held, error) {
	if f.opts.ReadOnly {
		return nil, fmt.Errorf("hold workspace %q: %w", f.ws.Name, syscall.EROFS)
	}
	f.gate.Lock()
	h := &Held{f: f}
	err := f.cutDirty(func(*node) bool { return true })
	if err == nil {
		err = f.flushDirTimes()
	}
	if err == nil && applied {
		err = f.st.Apply(ctx, f.st.Last())
	}
	f.learnAll()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && f.closed {
		err = syscall.EROFS
	}
	if err != nil {
		f.gate.Unlock()
		return nil, fmt.Errorf("hold workspace %q: %w", f.ws.Name, err)
	}
	f.pinned, f.run = f.seq, commandRun{}
	return h, nil
}

// At is the point that the workspace stands on. It changes only by Edit and Move while it is held.
func (h *Held) At() (store.TimelineID, store.Seq) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	return h.f.at()
}

// at is the point that the workspace stands on. FS.mu is held.
func (f *FS) at() (store.TimelineID, store.Seq) {
	if f.ws.Timeline == 0 {
		return f.ws.Base, f.ws.BaseSeq
	}
	return f.ws.Timeline, f.seq
}

// Release lets the writers go on, and returns when every mount has told its kernel what was changed.
func (h *Held) Release() {
	if h.done {
		return
	}
	h.done = true
	if len(h.moved) > 0 {
		h.f.released.Add(1)
	}
	h.f.gate.Unlock()
	for _, m := range h.moved {
		h.f.notifier.push(event{moved: m})
	}
	h.f.notifier.drain()
}
