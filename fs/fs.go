// Package fs is one live workspace: its tree, its open files and what they have not yet made a version of. It knows
// the semantics of POSIX and nothing of FUSE; package fs/fuse translates the kernel's protocol to its methods.
//
// What it keeps true:
//
//   - Memory is the truth while a workspace is live. A directory is either loaded completely or not at all, so a
//     lookup in a loaded one never asks the database. Whatever the database does not have yet stays in memory.
//   - Every change is one store.Op that holds all rows it leads to. It is validated against memory, appended, applied
//     to memory from the very rows in it (commit.go), and only then answered. There is no second way to change the tree.
//   - A version is cut when its writer closes (cut.go). A file that was created and not yet closed has no row: its
//     first version is made with its first bytes, so history never shows the empty file in between.
//   - Bytes that were acknowledged by close, fsync or rename are in the journal.
//
// Locks, outermost first. Nothing is held while waiting for the kernel, for another request or for a process; the
// content lock alone may be held while blobs are read or written, because blobs call nobody back.
//
//	gate             changes pass it; Hold closes it (held.go)
//	└─ file.mu       the contents of one open or dirty file: buffer, extents, scratch file
//	   └─ FS.mu      the tree: nodes, names, attributes, counts, the seq counter; the journal slot is taken under it
//	      └─ (store) Append takes the journal's own lock and never blocks
//	lockTable.mu     advisory locks; a leaf
//	notifier.mu      the queue of what observers must hear; a leaf
//
// A call that may wait says so first through Call.Yield. file.mu is taken by TryLock and, if that fails, after Yield.
package fs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// Options of a live workspace. The zero value works.
type Options struct {
	Log      *slog.Logger
	Now      func() time.Time
	ReadOnly bool
	// At shows this state of the tree instead of the workspace's head, read-only.
	At *store.View
	// MaxNodes is how many inodes stay in memory before clean ones that nobody uses are dropped; 0: 400,000.
	MaxNodes int
	// Ledger is what outlives this process; nil: nothing does. If it holds something, that is what a process before this one
	// left, and the workspace goes on from there.
	Ledger *Ledger
	// Starts is how many processes had the workspace live before this one, while the same kernels had it mounted.
	Starts int
	// RulesOf are the rules that count for a session, by its name, instead of those of the mount; nil, or a nil result: there are
	// none. It is called under locks and must not wait for anything.
	RulesOf func(session string) *Rules
	// CutAfter is how long a file may stay dirty without being closed before its state is made safe; 0: 30 s.
	CutAfter time.Duration
}

// FS is one live workspace. Its methods may be called from any goroutine.
type FS struct {
	st    *store.Store
	blobs *blob.Store
	log   *slog.Logger
	now   func() time.Time
	opts  Options

	gate     sync.RWMutex  // held for reading by every change, for writing by Hold
	released atomic.Uint64 // how often it was opened after something was moved or edited
	locks    lockTable
	notifier notifier
	statfs   statfsCache
	tracks   tracks
	scratch  string // directory of scratch files, on the store's disk
	limits   dirLimits
	keeping
	stop chan struct{}
	tidy chan struct{} // evict soon
	done sync.WaitGroup

	mu        sync.Mutex
	ws        store.Workspace       // guarded by mu
	view      *store.View           // guarded by mu; what the database holds
	nodes     map[store.Ino]*node   // guarded by mu; the tree, by inode number
	cold      map[store.Ino]coldRef // guarded by mu; inodes of the tree that are in memory without a node (cold.go)
	coldDirs  []*dir                // guarded by mu; where they are, by number; nil: the number is free
	coldFree  []uint32              // guarded by mu; numbers to use again
	manyNodes int                   // more are made cold when they are not used
	freed     int                   // guarded by mu; inodes dropped since memory was last given back
	peak      int                   // guarded by mu; inodes that were in memory since the maps were last made
	forgot    int                   // guarded by mu; references that kernels took back since evict looked last
	byID      map[store.Ino]*node   // guarded by mu; nodes whose id is no inode number of the tree, by id
	aliases   store.Ino             // guarded by mu; how many ids were made
	seq       store.Seq             // guarded by mu; highest used
	moves     int                   // guarded by mu; how often the workspace has moved: what was read before is of another state
	loads     int                   // guarded by mu; directory loads in flight: nothing is evicted meanwhile
	dirty     map[*node]struct{}    // guarded by mu; files with bytes or a creation that no version has
	dirTimes  map[*node]struct{}    // guarded by mu; directories whose times no version has
	orphans   []*node               // guarded by mu; inodes to forget once the database has their end
	run       commandRun            // guarded by mu; the uninterrupted run of changes by one command
	pinned    store.Seq             // guarded by mu; history up to here is named by a fork, tag or pin
	closed    bool                  // guarded by mu
	dirsAhead dirsAhead             // guarded by mu
	reading   *reading              // guarded by mu; nil: nobody wants to know what is read
	// unsettled are the nodes with a provisional content (patch.go).
	unsettled map[*node]blob.Staged // guarded by mu
}

