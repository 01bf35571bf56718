package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"wsfs/blob"
	"wsfs/store"
)

// point is a place on a timeline.
type point struct {
	timeline store.TimelineID
	seq      store.Seq
}

// world is a store and the model of everything that was ever true in it.
type world struct {
	t     *testing.T
	st    *store.Store
	rnd   *rand.Rand
	clock int64

	trees    []*tree
	past     map[point]state // the whole tree after every change
	all      bool            // groups of one op: every past state is exact
	exact    map[point]bool  // past states whose directory times are kept, see compare
	log      map[store.TimelineID][]*store.Op
	parents  map[store.TimelineID]point
	pinned   map[store.TimelineID]store.Seq // nothing up to here may be amended
	bytes    map[blob.Ref][]byte
	commands []store.Attribution
	last     store.Slot
	names    int
	forks    int
	gone     map[point]bool // past states that were collected
	bases    []point        // where forks and rollbacks led
	classes  *store.Classes // by which contents are let go, or nil: states that lack some are not gone back to
}

func newWorld(t *testing.T, st *store.Store, seed uint64, group int) *world {
	w := &world{
		t: t, st: st, rnd: rand.New(rand.NewPCG(seed, 1)), clock: 1_700_000_000_000_000_000, all: group == 1,
		past: make(map[point]state), exact: make(map[point]bool), log: make(map[store.TimelineID][]*store.Op),
		parents: make(map[store.TimelineID]point), pinned: make(map[store.TimelineID]store.Seq),
		bytes: make(map[blob.Ref][]byte),
	}
	var parent *store.Session
	for i := range 3 {
		s := &store.Session{ID: st.NewSessionID(), Name: fmt.Sprint("session", i), Agent: "test", StartedAt: w.clock, Parent: parent}
		if parent = s; i > 0 {
			s.Meta = `{"human":"x"}`
		}
		root := &store.Process{ID: st.NewProcessID(), Session: s.ID, PID: 10 + i, StartTicks: 7, Comm: "bash", Argv: "bash\x00-l"}
		for n := range 4 {
			p := &store.Process{ID: st.NewProcessID(), Session: s.ID, Parent: root, PID: 100 + n, StartTicks: 9, Comm: "cp\xff", Cwd: "/w", Unread: n == 0}
			c := &store.Command{ID: st.NewCommandID(), Session: s.ID, N: n + 1, Argv: "cp\x00a\x00b", Cwd: "/w", StartedAt: w.clock}
			w.commands = append(w.commands, store.Attribution{Session: s, Command: c, Process: p})
		}
	}
	return w
}

// who is mostly the last command again, as it is in life.
func (w *world) who() store.Attribution {
	switch n := w.rnd.IntN(20); {
	case n == 0:
		return store.Attribution{}
	case n == 1:
		i := w.rnd.IntN(len(w.commands))
		w.commands[0], w.commands[i] = w.commands[i], w.commands[0]
	}
	return w.commands[0]
}

func (w *world) send(op *store.Op) {
	w.t.Helper()
	slot, err := w.st.Append(op)
	if err != nil {
		w.t.Fatalf("append %+v: %v", op, err)
	}
	w.last = slot
}

// append sends a tree's op and keeps the state after it.
func (w *world) append(t *tree) {
	w.t.Helper()
	w.send(t.op)
	w.log[t.op.Timeline] = append(w.log[t.op.Timeline], t.op)
	w.past[point{t.op.Timeline, t.op.Seq}] = t.now.clone()
}

// amended sends an amending op and changes the past in which its version can be seen.
func (w *world) amended(t *tree, v store.Version) {
	w.t.Helper()
	w.send(t.op)
	for p, s := range w.past {
		if n := s[v.Ino]; p.timeline == t.ws.Timeline && n != nil && n.v.ID == v.ID {
			n.v = v
		}
	}
}

