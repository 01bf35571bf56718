package store

import (
	"cmp"
	"context"
	"slices"
)

// nameKey is one directory entry of one timeline.
type nameKey struct {
	timeline TimelineID
	parent   Ino
	name     string
}

// nameChange is an entry at a point of a batch. ino 0 is a removal.
type nameChange struct {
	key  int32 // index into nameBatch.list; -1: it was taken back
	seq  Seq
	ino  Ino
	kind uint32
	back bool // the entry becomes what it was before seq, when ino got it
}

// nameState is what the live table says of an entry, before and during a batch.
type nameState struct {
	nameHit          // the row now; found false is no row
	stored     bool  // a row is in the table
	last       int32 // its last change, index into nameBatch.changes
	dirty      bool
	removed    bool // the batch removes it somewhere, so that ancestors must be asked
	lost       bool // its first change in the batch is a removal
	underneath bool // the timeline's ancestors have the name: a removal must leave a tombstone
}

// nameBatch turns the names of a batch of ops into rows: it reads what the live table says of each, works out the
// history in memory, and writes what is left: superseded rows, rows of now, deletions.
type nameBatch struct {
	keys    map[nameKey]int32
	list    []nameKey
	state   []nameState
	changes []nameChange
	history bulk
	live    bulk
	gone    bulk
	back    bulk // superseded rows that count again
}

func newNameBatch(drv *Driver) nameBatch {
	return nameBatch{
		keys:    make(map[nameKey]int32),
		history: newInsert(drv, `file_node_history (timeline_id, parent_ino, name, seq, end_seq, ino, kind)`, `(?,?,?,?,?,?,?)`, ``),
		live: newInsert(drv, `file_node (timeline_id, parent_ino, name, seq, ino, kind)`, `(?,?,?,?,?,?)`,
			` ON CONFLICT (timeline_id, parent_ino, name) DO UPDATE SET seq = excluded.seq, ino = excluded.ino,
			kind = excluded.kind`),
		gone: newDelete("file_node", "timeline_id, parent_ino, name"),
		back: newDelete("file_node_history", "timeline_id, parent_ino, name, seq"),
	}
}

func (b *nameBatch) reset() {
	clear(b.keys)
	clear(b.list)
	b.list, b.state, b.changes = b.list[:0], b.state[:0], b.changes[:0]
	b.history.reset()
	b.live.reset()
	b.gone.reset()
	b.back.reset()
}

func (b *nameBatch) add(op *Op) {
	for i := range op.Names {
		n := &op.Names[i]
		k := b.key(nameKey{op.Timeline, n.Parent, n.Name}, n.Ino == 0)
		if n.Ino == 0 {
			b.state[k].removed = true
		}
		b.change(nameChange{key: k, seq: op.Seq, ino: n.Ino, kind: n.Type})
	}
}

// key finds an entry, or takes it in; lost says that it begins with a removal.
func (b *nameBatch) key(key nameKey, lost bool) int32 {
	k, ok := b.keys[key]
	if !ok {
		k = int32(len(b.list))
		b.keys[key] = k
		b.list = append(b.list, key)
		b.state = append(b.state, nameState{lost: lost, last: -1})
	}
	return k
}

func (b *nameBatch) change(c nameChange) {
	b.state[c.key].last = int32(len(b.changes))
	b.changes = append(b.changes, c)
}

// elide takes back that a temporary got its name, in the batch or in the table.
func (b *nameBatch) elide(t TimelineID, e *Elided) {
	k := b.key(nameKey{t, e.Parent, e.Name}, false)
	if i := b.state[k].last; i >= 0 && b.changes[i].ino == e.Ino && b.changes[i].seq == e.Seqs[0] {
		b.changes[i].key = -1 // nothing was done to the name since
		b.state[k].last = -1
		return
	}
	b.change(nameChange{key: k, seq: e.Seqs[0], ino: e.Ino, back: true})
}

func (b *nameBatch) flush(ctx context.Context, a *applier) error {
	if len(b.changes) == 0 {
		return nil
	}
	if err := b.load(ctx, a.w); err != nil {
		return err
	}
	if err := b.askAncestors(ctx, a); err != nil {
		return err
	}
	for _, c := range b.changes {
		switch {
		case c.key < 0:
		case c.back:
			if err := b.restore(ctx, a.w, c); err != nil {
				return err
			}
		default:
			b.apply(c)
		}
	}
	if err := b.back.flush(ctx, a.w); err != nil {
		return err
	}
	if err := b.history.flush(ctx, a.w); err != nil {
		return err
	}
	if err := b.writeLive(ctx, a.w); err != nil {
		return err
	}
	b.reset()
	return nil
}

