package versions

import (
	"context"
	"fmt"
	"slices"

	"wsfs/store"
)

// nameEvent is one change of what a name led to; 0 is nothing.
type nameEvent struct {
	at            moment
	mine          bool // to be taken back
	before, after store.Ino
	command       store.CommandID
}

// inoEvent is one change of an inode's attributes or content. The versions are nil where they are to be looked up.
type inoEvent struct {
	at            moment
	mine          bool
	born          bool // it did not exist before, or had no name
	before, after *store.Version
	timeline      store.TimelineID
	command       store.CommandID
}

// history is what happened since the first change that is to be taken back, by what it happened to. Its cost is that of these
// changes, whatever the tree holds.
type history struct {
	st    *store.Store
	life  *life
	names map[store.DirName][]nameEvent
	order []store.DirName // keys of names that have an event that is mine, in the order of the first
	inos  map[store.Ino][]inoEvent
	seen  map[store.Ino]*store.Version  // the last version of the inode that the scan met, if the scan has all of them
	past  map[store.Ino]*store.Version  // the last version of an inode that the present knows nothing of
	kinds map[store.Ino]uint32          // S_IFMT, as far as the scan met it
	keys  map[store.Ino][]store.DirName // the names that an inode has had since, or has
	place *placer
	view  *store.View // the present
	// whole are changes whose items do not tell what they replaced: restore, import, undo.
	whole []wholeStep
	slab  []nameEvent // room for the first event of names: most have but one
}

type wholeStep struct {
	at       moment
	mine     bool
	timeline store.TimelineID
	command  store.CommandID
	names    []store.DirName
	inos     []store.Ino
	versions map[store.Ino]*store.Version
}

func newHistory(l *life) *history {
	return &history{
		st: l.st, life: l, names: map[store.DirName][]nameEvent{}, inos: map[store.Ino][]inoEvent{},
		seen: map[store.Ino]*store.Version{}, past: map[store.Ino]*store.Version{}, kinds: map[store.Ino]uint32{},
	}
}

// expect makes room for about n changes, before the first of them.
func (h *history) expect(n store.Seq) {
	const most = 1 << 17
	size := int(min(n, most))
	h.names = make(map[store.DirName][]nameEvent, size)
	h.seen, h.kinds = make(map[store.Ino]*store.Version, size), make(map[store.Ino]uint32, size)
}

func (l *life) history(ctx context.Context, p *picked) (*history, error) {
	h := newHistory(l)
	h.expect(p.last.seq - p.first.seq + 1)
	for _, pc := range l.pieces {
		if pc.move != nil {
			if pc.at().compare(p.first) >= 0 {
				if err := h.jump(ctx, pc, p.moves[pc.move.N] != nil); err != nil {
					return nil, err
				}
			}
			continue
		}
		sp := pc.span
		sp.After = max(sp.After, p.first.seq-1)
		if sp.UpTo <= sp.After {
			continue
		}
		// Versions are read as far as there are changes of ours.
		mid := min(sp.UpTo, max(sp.After, p.last.seq))
		for _, part := range []store.Span{{Timeline: sp.Timeline, After: sp.After, UpTo: mid}, {Timeline: sp.Timeline, After: mid, UpTo: sp.UpTo}} {
			if err := h.span(ctx, part, part.UpTo <= mid, p); err != nil {
				return nil, err
			}
		}
	}
	if err := h.lookUp(ctx); err != nil {
		return nil, err
	}
	h.sort()
	return h, h.parents(ctx)
}

// span reads the changes of one stretch.
func (h *history) span(ctx context.Context, sp store.Span, versions bool, p *picked) error {
	if versions {
		if err := h.complete(ctx, sp); err != nil {
			return err
		}
	}
	var w *wholeStep
	flush := func() {
		if w != nil {
			h.whole = append(h.whole, *w)
			w = nil
		}
	}
	err := h.st.StepItems(ctx, sp, versions, func(s *store.Step, it *store.Item, v *store.Version) error {
		at := moment{seq: s.Seq}
		mine := p.mine(s)
		if v != nil {
			h.seen[it.Ino] = v
			h.kinds[it.Ino] = v.Type()
		} else {
			delete(h.seen, it.Ino)
		}
		switch s.Kind {
		case store.OpUndo, store.OpRedo, store.OpMerge:
			// The items tell every name; an inode may have changed under any of them.
			h.item(s, it, v, mine)
			switch it.Op {
			case store.OpLink, store.OpRename, store.OpExchange:
				h.inode(s, it, v, mine, false)
			}
			return nil
		case store.OpImport, store.OpRestore:
			if w == nil || w.at != at {
				flush()
				w = &wholeStep{at: at, mine: mine, timeline: s.Timeline, command: s.Command, versions: map[store.Ino]*store.Version{}}
			}
			w.add(it, v)
			return nil
		case store.OpWorkspace:
			return nil
		}
		h.item(s, it, v, mine)
		return nil
	})
	flush()
	return err
}