func (w *world) settle() {
	w.t.Helper()
	if err := w.st.Apply(w.t.Context(), w.last); err != nil {
		w.t.Fatalf("apply: %v", err)
	}
}

// create makes a workspace: pointer, timeline and root directory in one op.
func (w *world) create(name string) *tree {
	w.t.Helper()
	t := &tree{w: w, now: make(state)}
	t.ws = store.Workspace{ID: w.st.NewWorkspaceID(), Name: name, Timeline: w.st.NewTimelineID(), CreatedAt: w.clock}
	t.begin(store.OpWorkspace)
	t.op.Pointer = &store.Pointer{Workspace: t.ws, NewTimeline: &store.Timeline{ID: t.ws.Timeline}, Why: "init"}
	root := store.Version{
		Ino: store.RootIno, Seq: t.op.Seq, ID: w.st.NewVersionID(), Mode: syscall.S_IFDIR | 0o755, Nlink: 2, Mtime: t.op.At,
		Ctime: t.op.At, Atime: t.op.At, Origin: t.ws.Timeline,
	}
	t.op.Versions = []store.Version{root}
	t.now[store.RootIno] = &node{v: root, kids: make(map[string]store.Ino)}
	w.trees = append(w.trees, t)
	w.append(t)
	return t
}

// move sends a change of a workspace's pointer.
func (w *world) move(t *tree, why string, timeline *store.Timeline) {
	w.t.Helper()
	w.send(&store.Op{
		Kind: store.OpWorkspace, Workspace: t.ws.ID, At: w.clock, Who: w.who(),
		Pointer: &store.Pointer{Workspace: t.ws, NewTimeline: timeline, Why: why},
	})
}

// place is where a tree stands now.
func (t *tree) place() point {
	if t.ws.Timeline != 0 {
		return point{t.ws.Timeline, t.head}
	}
	return point{t.ws.Base, t.ws.BaseSeq}
}

// fork makes a workspace that starts at p, a place in the life of from.
func (w *world) fork(from *tree, name string, p point) *tree {
	w.t.Helper()
	if p == from.place() && from.ws.Timeline != 0 {
		w.exact[p] = true // what is at a head when it is forked is kept exactly
	}
	w.pin(p)
	w.bases = append(w.bases, w.owner(p))
	t := &tree{w: w, head: p.seq, now: w.load(p)}
	t.ws = store.Workspace{
		ID: w.st.NewWorkspaceID(), Name: name, Base: p.timeline, BaseSeq: p.seq, Parent: from.ws.ID, CreatedAt: w.clock,
	}
	w.move(t, "fork", nil)
	t.ws.Base, t.told = w.owner(p).timeline, p.timeline
	w.trees = append(w.trees, t)
	return t
}

func (w *world) pin(p point) {
	p = w.owner(p)
	w.pinned[p.timeline] = max(w.pinned[p.timeline], p.seq)
}

// rollback moves a workspace to p, a place in its own past. Its seqs go on from where they were.
func (w *world) rollback(t *tree, p point) {
	w.t.Helper()
	w.pin(p)
	w.bases = append(w.bases, w.owner(p))
	t.now = w.load(p)
	t.ws.Timeline, t.ws.Base, t.ws.BaseSeq = 0, p.timeline, p.seq
	t.ws.Generation++
	w.move(t, "rollback", nil)
	t.ws.Base, t.told = w.owner(p).timeline, p.timeline
}

// writable gives a tree a timeline of its own, as the first write after a fork or rollback does.
func (w *world) writable(t *tree) {
	w.t.Helper()
	if t.ws.Timeline != 0 {
		return
	}
	tl := &store.Timeline{ID: w.st.NewTimelineID(), Parent: t.told, ParentSeq: t.ws.BaseSeq, Head: t.head}
	t.ws.Timeline = tl.ID
	w.parents[tl.ID] = w.owner(point{tl.Parent, tl.ParentSeq})
	w.move(t, "write", tl)
}