// load reads the live rows of all entries of the batch.
func (b *nameBatch) load(ctx context.Context, q querier) error {
	keys := make([]any, 0, 5*len(b.list))
	for i, k := range b.list {
		keys = append(keys, int64(i), int64(k.timeline), int64(k.parent), []byte(k.name), int64(MaxSeq))
	}
	hits := make([]nameHit, len(b.list))
	if err := namesAt(ctx, q, keys, hits); err != nil {
		return err
	}
	for i, h := range hits {
		b.state[i].nameHit, b.state[i].stored = h, h.found
	}
	return nil
}

// askAncestors finds out which of the removed entries the ancestors of their timeline have. What an op removes was there:
// without a row here it was theirs, and nobody needs to be asked.
func (b *nameBatch) askAncestors(ctx context.Context, a *applier) error {
	ask := make(map[TimelineID][]int)
	for i := range b.state {
		st, t := &b.state[i], b.list[i].timeline
		switch {
		case !st.removed || len(a.timelines[t].chain) == 0:
		case st.lost && !st.stored:
			st.underneath = true
		default:
			ask[t] = append(ask[t], i)
		}
	}
	for t, list := range ask {
		names := make([]dirName, len(list))
		for j, i := range list {
			names[j] = dirName{b.list[i].parent, b.list[i].name}
		}
		hits, err := namesOn(ctx, a.w, a.timelines[t].chain, names)
		if err != nil {
			return err
		}
		for j, i := range list {
			b.state[i].underneath = hits[j].ino != 0
		}
	}
	return nil
}

// apply moves the entry on by one change.
func (b *nameBatch) apply(c nameChange) {
	st, k := &b.state[c.key], &b.list[c.key]
	if c.ino == 0 && (!st.found && !st.underneath || st.found && st.ino == 0) {
		return // removed already
	}
	// Two changes of one entry at one seq are one: the later.
	if st.found && st.seq < c.seq {
		b.history.add(int64(k.timeline), int64(k.parent), []byte(k.name), int64(st.seq), int64(c.seq), int64(st.ino),
			int64(st.kind))
	}
	st.nameHit = nameHit{found: c.ino != 0 || st.underneath, seq: c.seq, ino: c.ino, kind: c.kind}
	st.dirty = true
}

// sqlNameBefore is the tombstone that ended when a name was given again.
const sqlNameBefore = `SELECT h.seq, h.kind FROM file_node_history h WHERE h.timeline_id = ? AND h.parent_ino = ? AND h.name = ?
	AND h.seq = (SELECT max(g.seq) FROM file_node_history g WHERE g.timeline_id = ? AND g.parent_ino = ? AND g.name = ? AND g.seq < ?)
	AND h.end_seq = ? AND h.ino = 0`

// restore makes the entry, which the table says an inode has got at c.seq, what it was before: removed, or not there. If
// the table says anything else it is damaged, and left alone: `wsfs check` tells.
func (b *nameBatch) restore(ctx context.Context, w *writer, c nameChange) error {
	st, k := &b.state[c.key], &b.list[c.key]
	if !st.found || st.ino != c.ino || st.seq != c.seq {
		return nil
	}
	st.nameHit, st.dirty = nameHit{}, true
	t, p, name := int64(k.timeline), int64(k.parent), []byte(k.name)
	_, err := scanAll(ctx, w, 2, sqlNameBefore, []any{t, p, name, t, p, name, int64(c.seq), int64(c.seq)}, func(r *cells) error {
		st.nameHit = nameHit{found: true, seq: Seq(r.int(0)), kind: uint32(r.int(1))}
		b.back.add(t, p, name, r.int(0))
		return r.bad
	})
	return err
}

func (b *nameBatch) writeLive(ctx context.Context, w *writer) error {
	// In key order, so that a page is touched once.
	order := make([]int32, 0, len(b.list))
	for i := range b.state {
		if b.state[i].dirty {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(i, j int32) int {
		x, y := &b.list[i], &b.list[j]
		return cmp.Or(cmp.Compare(x.timeline, y.timeline), cmp.Compare(x.parent, y.parent), cmp.Compare(x.name, y.name))
	})
	for _, i := range order {
		st, k := &b.state[i], &b.list[i]
		if st.found {
			b.live.add(int64(k.timeline), int64(k.parent), []byte(k.name), int64(st.seq), int64(st.ino), int64(st.kind))
			continue
		}
		if st.stored {
			b.gone.add(int64(k.timeline), int64(k.parent), []byte(k.name))
		}
	}
	if err := b.live.flush(ctx, w); err != nil {
		return err
	}
	return b.gone.flush(ctx, w)
}
