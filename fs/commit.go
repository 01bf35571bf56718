package fs

import (
	"slices"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// change collects the rows of one op. It is made and committed under FS.mu without a break, so what was validated
// still holds when it is applied.
type change struct {
	f     *FS
	c     *Call
	op    *store.Op
	nodes []*node       // nodes[i] gets op.Versions[i]
	index map[*node]int // of nodes, once there are many
	now   int64
	// tell is set if the change is none of a program's own: files that are open keep the bytes they have, and kernels are
	// told by what it collects.
	tell *teller
	// mixed: it changed a part of a content that its session has not seen.
	mixed bool
	// receipt is of the request that is done with this op; made is what the op makes.
	receipt *Receipt
	made    store.Ino
	// apart, if not nil, wrote that, and with the op the file becomes more.
	apart *Handle
	wrote blob.Content
}

func (f *FS) begin(c *Call, kind store.OpKind, who store.Attribution) *change {
	return &change{f: f, c: c, now: f.now().UnixNano(), op: &store.Op{Kind: kind, Who: who}}
}

// version is the row that the op gives to n: a copy of its attributes to be edited. Asking again gives the same row;
// the pointer is good until a version of another node is asked for.
func (ch *change) version(n *node) *store.Version {
	if i := ch.find(n); i >= 0 {
		return &ch.op.Versions[i]
	}
	return ch.addVersion(n)
}

// addVersion is version for a node that has no row yet.
func (ch *change) addVersion(n *node) *store.Version {
	v := n.v
	v.Parent, v.ID, v.Replaced, v.Merge = n.v.ID, 0, n.replaced, 0
	if n.file != nil && n.isReg() {
		// What is dirty is not part of this version: its content is the last that was made safe.
		v.Content, v.Size, v.Holes = n.file.committed.Ref, n.file.committed.Size, n.file.committedHoles
	}
	ch.nodes = append(ch.nodes, n)
	ch.op.Versions = append(ch.op.Versions, v)
	return &ch.op.Versions[len(ch.op.Versions)-1]
}

// reserve makes room for an op of about that many rows.
func (ch *change) reserve(versions, names int) {
	ch.nodes = make([]*node, 0, versions)
	ch.op.Versions = make([]store.Version, 0, versions)
	ch.op.Names = make([]store.Name, 0, names)
	ch.op.Items = make([]store.Item, 0, names)
}

// find is the place of n among the op's versions, -1 if it has none.
func (ch *change) find(n *node) int {
	const many = 8
	if len(ch.nodes) < many {
		return slices.Index(ch.nodes, n)
	}
	if ch.index == nil {
		ch.index = make(map[*node]int)
	}
	for i := len(ch.index); i < len(ch.nodes); i++ {
		ch.index[ch.nodes[i]] = i
	}
	if i, ok := ch.index[n]; ok {
		return i
	}
	return -1
}

// touch records that the directory's entries changed.
func (ch *change) touch(n *node) *store.Version {
	v := ch.version(n)
	v.Mtime, v.Ctime = ch.now, ch.now
	return v
}

func (ch *change) bind(parent *node, name string, n *node) {
	ch.op.Names = append(ch.op.Names, store.Name{Parent: parent.v.Ino, Name: name, Ino: n.v.Ino, Type: n.v.Mode & syscall.S_IFMT})
}

func (ch *change) unbind(parent *node, name string) {
	ch.op.Names = append(ch.op.Names, store.Name{Parent: parent.v.Ino, Name: name})
}

func (ch *change) item(kind store.OpKind, n, parent *node, name string) *store.Item {
	it := store.Item{Op: kind, Ino: n.v.Ino, Name: name}
	if parent != nil {
		it.Parent = parent.v.Ino
	} else {
		it.Parent, it.Name = n.parent, n.name
	}
	ch.op.Items = append(ch.op.Items, it)
	return &ch.op.Items[len(ch.op.Items)-1]
}

// commit appends the op and, once the journal has taken it, applies the very same rows to memory. FS.mu is held.
func (ch *change) commit() (store.Slot, error) {
	f, op := ch.f, ch.op
	ws, view := f.ws, f.view
	if ws.Timeline == 0 {
		// The first write after a fork or a rollback begins the timeline, with the same op.
		var err error
		ws.Timeline = f.st.NewTimelineID()
		if view, err = view.Child(ws.Timeline); err != nil {
			return 0, err
		}
		op.Pointer = &store.Pointer{
			Workspace: ws, Why: "first write",
			NewTimeline: &store.Timeline{ID: ws.Timeline, Parent: ws.Base, ParentSeq: ws.BaseSeq, Head: f.seq},
		}
	}
	op.Timeline, op.Workspace = ws.Timeline, ws.ID
	if op.At == 0 {
		op.At = ch.now
	}
	if !op.Amend {
		op.Seq = f.seq + 1
	}
	for i := range op.Versions {
		v := &op.Versions[i]
		if !op.Amend {
			v.Seq, v.Origin, v.ID = op.Seq, op.Timeline, f.st.NewVersionID()
		}
	}
	var carried []blob.Staged
	if len(f.unsettled) > 0 {
		carried = f.carry(op)
	}
	watched := f.tracks.on.Load()
	var before []blob.Content
	if watched {
		f.saveSeen(op)
		before = ch.before()
	}
	ch.receipt.committing(op.Seq, ch.made)
	if ch.apart != nil {
		f.ledger.apart(ch.apart.key(), &ch.wrote, op.Seq)
	}
	slot, err := f.st.Append(op)
	if err != nil {
		ch.receipt.committing(0, 0)
		if ch.apart != nil {
			f.ledger.apart(ch.apart.key(), nil, 0)
		}
		f.blobs.Applied(carried)
		return 0, err
	}
	f.ws, f.view = ws, view
	if !op.Amend {
		f.seq = op.Seq
		if !sameCommand(op.Who.Command, f.run.command) || f.run.command == nil {
			f.run = commandRun{command: op.Who.Command, from: op.Seq}
		}
	}
	ch.applyVersions(slot)
	if watched {
		f.tracked(ch, before)
	}
	for i := range op.Names {
		f.applyName(&op.Names[i], slot, op.Who)
	}
	if ch.tell == nil {
		f.announce(ch)
	}
	return slot, nil
}

// applyVersions makes the op's versions what programs see; of a file with unsaved bytes, size and times stay.
func (ch *change) applyVersions(slot store.Slot) {
	f := ch.f
	for i, n := range ch.nodes {
		v := ch.op.Versions[i]
		if ch.tell != nil && n.isReg() && n.opens > 0 && f.nodeOf(n.ino) == n && (v.Content != n.v.Content || v.Size != n.v.Size) {
			n = n.successor()
			ch.nodes[i] = n
		}
		if n.dirtySince != 0 && n.file != nil {
			v.Size, v.Holes, v.Content = n.v.Size, n.v.Holes, n.v.Content
		}
		if n.birth != nil && !n.birth.held.IsZero() {
			f.letGo(n)
		}
		if n.birth != nil || v.Parent == 0 {
			n.lives(ch.op, &v, slot)
		}
		n.v, n.slot, n.fresh, n.replaced = v, slot, false, 0
		if n.isDir() {
			delete(f.dirTimes, n)
		}
		n.gone = v.Nlink == 0
		if f.nodeOf(v.Ino) != n && !n.stale {
			f.adopt(n)
		}
	}
}

func (f *FS) applyName(nm *store.Name, slot store.Slot, who store.Attribution) {
	p := f.nodeOf(nm.Parent)
	p.slot = max(p.slot, slot)
	old := p.dir.get(nm.Name)
	if old != nil && old.ino != nm.Ino {
		if holder := f.nodeOf(old.ino); holder != nil {
			p.dir.remember(nm.Name, holder.v.ID)
			if nm.Ino == 0 && f.tracks.on.Load() {
				f.lostName(holder, who)
			}
		}
	}
	if nm.Ino == 0 {
		p.dir.remove(nm.Name)
		return
	}
	p.dir.set(nm.Name, nm.Ino, nm.Type)
	if n := f.nodeOf(nm.Ino); n != nil {
		n.parent, n.name = nm.Parent, nm.Name
		n.slot = max(n.slot, slot)
		n.gone = false
	}
}

// sameCommand compares commands by their numbers: a process may be given better words for the same command once it has
// become the program that it was started as.
func sameCommand(a, b *store.Command) bool {
	return a == b || a != nil && b != nil && a.ID == b.ID
}

// sameSession compares what two daemons say: one that had changed nothing yet has another number then.
func sameSession(a, b *store.Session) bool {
	return a == b || a != nil && b != nil && (a.ID == b.ID || a.Name == b.Name)
}

// finish is the end of every changing call: the op is in the journal's queue, the lock is released, and the answer
// waits until it would survive the end of this process, or a power loss if the caller's mount asks for that.
func (f *FS) finish(c *Call, slot store.Slot, err error) error {
	if err != nil {
		return err
	}
	if c != nil && c.Durable {
		c.yield()
		return f.st.Sync(slot)
	}
	return f.st.Wait(slot)
}

// flushDirTimes stores the times of directories in which only files came and went that never became a version.
func (f *FS) flushDirTimes() error {
	f.mu.Lock()
	var slot store.Slot
	for n := range f.dirTimes {
		ch := f.begin(nil, store.OpSetattr, store.Attribution{})
		if n.v.Seq > f.pinned { // nobody can have seen that state of history: no change of its own
			ch.op.Amend, ch.op.Seq = true, n.v.Seq
			*ch.version(n) = n.v
		} else {
			ch.version(n)
		}
		var err error
		if slot, err = ch.commit(); err != nil {
			f.mu.Unlock()
			return err
		}
	}
	f.mu.Unlock()
	return f.finish(nil, slot, nil)
}