// complete refuses a stretch of changes whose states were collected: what was there before is not known.
func (h *history) complete(ctx context.Context, sp store.Span) error {
	t, err := h.st.Timeline(ctx, sp.Timeline)
	if err == nil && sp.After < t.GCSeq {
		err = fmt.Errorf("read what was there before change %d: %w", sp.After+1, &store.CollectedError{Timeline: t.ID, Seq: sp.After, After: t.GCSeq})
	}
	return err
}

func (w *wholeStep) add(it *store.Item, v *store.Version) {
	if it.Name != "" {
		w.names = append(w.names, store.DirName{Parent: it.Parent, Name: it.Name})
	}
	if it.FromName != "" {
		w.names = append(w.names, store.DirName{Parent: it.FromParent, Name: it.FromName})
	}
	if it.Ino != 0 {
		w.inos = append(w.inos, it.Ino)
		w.versions[it.Ino] = v
	}
}

// item takes in what one item of an ordinary change says.
func (h *history) item(s *store.Step, it *store.Item, v *store.Version, mine bool) {
	at := moment{seq: s.Seq}
	name := func(k store.DirName, before, after store.Ino) {
		list := h.names[k]
		if n := len(list); n > 0 {
			if last := &list[n-1]; last.at == at { // one change, two items
				if after == 0 && last.after != 0 { // a rename, and the removal of what it replaced
					last.before = before
				} else { // an exchange
					last.after = after
				}
				return
			}
			before = list[n-1].after
		}
		if list == nil {
			list = h.room()
		}
		h.names[k] = append(list, nameEvent{at: at, mine: mine, before: before, after: after, command: s.Command})
	}
	ino := func(born bool) { h.inode(s, it, v, mine, born) }
	here, from := store.DirName{Parent: it.Parent, Name: it.Name}, store.DirName{Parent: it.FromParent, Name: it.FromName}
	switch it.Op {
	case store.OpCreate, store.OpMkdir, store.OpSymlink, store.OpMknod:
		name(here, 0, it.Ino)
		ino(true)
	case store.OpLink:
		name(here, 0, it.Ino)
		if v != nil && v.Parent == 0 { // an O_TMPFILE: its first name is its birth
			ino(true)
		}
	case store.OpUnlink, store.OpRmdir:
		name(here, it.Ino, 0)
	case store.OpRename:
		name(from, it.Ino, 0)
		name(here, 0, it.Ino)
	case store.OpExchange:
		// The other item says what was here; this one is enough for what is here now.
		name(here, 0, it.Ino)
		if list := h.names[from]; len(list) == 0 || list[len(list)-1].at != at {
			name(from, it.Ino, 0)
		} else if list[len(list)-1].before == 0 {
			list[len(list)-1].before = it.Ino
		}
	default:
		ino(false)
	}
	switch it.Op {
	case store.OpMkdir, store.OpRmdir:
		h.kinds[it.Ino] = dirType
	case store.OpCreate:
		h.kinds[it.Ino] = fileType
	}
}

// room is an empty list with room for one event.
func (h *history) room() []nameEvent {
	if len(h.slab) == 0 {
		h.slab = make([]nameEvent, 512)
	}
	list := h.slab[:0:1]
	h.slab = h.slab[1:]
	return list
}

// inode takes in that an item's inode changed.
func (h *history) inode(s *store.Step, it *store.Item, v *store.Version, mine, born bool) {
	h.inos[it.Ino] = append(h.inos[it.Ino], inoEvent{
		at: moment{seq: s.Seq}, mine: mine, born: born, after: v, timeline: s.Timeline, command: s.Command,
	})
}

// sort puts all events in order and notes which names are ours.
func (h *history) sort() {
	type first struct {
		at moment
		k  store.DirName
	}
	var ours []first
	for k, list := range h.names {
		if !slices.IsSortedFunc(list, func(a, b nameEvent) int { return a.at.compare(b.at) }) {
			slices.SortStableFunc(list, func(a, b nameEvent) int { return a.at.compare(b.at) })
		}
		for i := range list {
			if list[i].mine {
				ours = append(ours, first{list[i].at, k})
				break
			}
		}
	}
	slices.SortFunc(ours, func(a, b first) int {
		if c := a.at.compare(b.at); c != 0 {
			return c
		}
		return compareNames(a.k, b.k)
	})
	h.order = make([]store.DirName, len(ours))
	for i := range ours {
		h.order[i] = ours[i].k
	}
	for _, list := range h.inos {
		slices.SortStableFunc(list, func(a, b inoEvent) int { return a.at.compare(b.at) })
	}
}