// Warm reads ahead what the first look at the tree will need, beside everything else.
func (f *FS) Warm() { f.done.Go(f.st.Warm) }

// commandRun is the stretch of changes at the head of the timeline that one command made without another's between.
type commandRun struct {
	command *store.Command
	from    store.Seq
}

// Open makes the workspace live. The store must be open for writing unless o.ReadOnly.
func Open(ctx context.Context, st *store.Store, ws *store.Workspace, o Options) (*FS, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxNodes == 0 {
		o.MaxNodes = 400_000
	}
	o.ReadOnly = o.ReadOnly || o.At != nil
	if o.CutAfter == 0 {
		o.CutAfter = 30 * time.Second
	}
	f := &FS{
		st: st, blobs: st.Blobs(), log: o.Log.With("workspace", ws.Name), now: o.Now, opts: o, ws: *ws,
		nodes: map[store.Ino]*node{}, cold: map[store.Ino]coldRef{}, byID: map[store.Ino]*node{}, dirty: map[*node]struct{}{}, dirTimes: map[*node]struct{}{},
		unsettled: map[*node]blob.Staged{},
		scratch:   filepath.Join(st.Dir(), "scratch"), stop: make(chan struct{}),
		tidy: make(chan struct{}, 1), limits: defaultDirLimits(),
	}
	f.ledger, f.survived, f.aliases = o.Ledger, o.Starts > 0, store.Ino(o.Starts)<<aliasShift
	f.notifier.start()
	f.statfs.dir = st.Dir()
	f.manyNodes = o.MaxNodes / manyNodes
	var err error
	if f.view = o.At; f.view == nil {
		if f.view, err = st.ViewOf(ctx, ws); err != nil {
			return nil, fmt.Errorf("open workspace %q: %w", ws.Name, err)
		}
	}
	root, err := f.view.Version(ctx, store.RootIno)
	if err != nil {
		return nil, fmt.Errorf("open workspace %q: its root directory cannot be read (run `wsfs check`): %w", ws.Name, err)
	}
	n := newNode(*root)
	n.lookups = 1
	f.nodes[store.RootIno] = n
	if o.ReadOnly {
		if err := f.goOn(); err != nil {
			return nil, fmt.Errorf("open workspace %q: %w", ws.Name, err)
		}
		f.done.Add(1)
		go f.keepHouse()
		return f, nil
	}
	if err := f.openTracks(ctx); err != nil {
		return nil, fmt.Errorf("open workspace %q: %w", ws.Name, err)
	}
	if err := os.MkdirAll(f.scratch, 0o700); err != nil {
		return nil, fmt.Errorf("open workspace %q: make the scratch directory: %w", ws.Name, err)
	}
	if f.seq, err = highestSeq(ctx, st, ws); err != nil {
		return nil, fmt.Errorf("open workspace %q: %w", ws.Name, err)
	}
	f.pinned = f.seq // what was made before this start is never amended
	if err := f.goOn(); err != nil {
		return nil, fmt.Errorf("open workspace %q: %w", ws.Name, err)
	}
	f.clearScratch()
	f.done.Add(2)
	go f.cutOldDirt()
	go f.keepHouse()
	return f, nil
}

// Workspace is a copy of the workspace's row.
func (f *FS) Workspace() *store.Workspace {
	f.mu.Lock()
	defer f.mu.Unlock()
	ws := f.ws
	return &ws
}

// Close makes versions of everything dirty and waits until the database has them. The kernel must not send requests
// any more. Handles that are still open stay readable.
func (f *FS) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.mu.Unlock()
	close(f.stop)
	f.done.Wait()
	err := f.Sync(context.Background())
	f.mu.Lock()
	for _, n := range f.nodes {
		f.letGo(n)
	}
	f.mu.Unlock()
	f.notifier.stop()
	return err
}

// Sync makes versions of everything dirty and returns when all of it, and all before it, would survive a power loss.
func (f *FS) Sync(ctx context.Context) error {
	if f.opts.ReadOnly {
		return nil
	}
	first := f.cutDirty(func(*node) bool { return true })
	if err := f.flushDirTimes(); err != nil && first == nil {
		first = err
	}
	f.flushSeen()
	slot := f.st.Last()
	if err := f.st.Sync(slot); err != nil && first == nil {
		first = err
	}
	if err := f.st.Apply(ctx, slot); err != nil && first == nil {
		first = err
	}
	f.learnAll()
	return first
}

// cutOldDirt makes the state of files safe that stay open and dirty for long, and directory times that no other
// change carried. It sleeps while nothing is dirty for that long.
func (f *FS) cutOldDirt() {
	defer f.done.Done()
	tick := time.NewTicker(f.opts.CutAfter / 2)
	defer tick.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-tick.C:
		}
		limit := f.now().Add(-f.opts.CutAfter / 2).UnixNano()
		if err := f.cutDirty(func(n *node) bool { return n.dirtySince < limit }); err != nil {
			f.log.Error("make long-open files safe", "error", err)
		}
		if err := f.flushDirTimes(); err != nil {
			f.log.Error("store directory times", "error", err)
		}
		f.flushSeen()
		f.learnAll()
	}
}