// owner is the same point on the timeline that it lies on.
func (w *world) owner(p point) point {
	for {
		par, ok := w.parents[p.timeline]
		if !ok || p.seq > par.seq {
			return p
		}
		p.timeline = par.timeline
	}
}

// at is the state of a point, which may be a gap.
func (w *world) at(p point) state {
	for {
		p = w.owner(p)
		if s := w.past[p]; s != nil {
			return s
		}
		p.seq--
	}
}

// load is the state of a point for a tree that begins there. In the middle of a group the times of directories may be
// older than the model has them; the tree goes on from what the store has, as package fs would.
func (w *world) load(p point) state {
	w.t.Helper()
	s := w.at(p).clone()
	if w.all || w.exact[p] {
		return s
	}
	w.settle()
	v, err := w.st.ViewAt(w.t.Context(), p.timeline, p.seq)
	if err != nil {
		w.t.Fatalf("view at %v: %v", p, err)
	}
	for ino, n := range s {
		if !n.v.IsDir() {
			continue
		}
		got, err := v.Version(w.t.Context(), ino)
		if w.gone != nil && n.v.Nlink == 0 && errors.Is(err, syscall.ENOENT) {
			delete(s, ino)
			continue
		}
		if err != nil {
			w.t.Fatalf("inode %d at %v: %v", ino, p, err)
		}
		w.compareVersion(fmt.Sprintf("directory %d at %v", ino, p), got, &n.v, false)
		n.v = *got
	}
	return s
}

// somewhere is a place in the life of a tree. Half of the time it is told as a seq of the tree's own timeline, though it
// may lie on an ancestor.
func (w *world) somewhere(t *tree) point {
	list := w.pasts(t)
	p := list[w.rnd.IntN(len(list))]
	if w.classes != nil && w.lacks(p) {
		p = t.place()
	}
	if w.rnd.IntN(2) == 0 {
		p.timeline = t.place().timeline
	}
	return p
}

// pasts lists the places in the life of a tree: its timeline and what is below.
func (w *world) pasts(t *tree) []point {
	var list []point
	p := t.place()
	for {
		for _, op := range w.log[p.timeline] {
			if op.Seq <= p.seq && !w.gone[point{p.timeline, op.Seq}] {
				list = append(list, point{p.timeline, op.Seq})
			}
		}
		par, ok := w.parents[p.timeline]
		if !ok {
			return list
		}
		p = par
	}
}

func (w *world) forkName() string {
	w.forks++
	return fmt.Sprint("fork", w.forks)
}

func (w *world) name() string {
	w.names++
	names := []string{"a", "b", "c", "d", "e", "x\xff\xfe", "n\nl", "%s", "'q'", "Ünï", ".git"}
	if w.rnd.IntN(10) == 0 {
		return fmt.Sprintf("%s%d", bytes.Repeat([]byte("l"), 200), w.names)
	}
	return names[w.rnd.IntN(len(names))]
}

// content makes new bytes, mostly small.
func (w *world) content(ctx context.Context) content {
	w.t.Helper()
	n := []int{0, 1, 10, 100, 1000, 5000, 200_000}[min(w.rnd.IntN(40), 6)%7]
	if n == 200_000 && w.rnd.IntN(10) > 0 {
		n = 300
	}
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(w.rnd.Uint32())
	}
	if n > 300 {
		slices.Sort(data[:n/2]) // something to compress
	}
	var c content
	if n <= blob.MaxBlob {
		c.staged = w.st.Blobs().StageSmall(slices.Clone(data))
	} else {
		var err error
		c.staged, _, err = w.st.Blobs().Edit(ctx, blob.Content{}, int64(n), []blob.Extent{{Off: 0, Len: int64(n)}}, bytes.NewReader(data))
		if err != nil {
			w.t.Fatalf("edit: %v", err)
		}
	}
	w.bytes[c.staged.Content.Ref] = data
	return c
}
